"""Streaming reads over the network: the offset is a position of the log, whichever node it is read from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ordo.follow.executions import Executions
from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.recordings.network import (
    ANYWAY,
    NetworkLog,
    NetworkRun,
    boundary,
    check_not_lost,
    find_time_unit,
    plan_network,
)
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.reading import read_task
from ordo.pipeline.recordings.repeats import UNKNOWN, Repeats, RepeatScan, advance_network, wants_numbers, wants_scan
from ordo.pipeline.schemas.newer_schemas import NewerSchemas
from ordo.pipeline.spark.offsets import Offset, check_survey, positions_of, with_cluster
from ordo.pipeline.spark.read_limit import default_read_limit

KEY = "log"
RUNNING_TIMEOUT_S = 5.0
"""How long a running query asks nodes of which none answers, before it says that there is nothing new."""
PAUSE_S = 0.1
"""How long a run waits before it asks again whether the nodes have come as far as its checkpoint."""


@dataclass
class NetworkPartition(InputPartition):
    """What one task of a micro-batch reads."""

    run: NetworkRun
    repeats: Repeats | None = None
    decoder: LogDecoder | None = None
    """By the schemas that came while the stream ran, too."""


class NetworkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The committed log of a cluster as a stream.

    Messages that end at or before the offset were delivered. Nodes may die, restart and be replaced: a query waits
    while none has anything new, and asks those that its options name when it is started again.
    """

    def __init__(self, log: NetworkLog, options: ReadSettings, columns: tuple[str, ...]) -> None:
        self._log = log
        self._options = options
        self._columns = columns
        self._frozen: int | None = None
        self._seen: Survey | None = None
        self._time_unit = options.time_unit
        self._behind_since_s: float | None = None
        self._scan: RepeatScan | None = None
        self._newer = NewerSchemas(options.decoder, columns)

    def initialOffset(self) -> Offset:
        start = self._options.starting_position
        found = self._survey()
        if start.isdigit():
            check_start(int(start), [found.end_position])
            return with_cluster({KEY: int(start)}, found.origin)
        return with_cluster({KEY: found.start_position if start == "earliest" else found.end_position}, found.origin)

    def getDefaultReadLimit(self) -> ReadLimit:
        return default_read_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._survey().end_position

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        after = _position_of(start)
        found = self._of_checkpoint(start, after, self._survey())
        if self._frozen is not None:
            found = self._of_checkpoint(start, after, self._await_position(after, found))
        check_not_lost(after, found, self._log.lenient)
        self._check_not_another(after, found)
        return with_cluster({KEY: self._end_of_batch(after, found, limit)}, found.origin)

    def _of_checkpoint(self, offset: Offset, position: int, found: Survey) -> Survey:
        """Return what was found, with the identity of the cluster that the checkpoint belongs to from now on.

        Raises OtherClusterError where the nodes are of another one.
        """
        return replace(found, origin=check_survey(offset, position, found, self._log.prove))

    def _end_of_batch(self, after: int, found: Survey, limit: ReadLimit) -> int:
        upto = found.end_position if self._frozen is None else min(self._frozen, found.end_position)
        if upto <= after:
            return after
        if isinstance(limit, ReadMaxRows):
            return boundary(self._log, found, after, upto, limit.max_rows)
        if isinstance(limit, ReadMaxBytes) and upto - after > limit.max_bytes:
            return boundary(self._log, found, after, after + limit.max_bytes)
        return upto

    def reportLatestOffset(self) -> Offset:
        return {KEY: self._survey().end_position}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        after, upto = _position_of(start), _position_of(end)
        if upto <= after:
            return []
        found = self._of_checkpoint(end, after, self._seen or self._survey())
        check_not_lost(after, found, self._log.lenient)
        if self._time_unit is None:
            self._time_unit = find_time_unit(self._log, found)
        options = self._options
        runs = plan_network(
            self._log, found, after, upto, self._time_unit or 0, options.partition_bytes, options.partitions
        )
        repeats = self._find_repeats(found, after, upto)
        decoder = self._newer.at_nodes(self._log, found, upto)
        return [
            NetworkPartition(run, None if repeats is None else repeats.within(run.after, run.upto), decoder)
            for run in runs
        ]

    def _find_repeats(self, found: Survey, after: int, upto: int) -> Repeats | None:
        """Return the repeats before a batch, which continues where the last one ended.

        The first one reads the log up to there.
        """
        if not wants_scan(self._columns, self._options.predicates):
            return None
        if self._scan is None and found.start_position > 0:
            return UNKNOWN
        if self._scan is None:
            self._scan = RepeatScan(Executions(numbers=wants_numbers(self._columns, self._options.predicates)), 0)
        self._scan.forget(after)
        advance_network(self._scan, self._log, found, upto, self._options.partition_bytes)
        return self._scan.repeats()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, NetworkPartition)
        options = self._options
        if partition.decoder is not None:
            options = replace(options, decoder=partition.decoder)
        return read_task(partition.run, options, options.predicates, self._columns, partition.repeats)

    def _survey(self) -> Survey:
        """Return what the nodes have; what they last had while none of them answers, but for the first time."""
        if self._seen is None:
            self._seen = self._log.survey()
            return self._seen
        access = replace(self._log.access, timeout_s=min(self._log.access.timeout_s, RUNNING_TIMEOUT_S))
        try:
            self._seen = replace(self._log, access=access).survey(tuple(self._seen.silent))
        except PipelineError:
            return self._seen
        return self._seen

    def _await_position(self, after: int, found: Survey) -> Survey:
        """Return what the nodes have in a run that ends with what is there now.

        A node that has just started is given time. Raises DataLossError when that is less than was delivered.
        """
        deadline_s = time.monotonic() + self._log.access.timeout_s
        while found.end_position < after and self._options.fail_on_data_loss:
            if time.monotonic() >= deadline_s:
                raise DataLossError(describe_beyond(", ".join(found.answered), after, found.end_position))
            time.sleep(PAUSE_S)
            self._frozen = None
            found = self._survey()
        if self._frozen is None:
            self._frozen = found.end_position
        return found

    def _check_not_another(self, after: int, found: Survey) -> None:
        """Raise DataLossError when all nodes end below the offset for long: they have another log.

        A node that has just started knows of less than it had.
        """
        if found.end_position >= after or not self._options.fail_on_data_loss:
            self._behind_since_s = None
            return
        now_s = time.monotonic()
        if self._behind_since_s is None:
            self._behind_since_s = now_s
        if now_s - self._behind_since_s >= self._log.access.timeout_s and not found.silent:
            raise DataLossError(
                f"the checkpoint ends at position {after}, and the log of {', '.join(found.answered)} ends at "
                f"{found.end_position}: it is another log{ANYWAY}"
            )


def _position_of(offset: Offset) -> int:
    positions = positions_of(offset)
    if set(positions) != {KEY}:
        raise DataLossError(
            f"the checkpoint is of {', '.join(sorted(positions))}, and this stream reads a log over the network; begin "
            f"with a new checkpoint, and option startingPosition=<position>"
        )
    return positions[KEY]


def check_start(position: int, ends: Sequence[int]) -> None:
    """Raise PipelineError for a position to begin at that no recording has reached: nothing would come."""
    end = max(ends, default=position)
    if position > end:
        raise PipelineError(
            f"option startingPosition={position}: the log ends at {end}: begin there or below, or with latest"
        )


def describe_beyond(what: str, position: int, end: int) -> str:
    """Why a run that reads what is there now, and no more, has nothing to read after its checkpoint."""
    return (
        f"{what}: the checkpoint ends at position {position}, and the log ends at {end}: it is another log, or its "
        f"node has just started and does not know yet what is committed; run it again{ANYWAY}"
    )

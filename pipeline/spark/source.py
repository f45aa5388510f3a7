"""The `ordo` data source: recordings as data frames, batch and streaming.

    spark.dataSource.register(OrdoLog)
    log = spark.read.format("ordo").load("/data/node0/archive")

Spark does not tell a Python source which columns a query uses. Ask for them with `.option("columns", ...)` or with a
schema of your own (`.schema("position long, payload binary")`), and only they are built.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ordo.pipeline.decoding.errors import CommitUnknownError, DataLossError, PipelineError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.recordings.network import ANYWAY, NetworkRun
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import Run, plan
from ordo.pipeline.recordings.predicates import INT64_MAX
from ordo.pipeline.recordings.reading import Task, find_repeats, plan_read, read_task, schema_of
from ordo.pipeline.recordings.recordings import Recording
from ordo.pipeline.recordings.repeats import (
    UNKNOWN,
    Repeats,
    RepeatScan,
    advance,
    begin_scan,
    key_of,
    wants_numbers,
    wants_scan,
)
from ordo.pipeline.schemas.log_schemas import with_decoder
from ordo.pipeline.schemas.newer_schemas import NewerSchemas
from ordo.pipeline.spark.network_stream import NetworkStreamReader, check_start, describe_beyond
from ordo.pipeline.spark.offsets import Offset, check_folders, positions_of, with_cluster
from ordo.pipeline.spark.read_limit import bounded_bytes, bounded_rows, default_read_limit

OPTIONS_KEY = "ordo.options"
"""Metadata of a schema's first column. Spark (4.3) shows a Python source a table's options when the table is made, and
none of them when it is read; what it does give back is the schema."""
SCHEMAS_KEY = "ordo.schemas"
"""Metadata beside it: the schemas of the log that the columns of decoder `log` were made of. Those who read them find
the same ones, whatever the log has got since."""
CATALOG_PROPERTIES = frozenset(
    ("location", "owner", "provider", "comment", "external", "is_managed_location", "collation", "table_type")
)
SPARK_TYPES: dict[str, DataType] = {
    "recording": LongType(),
    "node": StringType(),
    "leadership_term": LongType(),
    "position": LongType(),
    "start_position": LongType(),
    "timestamp": TimestampType(),
    "cluster_time": LongType(),
    "kind": StringType(),
    "session_id": LongType(),
    "correlation_id": LongType(),
    "payload": BinaryType(),
    "payload_length": IntegerType(),
    "body": BinaryType(),
    "is_repeat": BooleanType(),
    "sequence": LongType(),
    "arrival_ns": LongType(),
}


def without_catalog_properties(options: dict[str, str]) -> dict[str, str]:
    """Options without what Spark's catalog adds of its own when a table is made."""
    return {
        name: value for name, value in options.items()
        if name.lower() not in CATALOG_PROPERTIES and not name.lower().startswith("option.")
    }  # fmt: skip


def log_schema(columns: Iterable[str]) -> StructType:
    """Spark schema of these columns of a log."""
    return StructType([StructField(name, SPARK_TYPES[name], True) for name in columns])


def register(spark: SparkSession) -> SparkSession:
    """Make format `ordo` known to a session.

    Spark's filters are evaluated by Spark. The options `startTime`, `kinds` and so on skip what they rule out.
    """
    spark.dataSource.register(OrdoLog)
    return spark


class OrdoLog(DataSource):
    """Format `ordo`; options in `ordo.pipeline.recordings.options.DESCRIPTIONS`."""

    @classmethod
    def name(cls) -> str:
        return "ordo"

    def schema(self) -> StructType:
        given = dict(self.options)
        options = with_decoder(ReadSettings.parse(without_catalog_properties(given)))
        schema = StructType([StructField(name, kind, True) for name, kind in types_of(options).items()])
        schema.fields[0].metadata = {OPTIONS_KEY: json.dumps(without_catalog_properties(given))}
        if isinstance(options.decoder, LogDecoder):
            schema.fields[0].metadata[SCHEMAS_KEY] = options.decoder.text()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options(schema)
        return LogReader(options, _columns_of(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options(schema)
        columns = _columns_of(schema, options)
        if options.network is not None:
            return NetworkStreamReader(options.network, options, columns)
        return LogStreamReader(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ordo.pipeline.spark.sink import ClusterWriter, WriteSettings

        return ClusterWriter(WriteSettings.parse(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from ordo.pipeline.spark.sink import ClusterStreamWriter, WriteSettings

        return ClusterStreamWriter(WriteSettings.parse(self.options, schema, overwrite))

    def _options(self, schema: StructType) -> ReadSettings:
        """Return the options of this read; of a table those that it was made with, unless the query says otherwise."""
        kept = next((field.metadata[OPTIONS_KEY] for field in schema.fields if OPTIONS_KEY in field.metadata), "{}")
        options = ReadSettings.parse({**json.loads(kept), **without_catalog_properties(dict(self.options))})
        found = next((field.metadata[SCHEMAS_KEY] for field in schema.fields if SCHEMAS_KEY in field.metadata), None)
        if found is not None and isinstance(options.decoder, LogDecoder):  # those that the columns were made of
            options = replace(options, decoder=LogDecoder.parse(found))
        return with_decoder(options)


def types_of(options: ReadSettings) -> dict[str, DataType]:
    """Return the columns that these options read, whose decoder is ready, with Spark's types."""
    decoded = {field.name: field.dataType for field in from_arrow_schema(schema_of(options)).fields}
    return {name: SPARK_TYPES.get(name, kind) for name, kind in decoded.items()}


def _columns_of(schema: StructType, options: ReadSettings) -> tuple[str, ...]:
    """Column names of a schema, which may be the caller's own choice. Raises PipelineError when it does not fit."""
    known = {**SPARK_TYPES, **types_of(options)}
    for field in schema.fields:
        if known.get(field.name) != field.dataType:
            allowed = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise PipelineError(
                f"column {field.name} {field.dataType.simpleString()} is not one of a log; allowed are {allowed}"
            )
    return tuple(schema.names)


@dataclass
class TaskPartition(InputPartition):
    """What one task reads."""

    task: Task
    repeats: Repeats | None = None


class LogReader(DataSourceReader):
    """Batch reads: what the options want is planned once, when the first query of a frame runs."""

    def __init__(self, options: ReadSettings, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._predicates = options.predicates

    def partitions(self) -> Sequence[InputPartition]:
        tasks = plan_read(self._options, self._predicates)
        found = find_repeats(self._options, self._predicates, self._columns) if tasks else {}
        return [TaskPartition(task, _part_of(found, task)) for task in tasks] or [TaskPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return read_task(partition.task, self._options, self._predicates, self._columns, partition.repeats)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reads. The offset of a recording is a position: messages that end at or before it were delivered.

    Offsets are exact, so a restart from a checkpoint neither loses nor repeats, and they never pass the commit
    position. A recording that appears while the stream runs is read from its start. While a node is down and says no
    commit position, there is nothing new.
    """

    def __init__(self, options: ReadSettings, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._frozen: dict[str, int] | None = None
        self._seen: list[Recording] | None = None
        self._scans: dict[str, RepeatScan | None] = {}
        self._newer = NewerSchemas(options.decoder, columns)

    def initialOffset(self) -> Offset:
        start = self._options.starting_position
        recordings = self._recordings()
        if start.isdigit():
            check_start(int(start), [recording.limit for recording in recordings])
        positions = {
            recording.key: {"earliest": recording.start, "latest": max(recording.start, recording.limit)}[start]
            if not start.isdigit()
            else int(start)
            for recording in recordings
        }
        return with_cluster(positions, check_folders({}, recordings))

    def getDefaultReadLimit(self) -> ReadLimit:
        return default_read_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._limits(self._recordings())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        recordings = self._recordings()
        origin, start = check_folders(start, recordings), positions_of(start)
        self._check_loss(start, recordings)
        available = self._limits(recordings) if self._frozen is None else self._frozen
        begin = {recording.key: start.get(recording.key, recording.start) for recording in recordings}
        wanted = {key: max(position, available.get(key, position)) for key, position in begin.items()}
        if isinstance(limit, ReadMaxBytes):
            wanted = bounded_bytes(begin, wanted, limit.max_bytes)
        elif isinstance(limit, ReadMaxRows):
            if any(recording.copied for recording in recordings):
                raise PipelineError("option maxRecordsPerTrigger: not for a copy in object storage; maxBytesPerTrigger")
            wanted = bounded_rows(recordings, begin, wanted, limit.max_rows)
        return with_cluster({**start, **wanted}, origin)

    def reportLatestOffset(self) -> Offset:
        return self._limits(self._recordings())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        options = self._options
        tasks: list[tuple[Run, ...]] = []
        recordings = self._recordings()
        check_folders(end, recordings)
        start, end = positions_of(start), positions_of(end)
        self._check_loss(start, recordings)
        for recording in recordings:
            first = start.get(recording.key, recording.start)
            last = end.get(recording.key, first)
            if last <= first:
                continue
            predicates = options.predicates.narrowed("position", first + 1, last)
            bounded = replace(recording, limit=last, exact=recording.exact and last == recording.limit)
            tasks += plan([bounded], predicates, options.partition_bytes, options.partitions, options.time_unit)
        found = self._find_repeats(recordings, start, end)
        decoder = self._newer.in_recordings(recordings, end)
        return [
            StreamPartition(
                *(runs, start.get(_key(runs), 0), end.get(_key(runs), INT64_MAX), _part_of(found, runs), decoder)
            )
            for runs in tasks
            if runs
        ]

    def _find_repeats(
        self, recordings: list[Recording], start: dict[str, int], end: dict[str, int]
    ) -> dict[str, Repeats]:
        """Return the repeats before a batch, which continues where the last one ended.

        The first one reads the log up to there.
        """
        found: dict[str, Repeats] = {}
        if not wants_scan(self._columns, self._options.predicates):
            return found
        numbers = wants_numbers(self._columns, self._options.predicates)
        for recording in recordings:
            if recording.is_log and recording.key in end:
                if recording.key not in self._scans:
                    self._scans[recording.key] = begin_scan(recording, self._options.storage, numbers=numbers)
                scan = self._scans[recording.key]
                if scan is not None:
                    scan.forget(start.get(recording.key, recording.start))
                    advance(scan, recording, end[recording.key], self._options.partition_bytes)
                found[recording.key] = UNKNOWN if scan is None else scan.repeats()
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        options = self._options
        if partition.decoder is not None:
            options = replace(options, decoder=partition.decoder)
        predicates = options.predicates.narrowed("position", partition.after + 1, partition.upto)
        return read_task(partition.runs, options, predicates, self._columns, partition.repeats)

    def _recordings(self) -> list[Recording]:
        options = self._options
        try:
            found = options.open_recordings()
        except CommitUnknownError:
            if self._seen is None:  # at the beginning it is more likely a wrong option than a node that restarts
                raise
            return self._seen
        self._seen = found
        return found

    def _check_loss(self, start: dict[str, int], recordings: list[Recording]) -> None:
        """Raise DataLossError where going on from the offset would skip or repeat in silence."""
        known = {recording.key: recording for recording in recordings}
        if not self._options.fail_on_data_loss:
            return
        gone, new = sorted(start.keys() - known.keys()), sorted(known.keys() - start.keys())
        if gone:
            moved = (
                f", but of {', '.join(new)}; if that is the same log, name it as it was with option nodes"
                if new
                else ""
            )
            raise DataLossError(
                f"the checkpoint is of {', '.join(gone)}, and the folders have nothing of it{moved}{ANYWAY}"
            )
        for key, position in start.items():
            recording = known[key]
            if position < recording.start:
                raise DataLossError(
                    f"{key}: the checkpoint ends at position {position}, and the log begins at {recording.start}: what "
                    f"was between was purged before it was read{ANYWAY}"
                )
            if self._frozen is not None and recording.limit < position:
                raise DataLossError(describe_beyond(key, position, recording.limit))
            stop = recording.descriptor.stop_position
            if not recording.descriptor.is_active and stop < position:
                raise DataLossError(
                    f"{key}: the checkpoint ends at position {position}, and the log stopped at {stop}: it was cut "
                    f"off, or is another log{ANYWAY}"
                )

    @staticmethod
    def _limits(recordings: list[Recording]) -> dict[str, int]:
        return {recording.key: recording.limit for recording in recordings}


@dataclass
class StreamPartition(InputPartition):
    """What one task of a micro-batch reads: messages that end in (after, upto]."""

    runs: tuple[Run, ...]
    after: int
    upto: int
    repeats: Repeats | None = None
    decoder: LogDecoder | None = None
    """By the schemas that came while the stream ran, too."""


def _part_of(found: dict[str, Repeats], task: Task) -> Repeats | None:
    """Return the repeats that a task may meet."""
    repeats = found.get(key_of(task))
    if repeats is None:
        return None
    after, upto = (task.after, task.upto) if isinstance(task, NetworkRun) else (task[0].start - 1, INT64_MAX)
    if not isinstance(task, NetworkRun):
        upto = task[-1].end + task[-1].descriptor.term_length  # its last message may end in the next term
    return repeats.within(after, upto)


def _key(runs: tuple[Run, ...]) -> str:
    return f"{runs[0].node}/{runs[0].descriptor.recording_id}"

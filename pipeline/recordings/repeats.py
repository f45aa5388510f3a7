"""Columns that no record has by itself: the application's bytes, which requests are repeats, the numbers of messages.

A request that was sent again stands in the log twice and is executed once. Which one depends on all records before it,
so the records that decide are read once, in order, where a read is planned; tasks get the positions of the repeats. So
it is with the numbers, for which all messages are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ordo.cluster.wire.snapshots import container_snapshot
from ordo.follow.executions import Executions
from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.decoding.batches import ARROW_TYPES, BODY, IS_REPEAT, SEQUENCE, body_array
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.recordings.network import NetworkLog, NetworkRun, plan_network, read_network
from ordo.pipeline.recordings.planner import Run, plan, read_runs
from ordo.pipeline.recordings.predicates import INT64_MAX, Predicates
from ordo.pipeline.recordings.recordings import Recording, open_recordings
from ordo.runtime.errors import DecodeError, SnapshotError

DERIVED = {BODY: ("payload", "kind"), IS_REPEAT: ("position", "kind"), SEQUENCE: ("position",)}
"""What each is made of."""
DECIDING = frozenset(("request", "identity", "session_open", "session_close", "level"))
NUMBERING = DECIDING | {"message", "cluster_action"}
"""Kinds of record that decide which messages have which number."""
NUMBERED = frozenset(("message", "request"))
NETWORK_KEY = "network"


def _none() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Repeats:
    """The repeated requests of one log, and the numbers of its messages where they were asked for.

    `positions` of the requests that are not executed, ascending. Of requests at or before `known_after`, and after
    `known_upto`, it is not known.
    """

    positions: npt.NDArray[np.int64]
    known_after: int
    known_upto: int
    numbered: npt.NDArray[np.int64] = field(default_factory=_none)
    """Positions of the messages that have a number, ascending."""
    numbers: npt.NDArray[np.int64] = field(default_factory=_none)
    """Their numbers."""

    def within(self, after: int, upto: int) -> Repeats:
        """Return the repeats that a task needs that reads messages which end in (after, upto]."""
        first, end = np.searchsorted(self.positions, [after, upto], side="right")
        begin, stop = np.searchsorted(self.numbered, [after, upto], side="right")
        return replace(
            self,
            positions=self.positions[first:end],
            numbered=self.numbered[begin:stop],
            numbers=self.numbers[begin:stop],
        )


def native_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the decoder is to read, so that `complete` can make these columns."""
    needed = [name for column in columns for name in DERIVED.get(column, (column,))]
    return tuple(dict.fromkeys(needed))


def wants_repeats(columns: tuple[str, ...], predicates: Predicates) -> bool:
    """Return whether a read has to know which requests are repeats."""
    return IS_REPEAT in columns and (predicates.kind is None or "request" in predicates.kind)


def wants_numbers(columns: tuple[str, ...], predicates: Predicates) -> bool:
    """Return whether a read has to know the numbers of messages."""
    return SEQUENCE in columns and (predicates.kind is None or not NUMBERED.isdisjoint(predicates.kind))


def wants_scan(columns: tuple[str, ...], predicates: Predicates) -> bool:
    """Return whether what comes before a read has to be looked through."""
    return wants_repeats(columns, predicates) or wants_numbers(columns, predicates)


def complete(
    batches: Iterator[pa.RecordBatch], columns: tuple[str, ...], repeats: Repeats | None
) -> Iterator[pa.RecordBatch]:
    """Batches of `native_columns` as batches of these columns."""
    schema = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])
    for batch in batches:
        made: dict[str, Any] = {}
        if BODY in columns:
            made[BODY] = _bodies(batch)
        if IS_REPEAT in columns:
            made[IS_REPEAT] = _are_repeats(batch, repeats)
        if SEQUENCE in columns:
            made[SEQUENCE] = _numbers(batch, repeats)
        arrays = [made[name] if name in made else batch.column(name) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bodies(batch: pa.RecordBatch) -> pa.Array:
    kind = batch.column("kind")
    is_plain = pc.is_in(kind, value_set=pa.array(["message", "data"])).to_numpy(zero_copy_only=False)
    is_request = pc.equal(kind, "request").to_numpy(zero_copy_only=False)
    return body_array(batch.column("payload"), is_plain.astype(np.uint8) + 2 * is_request.astype(np.uint8))


def _are_repeats(batch: pa.RecordBatch, repeats: Repeats | None) -> pa.Array:
    position = batch.column("position").to_numpy(zero_copy_only=False)
    if repeats is None:
        return pa.array(np.zeros(len(position), dtype=bool))
    is_request = pc.equal(batch.column("kind"), "request").to_numpy(zero_copy_only=False)
    at = np.searchsorted(repeats.positions, position)
    found = np.zeros(len(position), dtype=bool)
    inside = at < len(repeats.positions)
    found[inside] = repeats.positions[at[inside]] == position[inside]
    unknown = is_request & ((position <= repeats.known_after) | (position > repeats.known_upto))
    return pa.array(found & is_request, mask=unknown)


def _numbers(batch: pa.RecordBatch, repeats: Repeats | None) -> pa.Array:
    if repeats is None or not len(repeats.numbered):
        return pa.nulls(batch.num_rows, ARROW_TYPES[SEQUENCE])
    position = batch.column("position").to_numpy(zero_copy_only=False)
    at = np.minimum(np.searchsorted(repeats.numbered, position), len(repeats.numbered) - 1)
    return pa.array(repeats.numbers[at], mask=repeats.numbered[at] != position)


class RepeatScan:
    """The repeats of one log, as far as it was read; a stream goes on with it batch by batch."""

    def __init__(self, executions: Executions, begin: int) -> None:
        """Begin with `executions`, the table at position `begin`. Messages are numbered where it numbers them."""
        self.numbers = executions.numbers
        self.reached = self._known_after = begin
        self._executions = executions
        self._is_damaged = False
        self._known_upto = begin
        self._found: list[int] = []
        self._numbered, self._numbers = array("q"), array("q")
        self._keep_after = begin

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of record that `read` is to be given."""
        return NUMBERING if self.numbers else DECIDING

    def forget(self, upto: int) -> None:
        """Drop the numbers of messages up to a position: they are not read again, and a stream's have no end."""
        if upto > self._keep_after:
            self._keep_after = upto
            first = bisect_right(self._numbered, upto)
            del self._numbered[:first], self._numbers[:first]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `read` is to be given."""
        return ("position", "payload", "kind", "session_id") if self.numbers else ("position", "payload")

    def read(self, batches: Iterator[pa.RecordBatch], upto: int) -> None:
        """Batches of `columns` of all records of `kinds`, up to a position."""
        note = self._note_numbers if self.numbers else self._note_repeats
        try:
            for batch in batches:
                note(batch)
        except CorruptRecordingError:
            self._is_damaged = True  # rows after the damage are not handed out
        self.reached = upto
        if not self._is_damaged:
            self._known_upto = upto

    def _note_repeats(self, batch: pa.RecordBatch) -> None:
        for position, record in zip(*(batch.column(name).to_pylist() for name in self.columns), strict=True):
            if self._executions.note(position, record):
                self._found.append(position)
            self._known_upto = position

    def _note_numbers(self, batch: pa.RecordBatch) -> None:
        """Note records with their kinds: a message comes as its own bytes alone, which may look like any record."""
        executions = self._executions
        rows = zip(*(batch.column(name).to_pylist() for name in self.columns), strict=True)
        for position, record, kind, session_id in rows:
            before, number = executions.sequence.last, 0
            if kind == "message":
                number = executions.number_message(session_id)
            elif executions.note(position, record):
                self._found.append(position)
            elif kind == "request" and executions.sequence.last > before:
                number = executions.sequence.last
            if number and position > self._keep_after:
                self._numbered.append(position)
                self._numbers.append(number)
            self._known_upto = position

    def repeats(self) -> Repeats:
        """Return what was found so far."""
        known_upto = INT64_MAX if self.reached == INT64_MAX else self._known_upto
        numbered, numbers = (np.array(one, dtype=np.int64) for one in (self._numbered, self._numbers))
        return Repeats(np.array(self._found, dtype=np.int64), self._known_after, known_upto, numbered, numbers)


UNKNOWN = Repeats(np.empty(0, dtype=np.int64), INT64_MAX, INT64_MAX)


def begin_scan(
    recording: Recording, storage: Mapping[str, object] | None = None, *, numbers: bool = False
) -> RepeatScan | None:
    """From the beginning of the log, or the oldest snapshot where the beginning was deleted; None: there is neither."""
    if recording.start == 0:
        return RepeatScan(Executions(numbers=numbers), 0)
    for snapshot in sorted(_snapshots(recording, storage), key=lambda one: one.log_position):
        if recording.start <= snapshot.log_position <= recording.limit:
            return RepeatScan(Executions(snapshot, numbers=numbers), snapshot.log_position)
    return None


def _snapshots(
    recording: Recording, storage: Mapping[str, object] | None
) -> Iterator[container_snapshot.ServiceSnapshot]:
    """Yield the snapshots of the node whose log this is, without incomplete ones."""
    commit = "auto" if recording.copied else "recorded"  # a copy has nothing but what was committed
    try:
        found = open_recordings([recording.directory], "all", commit, None, storage)
    except PipelineError:
        return
    for one in found:
        if one.is_service_snapshot:
            runs = tuple(run for task in plan([one], Predicates(), 1 << 30, None, 0) for run in task)
            payloads = (
                bytes(payload)
                for batch in read_runs(runs, Predicates(), ("payload",), 1024, True)
                for payload in batch.column("payload").to_pylist()
            )
            try:
                yield container_snapshot.decode(payloads)
            except (SnapshotError, DecodeError, CorruptRecordingError):
                continue


def advance(scan: RepeatScan, recording: Recording, upto: int, partition_bytes: int) -> None:
    """Read a recording of the log on, up to a position."""
    upto = min(upto, recording.limit)
    if upto <= scan.reached:
        return
    bounded = replace(recording, limit=upto, exact=recording.exact and upto == recording.limit)
    wanted = Predicates(kind=scan.kinds).narrowed("position", scan.reached + 1, upto)
    tasks = plan([bounded], wanted, partition_bytes, None, 0)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from read_runs(task, wanted, scan.columns, 32_768, False)

    scan.read(batches(), upto)


def advance_network(scan: RepeatScan, log: NetworkLog, found: Survey, upto: int, partition_bytes: int) -> None:
    """Read the log of nodes on, up to a position."""
    if upto <= scan.reached:
        return
    wanted = Predicates(kind=scan.kinds)
    runs = plan_network(log, found, scan.reached, upto, 0, partition_bytes, None)
    scan.read((batch for run in runs for batch in read_network(run, wanted, scan.columns, 32_768)), upto)


def key_of(task: tuple[Run, ...] | NetworkRun) -> str:
    """Return the name of the log that a task reads, as `Recording.key` does."""
    if isinstance(task, NetworkRun):
        return NETWORK_KEY
    return f"{task[0].node}/{task[0].descriptor.recording_id}"

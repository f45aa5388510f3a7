"""The log read from nodes over the network: `load("ordo://node0:9014,node1:9014")`.

Nothing here belongs to one node. A plan asks all nodes how much of the log they have, and every task replays its own
range from whichever node can give it; what is committed is the same on all of them. A task's range is read in whole
frames into memory of its own, where the decoder of segment files finds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin
from ordo.follow.entries import EntryKind, record_filter
from ordo.follow.recordings.log_source import REPLAY_STREAM_ID
from ordo.follow.recordings.ranges import Access, BoundaryError, LostRangeError, RangeReader, Survey
from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.decoding.errors import DataLossError
from ordo.pipeline.decoding.scanner import scan_blocks
from ordo.pipeline.nodes.node_archives import CLUSTER, RECORDING_ID, ask_nodes
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.time_unit import time_unit_of_cursors
from ordo.transport.frame_layout import FRAME_ALIGNMENT

CHUNK_BYTES = 4 << 20
_PROBE_BYTES = 1 << 20
_FLAGS_OFFSET, _TYPE_OFFSET, _FLAG_BEGIN, _TYPE_PAD = 5, 6, 0x80, 0
_ENTRY_KINDS = {
    "message": EntryKind.MESSAGE,
    "request": EntryKind.REQUEST,
    "identity": EntryKind.IDENTITY,
    "session_open": EntryKind.SESSION_OPEN,
    "session_close": EntryKind.SESSION_CLOSE,
    "timer": EntryKind.TIMER,
    "new_term": EntryKind.NEW_TERM,
    "cluster_action": EntryKind.CLUSTER_ACTION,
    "configuration": EntryKind.CONFIGURATION,
    "skip": EntryKind.SKIP,
    "version": EntryKind.VERSION,
    "state_hash": EntryKind.STATE_HASH,
    "level": EntryKind.LEVEL,
    "cluster_identity": EntryKind.CLUSTER_IDENTITY,
    "schema": EntryKind.SCHEMA,
    "clock": EntryKind.CLOCK,
}
_MOST = {"message", "request"}
ANYWAY = "; failOnDataLoss=false goes on with what is there"


@dataclass(frozen=True)
class NetworkLog:
    """A cluster's log: where its nodes are, and what it is called in column `node`."""

    addresses: tuple[str, ...]
    name: str = CLUSTER
    access: Access = field(default_factory=Access)
    lenient: bool = False
    """What was purged is passed over."""

    def survey(self, unawaited: tuple[str, ...] = ()) -> Survey:
        """Raise PipelineError when no node answers, OtherClusterError when they are of two clusters."""
        return ask_nodes(self.addresses, self.access, unawaited)

    def prove(self, known: KnownCluster) -> None:
        """Have the nodes show that their log goes on with what is known.

        Raises OtherClusterError, PipelineError.
        """
        ask_nodes(self.addresses, self.access, cluster=known)


@dataclass(frozen=True)
class NetworkRun:
    """What one task reads: messages that end in (after, upto], replayed from `start` on."""

    log: NetworkLog
    descriptor: RecordingDescriptor
    start: int
    after: int
    upto: int
    time_unit: int
    origin: Origin | None = None
    """Which cluster's log it is, where that is known: no node of another one is read."""

    @property
    def term_start(self) -> int:
        """The beginning of the term, or of the log: a place where a message surely begins."""
        return max(self.start - self.start % self.descriptor.term_length, self.descriptor.start_position)


def layout_of(found: Survey) -> RecordingDescriptor:
    """Return the descriptor that frames of a replay fit, of a log that begins where the oldest node has it."""
    return found.descriptor._replace(
        stream_id=REPLAY_STREAM_ID, segment_length=1 << 30, start_position=found.start_position
    )


def check_not_lost(position: int, found: Survey, lenient: bool) -> None:
    """Raise DataLossError when the log begins above a position that was asked for."""
    if position < found.start_position and not lenient:
        raise DataLossError(
            f"position {position} was asked for, and the log begins at {found.start_position}: what was between was "
            f"purged{ANYWAY}"
        )


def plan_network(
    log: NetworkLog,
    found: Survey,
    after: int,
    upto: int,
    time_unit: int,
    partition_bytes: int,
    partitions: int | None,
) -> list[NetworkRun]:
    """Ranges for tasks: whole terms, at least one, of about `partition_bytes`; messages that end in (after, upto].

    Each task begins with another follower, so that the load is spread; the leader is the last that is asked.
    """
    layout = layout_of(found)
    first = max(after, found.start_position)
    if first >= upto:
        return []
    term_length = layout.term_length
    if partitions is not None:
        partition_bytes = -(-(upto - first) // partitions)
    step = max(1, round(partition_bytes / term_length)) * term_length
    edges = [first, *range((first // term_length) * term_length + step, upto, step), upto]
    runs = []
    for index, (start, end) in enumerate(pairwise(edges)):
        turn = index % len(found.followers)
        addresses = dict.fromkeys((*found.followers[turn:], *found.followers[:turn], *found.addresses))
        runs.append(
            NetworkRun(
                replace(log, addresses=tuple(addresses)),
                layout,
                start - start % FRAME_ALIGNMENT,
                start,
                end,
                time_unit,
                found.origin,
            )
        )
    return runs


class Frames:
    """Frames as a file in memory, for the decoder of segment files."""

    def __init__(self, descriptor: RecordingDescriptor, verify: bool = False) -> None:
        self._descriptor = descriptor
        self._verify = verify
        self._file = os.memfd_create("ordo-frames")
        self.base = 0
        self._parts: list[bytes] = []
        self._rest = b""
        self._is_written = True
        self.length_bytes = 0

    def add(self, position: int, frames: bytes) -> None:
        """Append frames; the first of a piece says where it begins."""
        if not self._parts and not self._rest:
            self.base = position
            self.length_bytes = 0
        self._parts.append(frames)
        self.length_bytes += len(frames)

    def cursor(self) -> MessageCursor:
        """Over everything that was added, up to the last whole message."""
        if self._parts or not self._is_written:
            self._rest = b"".join([self._rest, *self._parts])
            self._parts.clear()
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._rest, 0)
            self._is_written = True
        path = f"/proc/self/fd/{self._file}"
        end = self.base + len(self._rest)
        return MessageCursor(path, self._descriptor, self.base, self.base, end, self._verify, False)

    @staticmethod
    def decode(
        cursor: MessageCursor, selection: RowSelection, batches: BatchBuilder, is_log: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows up to the last whole message; raises CorruptRecordingError."""
        decoder = RecordDecoder(cursor, selection, batches, is_log)
        while (batch := decoder.next_batch()) is not None:
            yield batch

    def forget(self, position: int) -> None:
        """Keep only what begins at the position or behind it."""
        self._rest = self._rest[position - self.base :]
        self.base = position
        self._is_written = False
        self.length_bytes = len(self._rest)

    def close(self) -> None:
        os.close(self._file)


def wanted_records(predicates: Predicates) -> dict[str, str]:
    """Return what nodes have to send for rows that pass (`ordo.follow.entries.record_filter`); {} for everything.

    They send everything where kinds are wanted that they cannot tell, and where most of a log is wanted.
    """
    kinds, session_ids = predicates.kind, predicates.session_id
    if kinds is not None and (not kinds <= _ENTRY_KINDS.keys() or (session_ids is None and kinds >= _MOST)):
        return {}
    return record_filter(None if kinds is None else [_ENTRY_KINDS[kind] for kind in sorted(kinds)], session_ids)


def chunks(
    run: NetworkRun, chunk_bytes: int = CHUNK_BYTES, records: Mapping[str, str] | None = None
) -> Iterator[Frames]:
    """Yield the frames of a run, some at a time, without what `records` leaves out.

    Who takes them forgets what it has used up. Raises DataLossError.
    """
    start, is_sure = run.start, run.start == run.term_start
    while True:
        try:
            yield from _chunks_from(run, start, is_sure, chunk_bytes, records)
            return
        except BoundaryError:
            if is_sure:
                raise
            start, is_sure = run.term_start, True
        except LostRangeError as error:
            if not run.log.lenient:
                raise DataLossError(f"{error}{ANYWAY}") from error
            if error.oldest_position >= run.upto:
                return
            start, is_sure = error.oldest_position, True


def _chunks_from(
    run: NetworkRun, start: int, is_sure: bool, chunk_bytes: int, records: Mapping[str, str] | None
) -> Iterator[Frames]:
    frames = Frames(run.descriptor)
    try:
        with RangeReader(
            run.log.addresses, start, run.upto, run.log.access, record_filter=records, origin=run.origin
        ) as reader:
            for position, block in reader:
                if position == start and not is_sure and not _begins_message(block):
                    raise BoundaryError(f"the frame at position={start} belongs to a message that began before it")
                frames.add(position, block)
                if frames.length_bytes >= chunk_bytes:
                    yield frames
        if frames.length_bytes:
            yield frames
    finally:
        frames.close()


def _begins_message(frame: bytes) -> bool:
    is_padding = int.from_bytes(frame[_TYPE_OFFSET : _TYPE_OFFSET + 2], "little") == _TYPE_PAD
    return is_padding or bool(frame[_FLAGS_OFFSET] & _FLAG_BEGIN)


def read_network(
    run: NetworkRun, predicates: Predicates, columns: tuple[str, ...], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task."""
    selection = predicates.narrowed("position", run.after + 1, run.upto).row_selection
    batches = BatchBuilder(columns, RECORDING_ID, run.log.name, run.time_unit, batch_rows)
    for frames in chunks(run, records=wanted_records(predicates)):
        cursor = frames.cursor()
        yield from frames.decode(cursor, selection, batches, True)
        frames.forget(cursor.position)


def find_time_unit(log: NetworkLog, found: Survey) -> int | None:
    """Return the unit of the cluster's clock, from the first records there are; None for a log that has none yet."""
    layout = layout_of(found)
    start, end = found.start_position, found.end_position
    asked = replace(log, addresses=found.addresses)
    run = NetworkRun(asked, layout, start, start, min(end, start + _PROBE_BYTES), 0, found.origin)
    if run.start >= run.upto:
        return None
    for frames in chunks(run, 1):
        unit = time_unit_of_cursors(frames.cursor, True)
        if unit is not None:
            return unit
    return None


def boundary(log: NetworkLog, found: Survey, after: int, upto: int, rows_max: int | None = None) -> int:
    """Where a batch of (after, upto] ends: behind its last whole message, and after `rows_max` messages at most.

    At least one message is in it, even if that one reaches beyond `upto`; at the end of the log there may be none.
    """
    layout = layout_of(found)
    first = max(after, found.start_position)
    if rows_max is None:
        first = max(first, upto - upto % layout.term_length)
    start = first - first % FRAME_ALIGNMENT
    asked = replace(log, addresses=found.addresses)
    run = NetworkRun(asked, layout, start, after, found.end_position, 0, found.origin)
    end, taken = first, 0
    for frames in chunks(run, 1):
        cursor = frames.cursor()
        for message in scan_blocks(cursor, True, 32):
            if message["end"] <= after:
                continue
            is_full = taken == rows_max if rows_max is not None else message["end"] > upto
            if is_full and end > after:
                return end
            end, taken = int(message["end"]), taken + 1
        frames.forget(cursor.position)
        cursor.raise_fault()
    return max(end, after)

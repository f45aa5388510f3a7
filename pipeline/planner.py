"""Which stretches of which segments a read needs, spread over tasks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from archive.catalog import RecordingDescriptor
from pipeline.batches import BatchBuilder
from pipeline.cursor import MessageCursor
from pipeline.decoder import RecordDecoder, RowSelection
from pipeline.index import BLOCK_BYTES, Blocks, index_of, scan_range
from pipeline.predicates import Predicates
from pipeline.recordings import Recording, Segment

_PROBE_BYTES = 4 << 20
_TIME_UNIT_OFFSET = 8 + 40
_MICROS_FROM, _NANOS_FROM = 10**14, 10**17


@dataclass(frozen=True)
class Run:
    """One stretch [start, end) of one segment, whole messages."""

    node: str
    path: str
    descriptor: RecordingDescriptor
    segment_base: int
    start: int
    end: int
    exact: bool
    is_log: bool
    time_unit: int

    @property
    def length_bytes(self) -> int:
        return self.end - self.start


def time_unit_of(recording: Recording) -> int:
    """Unit of the cluster's clock: 0 ms, 1 us, 2 ns.

    From the first new-term record (cluster-consensus.md §11) near the start; where that was purged, from the size of
    the first timestamp, which tells epoch milliseconds, microseconds and nanoseconds apart.
    """
    for segment in recording.segments():
        if not segment.present:
            continue
        end = min(segment.end, segment.start + _PROBE_BYTES)
        for columns, kinds in ((("payload",), ("new_term",)), (("cluster_time",), None)):
            row = _first_row(recording, segment, end, columns, kinds)
            if row is None:
                continue
            if kinds:
                return int(struct.unpack_from("<i", row["payload"], _TIME_UNIT_OFFSET)[0])
            if row["cluster_time"] is not None:
                time = abs(row["cluster_time"])
                return 2 if time >= _NANOS_FROM else 1 if time >= _MICROS_FROM else 0
        break
    return 0


def _first_row(
    recording: Recording, segment: Segment, end: int, columns: tuple[str, ...], kinds: tuple[str, ...] | None
) -> dict[str, Any] | None:
    cursor = MessageCursor(segment.path, recording.descriptor, segment.base, segment.start, end, False, False)
    decoder = RecordDecoder(cursor, RowSelection(kinds=kinds), BatchBuilder(columns, 0, "", 0, 1), recording.is_log)
    if cursor.fault:
        return None
    batch = decoder.next_batch()
    return batch.slice(0, 1).to_pylist()[0] if batch is not None else None


def plan(
    recordings: list[Recording],
    predicates: Predicates,
    partition_bytes: int,
    partitions: int | None = None,
    time_unit: int | None = None,
) -> list[tuple[Run, ...]]:
    """Runs for each task, in log order within a recording. A task never holds runs of two recordings."""
    needed = [
        (recording, unit, list(_needed(recording, predicates, unit)))
        for recording in recordings
        if _wanted(recording, predicates)
        for unit in [time_unit if time_unit is not None else time_unit_of(recording)]
    ]
    if partitions is not None:
        total = sum(int((blocks["end"] - blocks["start"]).sum()) for _, _, parts in needed for _, blocks in parts)
        partition_bytes = max(1024, -(-total // partitions))
    last = predicates.position[1]
    return [
        task
        for recording, unit, parts in needed
        for task in _tasks(recording, unit, parts, partition_bytes, min(last, recording.limit))
    ]


def _wanted(recording: Recording, predicates: Predicates) -> bool:
    by_id = predicates.recording is None or recording.recording_id in predicates.recording
    return by_id and (predicates.node is None or recording.node in predicates.node)


def _needed(recording: Recording, predicates: Predicates, time_unit: int) -> Iterator[tuple[Segment, Blocks]]:
    """Segments with the blocks of them that can have a row that passes."""
    low = max(predicates.position[0], predicates.start_position[0], 0)
    high = min(predicates.position[1], predicates.start_position[1])
    segments = [
        segment
        for segment in recording.segments(max(low, recording.start))
        if segment.end >= low and segment.start <= high
    ]
    for segment, index in zip(segments, index_of(recording, segments) if segments else [], strict=True):
        blocks = index.blocks[predicates.blocks(index.blocks, time_unit)]
        if len(blocks):
            yield segment, blocks


def _tasks(
    recording: Recording, time_unit: int, parts: list[tuple[Segment, Blocks]], partition_bytes: int, last: int
) -> Iterator[tuple[Run, ...]]:
    """Blocks packed into tasks of about `partition_bytes`; neighbouring blocks of a segment become one run.

    Nothing beyond position `last` is read.
    """
    task: list[Run] = []
    room = partition_bytes
    for segment, blocks in parts:
        for start, end in _stretches(recording, segment, blocks, partition_bytes):
            if task and end - start > room:
                yield tuple(task)
                task, room = [], partition_bytes
            room -= end - start
            end = min(end, last)
            if task and task[-1].end == start and task[-1].segment_base == segment.base:
                start = task.pop().start
            task.append(_run(recording, segment, time_unit, start, end, last))
    if task:
        yield tuple(task)


def _stretches(
    recording: Recording, segment: Segment, blocks: Blocks, partition_bytes: int
) -> Iterator[tuple[int, int]]:
    """[start, end) of each block, reaching to the next where that one is taken too; finer where tasks are small."""
    if partition_bytes < BLOCK_BYTES:
        pieces = [_split(recording, segment, block, partition_bytes) for block in blocks]
        blocks = np.concatenate(pieces)
    for block in blocks:
        yield int(block["start"]), min(int(block["end"]), segment.end)


def _split(recording: Recording, segment: Segment, block: Any, length_bytes: int) -> Blocks:
    """A block as several smaller ones; whole when it is damaged, so that reading it tells where."""
    start, end = int(block["start"]), min(int(block["end"]), segment.end)
    if end - start <= length_bytes or not segment.present:
        return np.array([block])
    found = scan_range(recording, segment, start, end, length_bytes)
    return np.array([block]) if found.fault_position >= 0 else found.blocks


def whole_runs(recording: Recording, start: int, end: int, time_unit: int, exact: bool) -> tuple[Run, ...]:
    """Runs over all of [start, end), where `start` is between messages; needs no index and reads nothing.

    `exact`: a message ends at `end`, and everything below it was written, so that anything else there is damage.
    """
    return tuple(
        Run(
            recording.node, segment.path, recording.descriptor, segment.base, max(segment.start, start),
            min(segment.end, end), exact or segment.end < end, recording.is_log, time_unit,
        )
        for segment in recording.segments(start)
        if segment.start < end and segment.end > start
    )  # fmt: skip


def _run(recording: Recording, segment: Segment, time_unit: int, start: int, end: int, last: int) -> Run:
    exact = recording.exact and (end < last or end == recording.limit)
    return Run(
        recording.node, segment.path, recording.descriptor, segment.base, start, end, exact, recording.is_log, time_unit
    )


def read_runs(
    runs: tuple[Run, ...], predicates: Predicates, columns: tuple[str, ...], batch_rows: int, verify: bool
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task, which is of one recording. Raises CorruptRecordingError at a damaged frame."""
    if not runs:
        return
    first = runs[0]
    batches = BatchBuilder(columns, first.descriptor.recording_id, first.node, first.time_unit, batch_rows)
    for run in runs:
        cursor = MessageCursor(run.path, run.descriptor, run.segment_base, run.start, run.end, verify, run.exact)
        decoder = RecordDecoder(cursor, predicates.row_selection(run.time_unit), batches, run.is_log)
        while (batch := decoder.next_batch()) is not None:
            yield batch

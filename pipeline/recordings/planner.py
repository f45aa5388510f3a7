"""Which stretches of which segments a read needs, spread over tasks.

Planning reads next to nothing. Where a segment's index is at hand, it says what to skip. Where it is not, and the log
is large, the segment is cut where its terms begin, which are always between messages, and inside a term at any place: a
task that begins there walks from the term's beginning to the first message that is its own. The task that has the
beginning of a segment builds the segment's index on the way, for the next read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder
from ordo.pipeline.decoding.scanner import walk
from ordo.pipeline.recordings.index import (
    BLOCK_BYTES,
    Blocks,
    index_of,
    kept_index,
    scan_range,
    segment_index,
    unknown_block,
)
from ordo.pipeline.recordings.predicates import INT64_MAX, Predicates
from ordo.pipeline.recordings.recordings import Recording, Segment, StoredFile
from ordo.pipeline.recordings.time_unit import time_unit_of

DRIVER_BYTES_MAX = 32 << 20
"""Segments without an index are looked into where the read is planned, up to this much in all."""
NO_WALK = NO_INDEX = -1


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
    walk_from: int = NO_WALK
    """Where the term begins, when `start` and `end` may lie inside messages: the messages from that which contains or
    begins at `start` up to that which contains `end` are meant, without the latter."""
    index_end: int = NO_INDEX
    """The end of the segment, when its index is to be built by who reads this."""
    stored: StoredFile | None = None
    """Where the segment is when it is an object in object storage, or at nodes."""

    @property
    def length_bytes(self) -> int:
        return self.end - self.start


def plan(
    recordings: list[Recording],
    predicates: Predicates,
    partition_bytes: int,
    partitions: int | None = None,
    time_unit: int | None = None,
) -> list[tuple[Run, ...]]:
    """Run for each task, in log order within a recording. A task never holds runs of two recordings."""
    chosen = [
        (recording, time_unit if time_unit is not None else time_unit_of(recording), _segments(recording, predicates))
        for recording in recordings
    ]
    may_scan = _unindexed_bytes(chosen) <= DRIVER_BYTES_MAX
    needed = [
        (recording, unit, list(_needed(recording, segments, predicates, unit, may_scan)))
        for recording, unit, segments in chosen
    ]
    if partitions is not None:
        total = sum(int((part.blocks["end"] - part.blocks["start"]).sum()) for _, _, parts in needed for part in parts)
        partition_bytes = max(1024, -(-total // partitions))
    last = predicates.position[1]
    return [
        task
        for recording, unit, parts in needed
        for task in _tasks(recording, unit, parts, partition_bytes, min(last, recording.limit))
    ]


def _unindexed_bytes(chosen: list[tuple[Recording, int, list[Segment]]]) -> int:
    return sum(
        segment.end - segment.start
        for recording, _, segments in chosen
        for segment in segments
        if segment.present and segment.stored is None and kept_index(recording, segment) is None
    )


@dataclass(frozen=True)
class _Part:
    """Blocks of one segment that are needed; of a segment without an index, its terms."""

    segment: Segment
    blocks: Blocks
    has_index: bool


def _segments(recording: Recording, predicates: Predicates) -> list[Segment]:
    low, high = max(predicates.position[0], 0), predicates.position[1]
    return [
        segment
        for segment in recording.segments(max(low, recording.start))
        if segment.end >= low and segment.start <= high
    ]


def _needed(
    recording: Recording, segments: list[Segment], predicates: Predicates, time_unit: int, may_scan: bool
) -> Iterator[_Part]:
    """Segments with the blocks of them that can have a row that passes."""
    if may_scan and not recording.copied:
        found = zip(segments, index_of(recording, segments) if segments else [], strict=True)
        parts = [_Part(segment, index.blocks, True) for segment, index in found]
    else:
        parts = [_without_scan(recording, segment) for segment in segments]
    for part in parts:
        blocks = part.blocks[predicates.blocks(part.blocks, time_unit)]
        if len(blocks):
            yield _Part(part.segment, blocks, part.has_index)


def _without_scan(recording: Recording, segment: Segment) -> _Part:
    kept = kept_index(recording, segment) if segment.stored is None else None
    if kept is not None:
        return _Part(segment, kept.blocks, True)
    term_length = recording.descriptor.term_length
    first = segment.start - segment.start % term_length
    edges = [segment.start, *range(first + term_length, segment.end, term_length), segment.end]
    return _Part(segment, np.concatenate([unknown_block(*edge) for edge in pairwise(edges)]), False)


def _tasks(
    recording: Recording, time_unit: int, parts: list[_Part], partition_bytes: int, last: int
) -> Iterator[tuple[Run, ...]]:
    """Blocks packed into tasks of about `partition_bytes`; neighbouring blocks of a segment become one run.

    Nothing beyond position `last` is read.
    """
    task: list[Run] = []
    room = partition_bytes
    for part in parts:
        for run in _runs(recording, time_unit, part, partition_bytes, last):
            if task and run.length_bytes > room:
                yield tuple(task)
                task, room = [], partition_bytes
            room -= run.length_bytes
            if task and _are_neighbours(task[-1], run):
                run = replace(task.pop(), end=run.end, exact=run.exact)
            task.append(run)
    if task:
        yield tuple(task)


def _are_neighbours(before: Run, run: Run) -> bool:
    """One run covers both; what begins or ends inside messages stays by itself."""
    is_whole = before.walk_from == run.walk_from == NO_WALK
    return is_whole and before.end == run.start and before.segment_base == run.segment_base


def _runs(recording: Recording, time_unit: int, part: _Part, partition_bytes: int, last: int) -> Iterator[Run]:
    segment = part.segment
    if part.has_index:
        for start, end in _stretches(recording, segment, part.blocks, partition_bytes):
            yield _run(recording, segment, time_unit, start, min(end, last), last)
        return
    for block in part.blocks:
        start, end = int(block["start"]), min(int(block["end"]), last)
        whole = _run(recording, segment, time_unit, start, end, last)
        if start == segment.start and segment.present and segment.stored is None:
            whole = replace(whole, index_end=segment.end)
        if end - start <= partition_bytes or not segment.present or segment.stored is not None:
            yield whole
            continue
        step = -(-partition_bytes // 32) * 32
        for begin in range(start, end, step):
            piece = replace(whole, start=begin, end=min(begin + step, end), walk_from=start)
            yield piece if begin == start else replace(piece, index_end=NO_INDEX)


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
    """Return a block as several smaller ones; whole when it is damaged, so that reading it tells where."""
    start, end = int(block["start"]), min(int(block["end"]), segment.end)
    if end - start <= length_bytes or not segment.present:
        return np.array([block])
    found = scan_range(recording, segment, start, end, length_bytes)
    return np.array([block]) if found.fault_position >= 0 else found.blocks


def whole_runs(recording: Recording, start: int, end: int, time_unit: int, exact: bool) -> tuple[Run, ...]:
    """Run over all of [start, end), where `start` is between messages; needs no index and read nothing.

    `exact`: a message ends at `end`, and everything below it was written, so that anything else there is damage.
    """
    return tuple(
        Run(
            recording.node, segment.path, recording.descriptor, segment.base, max(segment.start, start),
            min(segment.end, end), exact or segment.end < end, recording.is_log, time_unit, stored=segment.stored,
        )
        for segment in recording.segments(start)
        if segment.start < end and segment.end > start
    )  # fmt: skip


def _run(recording: Recording, segment: Segment, time_unit: int, start: int, end: int, last: int) -> Run:
    exact = recording.exact and (end < last or end == recording.limit)
    return Run(
        recording.node, segment.path, recording.descriptor, segment.base, start, end, exact, recording.is_log,
        time_unit, stored=segment.stored,
    )  # fmt: skip


def read_runs(
    runs: tuple[Run, ...], predicates: Predicates, columns: tuple[str, ...], batch_rows: int, verify: bool
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task, which is of one recording. Raises CorruptRecordingError at a damaged frame."""
    if not runs:
        return
    first = runs[0]
    batches = BatchBuilder(columns, first.descriptor.recording_id, first.node, first.time_unit, batch_rows)
    for run in runs:
        if run.index_end != NO_INDEX:
            _build_index(run)
        cursor = _cursor_of(run, verify)
        decoder = RecordDecoder(cursor, predicates.row_selection, batches, run.is_log)
        while (batch := decoder.next_batch()) is not None:
            yield batch
        if run.walk_from != NO_WALK and run.exact:
            _check_end(run, cursor.position)


def _cursor_of(run: Run, verify: bool) -> MessageCursor:
    if run.walk_from == NO_WALK:
        if run.stored is not None:
            return run.stored.cursor(run.descriptor, run.segment_base, run.start, run.end, verify, run.exact)
        return MessageCursor(run.path, run.descriptor, run.segment_base, run.start, run.end, verify, run.exact)
    start = run.start
    if start != run.walk_from:
        to_start = MessageCursor(run.path, run.descriptor, run.segment_base, run.walk_from, start, False, False)
        walk(to_start, INT64_MAX)
        to_start.raise_fault()
        start = to_start.position
    return MessageCursor(run.path, run.descriptor, run.segment_base, start, run.end, verify, False)


def _check_end(run: Run, position: int) -> None:
    """Check a run that ended early: only a message that goes on beyond its end, or padding, may be the reason."""
    if position < run.end:
        term_end = run.walk_from - run.walk_from % run.descriptor.term_length + run.descriptor.term_length
        beyond = MessageCursor(run.path, run.descriptor, run.segment_base, position, term_end, False, True)
        walk(beyond, 1)
        beyond.raise_fault()


def _build_index(run: Run) -> None:
    """Build the index of the segment that this run begins. The next plan uses it, if it is made on this machine."""
    start = max(run.segment_base, run.descriptor.start_position)
    recording = Recording(run.node, os.path.dirname(run.path), run.descriptor, run.index_end, run.exact)
    segment_index(recording, Segment(run.path, run.segment_base, start, run.index_end, True))

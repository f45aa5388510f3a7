"""Reading a copy of an archive where it is, in object storage: each task gets the bytes of its own range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from pipeline.batches import BatchBuilder
from pipeline.errors import CorruptRecordingError, PipelineError
from pipeline.network import CHUNK_BYTES, Frames
from pipeline.object_store import Store, StoredRecording, StoredSegment
from pipeline.predicates import Predicates
from pipeline.time_unit import time_unit_of_cursors

_PROBE_BYTES = 1 << 20


@dataclass(frozen=True)
class ObjectCopy:
    """A copy to read: where it is, and the options of its file system."""

    url: str
    storage: Mapping[str, Any] = field(default_factory=dict)

    def open(self) -> Store:
        return Store(self.url, self.storage)


@dataclass(frozen=True)
class ObjectRun:
    """What one task reads: whole terms [start, end) of one segment."""

    copy: ObjectCopy
    recording: StoredRecording
    segment: StoredSegment
    start: int
    end: int
    time_unit: int


def plan_objects(
    copy: ObjectCopy, wanted: str, predicates: Predicates, partition_bytes: int, time_unit: int | None
) -> list[ObjectRun]:
    """Tasks over the segments that positions ask for. Reads the manifest, and a little for the unit of the clock."""
    store = copy.open()
    low, high = max(predicates.position[0], 0), predicates.position[1]
    runs: list[ObjectRun] = []
    for recording in _selected(store, wanted):
        unit = time_unit if time_unit is not None else _time_unit(store, recording)
        for segment in recording.segments:
            if segment.end < low or segment.start > high:
                continue
            term_length = recording.descriptor.term_length
            step = max(1, round(partition_bytes / term_length)) * term_length
            edges = [segment.start, *range(segment.base + step, segment.end, step), segment.end]
            for start, end in pairwise(edge for edge in edges if edge >= segment.start):
                if end >= low and start <= high:
                    lean = StoredRecording(recording.node, recording.descriptor)
                    runs.append(ObjectRun(copy, lean, segment, start, end, unit))
    return runs


def _selected(store: Store, wanted: str) -> list[StoredRecording]:
    recordings = [entry for entry in store.manifest() if entry.segments]
    if not recordings:
        raise PipelineError(f"{store.url}: no copy of an archive is there; `ordo pipeline copy` makes one")
    if wanted == "all":
        return recordings
    if wanted == "log":
        return [entry for entry in recordings if entry.is_log]
    by_id = {str(entry.descriptor.recording_id): entry for entry in recordings}
    for part in wanted.split(","):
        if part not in by_id:
            raise PipelineError(f"option recording={wanted!r}: allowed are log, all, or ids out of {', '.join(by_id)}")
    return [by_id[part] for part in wanted.split(",")]


def _time_unit(store: Store, recording: StoredRecording) -> int:
    first = recording.segments[0]
    frames = Frames(recording.descriptor._replace(segment_length=1 << 30))
    try:
        frames.add(first.start, store.get(first.name, 0, min(_PROBE_BYTES, first.length_bytes)))
        return time_unit_of_cursors(frames.cursor, recording.is_log) or 0
    finally:
        frames.close()


def read_objects(
    run: ObjectRun, predicates: Predicates, columns: tuple[str, ...], batch_rows: int, verify: bool
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task. Raises CorruptRecordingError at a damaged frame, and PipelineError."""
    store, segment, descriptor = run.copy.open(), run.segment, run.recording.descriptor
    path = f"{run.copy.url}/{segment.name}"
    batches = BatchBuilder(columns, descriptor.recording_id, run.recording.node, run.time_unit, batch_rows)
    selection = predicates.row_selection(run.time_unit)
    frames = Frames(descriptor._replace(segment_length=1 << 30), verify)
    try:
        for start in range(run.start, run.end, CHUNK_BYTES):
            end = min(start + CHUNK_BYTES, run.end)
            frames.add(start, store.get(segment.name, start - segment.start, end - segment.start))
            cursor = frames.cursor()
            try:
                yield from frames.decode(cursor, selection, batches, run.recording.is_log)
            except CorruptRecordingError as error:
                raise CorruptRecordingError.of(
                    path, error.position, error.fault, cursor.expected, cursor.actual
                ) from error
            frames.forget(cursor.position)
        if frames.length_bytes:
            raise CorruptRecordingError.of(path, frames.base, "the copy ends inside the message", 0, 0)
    finally:
        frames.close()

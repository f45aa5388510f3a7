"""Pieces of recordings that an export writes one after another, each as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.decoding.scanner import walk
from ordo.pipeline.recordings.predicates import INT64_MAX
from ordo.pipeline.recordings.recordings import Recording, check_one_cluster, open_cursor

EXPORT_ELSEWHERE = "export each cluster into a folder of its own"


@dataclass(frozen=True)
class Chunk:
    """Messages of one recording that end in (start, end]."""

    recording: Recording
    start: int
    end: int

    @property
    def path(self) -> str:
        recording = self.recording
        return f"node={recording.node}/recording={recording.recording_id}/from_position={self.start}"


def chunks(recordings: list[Recording], exported: dict[str, int], chunk_bytes: int) -> Iterator[Chunk]:
    """Yield what is still to export, in pieces that end at multiples of `chunk_bytes` or at the recording's limit."""
    for recording in recordings:
        position = exported.get(recording.key, recording.start)
        if position < recording.start:
            raise DataLossError(
                f"{recording.key}: exported up to position {position}, and the log begins at {recording.start}: what "
                f"was between was purged before it was exported; export to another folder to go on with what is there"
            )
        while position < recording.limit:
            end = min(recording.limit, (position // chunk_bytes + 1) * chunk_bytes)
            yield Chunk(recording, position, end)
            position = end


def up_to_what_is_written(recordings: list[Recording], commit: str) -> list[Recording]:
    """Return the recordings without what lies after their last whole message, where all that is on disk was asked for.

    A file goes on after that, and what is recorded there later is still to be exported.
    """
    if commit != "recorded":
        return recordings
    return [entry if entry.exact else replace(entry, limit=_written_end(entry)) for entry in recordings]


def _written_end(recording: Recording) -> int:
    present = [segment for segment in recording.segments(recording.start) if segment.present]
    if not present:
        return recording.start
    last = present[-1]
    cursor = open_cursor(last, recording.descriptor, last.start, last.end, False, False)
    walk(cursor, INT64_MAX)
    return cursor.position


def checked_origin(
    recordings: list[Recording], exported: dict[str, int], origin: Origin | None, target: str
) -> Origin | None:
    """Return which cluster's log an export has from now on; None: neither it nor the folders say.

    Raises OtherClusterError for folders of another cluster than the export, or of two.
    """
    known = KnownCluster(origin, f"the export {target}" if origin is not None else "", EXPORT_ELSEWHERE)
    known.position = max((exported.get(entry.key, 0) for entry in recordings if entry.is_log), default=0)
    check_one_cluster(recordings, known)
    return known.origin


def check_columns(names: Iterable[str], *chosen: Iterable[str]) -> None:
    """Raise PipelineError for a column to partition or sort by that the export does not have."""
    allowed = list(names)
    for name in (name for part in chosen for name in part):
        if name not in allowed:
            raise PipelineError(f"no column {name!r} to partition or sort by; there are {', '.join(allowed)}")

"""What the archive does on start: finds the true end of recordings that were never stopped (archive.md B4).

A crash may leave the last writes torn in any way. Every frame has a checksum, so the end is found, not guessed: frames
are checked from the start of the last segment but one (a sync of a segment is over before the next but one begins), and
the recording ends before the first that is not whole. What lies behind is cleared, so that no later scan takes a stale
frame for a new one.
"""

from typing import Any, NamedTuple

from archive.catalog import Catalog, RecordingDescriptor, RecordingState
from archive.cursor import SegmentCursor
from archive.erase import erase_tail
from archive.scan import FrameScanner
from archive.segments import parse_segment_name, segment_base_position, segment_name
from runtime.errors import CorruptFrameError


class RecoveredRecording(NamedTuple):
    """One recording brought to an end. `torn` is what was found behind the end, None when nothing was."""

    recording_id: int
    stop_position: int
    frame_count: int
    torn: CorruptFrameError | None


def segment_bases(storage: Any, directory: str, recording_id: int) -> list[int]:
    """Base positions of the segment files a recording has, ascending."""
    names = (parse_segment_name(name) for name in storage.list_files(directory))
    return sorted(name.base_position for name in names if name and name.recording_id == recording_id)


def base_of(descriptor: RecordingDescriptor, position: int) -> int:
    """Base position of the segment that holds `position`."""
    return segment_base_position(
        descriptor.start_position, position, descriptor.term_length, descriptor.segment_length
    )


def find_end(storage: Any, directory: str, descriptor: RecordingDescriptor) -> RecoveredRecording:
    """Scans the last two segments for the position after the last whole frame. Changes nothing."""
    bases = segment_bases(storage, directory, descriptor.recording_id)
    if not bases:
        return RecoveredRecording(descriptor.recording_id, descriptor.start_position, 0, None)
    from_position = max(descriptor.start_position, bases[-2:][0])
    scanner = FrameScanner(SegmentCursor(storage, directory, descriptor))
    end, frame_count, damage = scanner.run(from_position, bases[-1] + descriptor.segment_length)
    return RecoveredRecording(descriptor.recording_id, end, frame_count, None if scanner.ended_in_hole else damage)


def clear_from(storage: Any, directory: str, descriptor: RecordingDescriptor, position: int) -> int:
    """Removes everything a recording has at and after `position`; what is before it becomes durable, too.

    The count of files removed. Raises StorageError.
    """
    keep = base_of(descriptor, position)
    bases = segment_bases(storage, directory, descriptor.recording_id)
    doomed = [base for base in bases if base > keep]
    for base in reversed(doomed):
        storage.remove(f"{directory}/{segment_name(descriptor.recording_id, base)}")
    for base in [base for base in bases if base <= keep][-2:]:
        path = f"{directory}/{segment_name(descriptor.recording_id, base)}"
        with storage.open_segment(path, descriptor.segment_length) as file:
            if base == keep:
                erase_tail(file, position - keep)
            file.sync_now()
    storage.sync_directory(directory)
    return len(doomed)


def remove_files(storage: Any, directory: str, recording_id: int) -> int:
    """Removes every segment file of a recording, durably; the count of files."""
    bases = segment_bases(storage, directory, recording_id)
    for base in reversed(bases):
        storage.remove(f"{directory}/{segment_name(recording_id, base)}")
    storage.sync_directory(directory)
    return len(bases)


def recover(storage: Any, directory: str, catalog: Catalog, now_ms: int) -> list[RecoveredRecording]:
    """Brings every recording that was never stopped to its true end, and finishes purges that were cut short."""
    recovered = []
    for descriptor in list(catalog):
        if descriptor.state is RecordingState.DELETED:
            remove_files(storage, directory, descriptor.recording_id)
            catalog.remove(descriptor.recording_id)
        elif descriptor.is_active:
            result = find_end(storage, directory, descriptor)
            clear_from(storage, directory, descriptor, result.stop_position)
            with_end = {"stop_position": result.stop_position, "stop_timestamp": now_ms}
            catalog.update(descriptor.recording_id, **with_end)
            recovered.append(result)
    return recovered

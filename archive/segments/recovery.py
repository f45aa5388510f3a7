"""Recovery at the archive's start: finds the true end of recordings that were never stopped (archive.md B4).

A crash may leave the last writes torn in any way. Every frame has a checksum, so the end is found, not guessed: frames
are checked from the start of the last segment but one (the sync of a segment is over before the next but one begins),
and the recording ends before the first that is not whole. What follows is cleared, so that no later scan takes a
stale frame for a new one.

A frame that is not whole below the checkpoint (checkpoints.py) was not torn: it had been acknowledged. Such a recording
becomes INVALID and nothing of it is changed, until somebody truncates it to accept the loss, or restores the segment.
"""

from typing import NamedTuple

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.checkpoints import Checkpoints
from ordo.archive.segments.cursor import SegmentCursor
from ordo.archive.segments.erase import erase_tail
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.scan import FrameScanner
from ordo.archive.segments.segments import DELETED_SUFFIX, parse_segment_name, segment_base_position, segment_name
from ordo.runtime.errors import CorruptFrameError
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.sentinels import NULL_POSITION


class RecoveredRecording(NamedTuple):
    """One recording after its recovery. `found` is the damage after its end, or None.

    `is_damaged`: the end lies below a position that was acknowledged; the recording is INVALID now.
    """

    recording_id: int
    stop_position: int
    frame_count: int
    found: CorruptFrameError | None
    is_damaged: bool = False


def segment_bases(storage: Storage, directory: str, recording_id: int) -> list[int]:
    """Return the base positions of the segment files a recording has, ascending."""
    names = (parse_segment_name(name) for name in storage.list_files(directory))
    return sorted(name.base_position for name in names if name and name.recording_id == recording_id)


def base_of(descriptor: RecordingDescriptor, position: int) -> int:
    """Return the base position of the segment that holds `position`."""
    return segment_base_position(descriptor.start_position, position, descriptor.term_length, descriptor.segment_length)


def find_end(
    storage: Storage,
    directory: str,
    descriptor: RecordingDescriptor,
    checkpoint: int = NULL_POSITION,
    *,
    counts_padding: bool = False,
) -> RecoveredRecording:
    """Scan the last two segments for the position after the last whole frame; change nothing.

    A PAD counts when a frame follows it, or with `counts_padding` (recorder.pxd).

    `checkpoint` is a position that was on the device; an end below it is damage.
    """
    bases = segment_bases(storage, directory, descriptor.recording_id) or [
        base_of(descriptor, descriptor.start_position)
    ]
    from_position = max(descriptor.start_position, bases[-2:][0])
    scanner = FrameScanner(SegmentCursor(storage, directory, descriptor))
    _, frame_count, found = scanner.run(from_position, bases[-1] + descriptor.segment_length)
    end = scanner.end_position if counts_padding else scanner.recording_end
    if end < checkpoint:
        return RecoveredRecording(descriptor.recording_id, end, frame_count, found, is_damaged=True)
    return RecoveredRecording(descriptor.recording_id, end, frame_count, None if scanner.ended_in_hole else found)


class Damage(NamedTuple):
    """The first damage of a recording: its messages are whole up to `good_position`, where the last of them ends."""

    good_position: int
    error: CorruptFrameError


def find_damage(storage: Storage, directory: str, descriptor: RecordingDescriptor, from_position: int) -> Damage | None:
    """Look for damage from a position on, where a message begins; change nothing.

    Damage is a segment file that is missing or short before `from_position`, or a message that is not whole after it.
    """
    for base in range(base_of(descriptor, descriptor.start_position), from_position, descriptor.segment_length):
        error = _check_file(storage, directory, descriptor, base, min(descriptor.segment_length, from_position - base))
        if error is not None:
            return Damage(_last_end(storage, directory, descriptor, base), error)
    reader = RecordingReader(storage, directory, descriptor, from_position)
    try:
        reader.skip_messages(descriptor.stop_position)
    except CorruptFrameError as error:
        return Damage(_last_end(storage, directory, descriptor, reader.position), error)
    return None


def _last_end(storage: Storage, directory: str, descriptor: RecordingDescriptor, position: int) -> int:
    """Return where the last frame before a position ends, not counting a PAD.

    A PAD at the end of a recording never counts: the next start would not find it again, and a position that was
    acknowledged beyond it would be taken back.
    """
    if position <= descriptor.start_position:
        return descriptor.start_position
    from_position = max(descriptor.start_position, base_of(descriptor, position - 1))
    scanner = FrameScanner(SegmentCursor(storage, directory, descriptor))
    scanner.run(from_position, position)
    return int(scanner.recording_end)


def _check_file(
    storage: Storage, directory: str, descriptor: RecordingDescriptor, base: int, length_bytes: int
) -> CorruptFrameError | None:
    path = f"{directory}/{segment_name(descriptor.recording_id, base)}"
    if not storage.exists(path):
        reason = "the segment file is missing"
    else:
        with storage.open_segment(path, descriptor.segment_length, writable=False) as file:
            if file.read_bytes(1, length_bytes - 1):
                return None
        reason = "the segment file is too short"
    return CorruptFrameError(
        f"recording {descriptor.recording_id} is damaged at position={base} in {path}: {reason}",
        recording_id=descriptor.recording_id,
        position=base,
        segment_path=path,
        reason=reason,
    )


def clear_from(
    storage: Storage, directory: str, descriptor: RecordingDescriptor, position: int, *, is_durable: bool
) -> int:
    """Remove everything a recording has at and after `position`; return the count of files removed.

    With `is_durable` that, and what is before the position, is on the device when it returns; without, the removed
    names are. Raises StorageError.
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
            if is_durable:
                file.sync_now()
    if is_durable or doomed:
        storage.sync_directory(directory)
    return len(doomed)


def remove_files(storage: Storage, directory: str, recording_id: int) -> int:
    """Remove every segment file of a recording, durably, also those put aside; return the count of files."""
    names = [segment_name(recording_id, base) for base in reversed(segment_bases(storage, directory, recording_id))]
    for name in storage.list_files(directory):
        put_aside = parse_segment_name(name.removesuffix(DELETED_SUFFIX)) if name.endswith(DELETED_SUFFIX) else None
        if put_aside is not None and put_aside.recording_id == recording_id:
            names.append(name)
    for name in names:
        storage.remove(f"{directory}/{name}")
    storage.sync_directory(directory)
    return len(names)


def remove_below(storage: Storage, directory: str, recording_id: int, position: int) -> int:
    """Remove the segment files of a recording whose base is below `position`, durably; return the count of files."""
    bases = [base for base in segment_bases(storage, directory, recording_id) if base < position]
    for base in bases:
        storage.remove(f"{directory}/{segment_name(recording_id, base)}")
    storage.sync_directory(directory)
    return len(bases)


def _finish_detachments(storage: Storage, directory: str, catalogued: list[RecordingDescriptor]) -> None:
    """Remove segment files below the start of their recording: they were due for deletion when the process ended."""
    firsts = {each.recording_id: base_of(each, each.start_position) for each in catalogued}
    for file_name in storage.list_files(directory):
        name = parse_segment_name(file_name)
        if name is not None and name.base_position < firsts.get(name.recording_id, 0):
            storage.remove(f"{directory}/{file_name}")


def recover(
    storage: Storage, directory: str, catalog: Catalog, now_ms: int, *, is_durable: bool
) -> list[RecoveredRecording]:
    """Bring every recording that was never stopped to its true end, and finish purges that were cut short."""
    checkpoints = Checkpoints.load(storage, directory)
    recovered = []
    catalogued = list(catalog)
    _finish_detachments(storage, directory, catalogued)
    for descriptor in catalogued:
        if descriptor.state is RecordingState.DELETED:
            remove_files(storage, directory, descriptor.recording_id)
            catalog.remove(descriptor.recording_id)
        elif descriptor.is_active:
            checkpoint = checkpoints.get(descriptor.recording_id, NULL_POSITION)
            result = find_end(storage, directory, descriptor, checkpoint, counts_padding=catalog.counts_padding)
            if not result.is_damaged:
                clear_from(storage, directory, descriptor, result.stop_position, is_durable=is_durable)
            catalog.update(
                descriptor.recording_id,
                stop_position=result.stop_position,
                stop_timestamp=now_ms,
                state=RecordingState.INVALID if result.is_damaged else RecordingState.VALID,
            )
            recovered.append(result)
    return recovered

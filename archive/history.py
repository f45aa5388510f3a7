"""Changes to where segments belong: attaching them again, or moving them to another recording (archive.md A7)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ordo.archive.archive import Archive
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import DELETED_SUFFIX, segment_name
from ordo.runtime.errors import ArchiveError
from ordo.runtime.io.storage import Storage

_HEADER = struct.Struct("<iBBHiiii")
_HEADER_STEP = 32
_LAYOUT = {
    "segment_length": "SegmentFileLength",
    "term_length": "TermBufferLength",
    "initial_term_id": "InitialTermId",
    "stream_id": "StreamId",
    "mtu": "MtuLength",
}
"""What recordings that are joined must have in common, with Aeron's words for it in errors."""


class FrameHeader(NamedTuple):
    """The content of a segment file at one place; a length of 0 is a hole."""

    length: int
    version: int
    flags: int
    kind: int
    term_offset: int
    session_or_checksum: int
    stream_id: int
    term_id: int


def attach_segments(archive: Archive, recording_id: int) -> int:
    """Take segment files below a recording's start back into it, newest first; return how many.

    Each must follow on without a gap, be of full length and hold frames of the recording. Raises
    UnknownRecordingError, and ArchiveError at the first file that does not fit: those before it stay attached.
    """
    storage, directory = archive.storage, archive.directory
    count = 0
    descriptor = archive.descriptor(recording_id)
    while True:
        base = base_of(descriptor, descriptor.start_position) - descriptor.segment_length
        path = f"{directory}/{segment_name(recording_id, base)}"
        if base < 0 or descriptor.start_position != base + descriptor.segment_length or not storage.exists(path):
            return count
        start = _first_position(storage, path, descriptor, base)
        descriptor = archive.catalog.update(recording_id, start_position=start)
        count += 1


def _first_position(storage: Storage, path: str, descriptor: RecordingDescriptor, base: int) -> int:
    """Return where the frames of a segment file begin: at its base, or within its first term."""
    with storage.open_segment(path, descriptor.segment_length, writable=False) as file:
        if not file.read_bytes(1, descriptor.segment_length - 1):
            raise ArchiveError(f"{path} is shorter than segment_length={descriptor.segment_length}")
        first_term = file.read_bytes(descriptor.term_length, 0)
    offset = 0
    while offset < len(first_term) and _header_at(first_term, offset).length == 0:
        offset += _HEADER_STEP
    if offset == len(first_term):
        raise ArchiveError(f"{path} has no frame in its first term")
    header = _header_at(first_term, offset)
    term_id = (descriptor.initial_term_id + base // descriptor.term_length + (1 << 31)) % (1 << 32) - (1 << 31)
    expected = (term_id, offset, descriptor.stream_id)
    if (header.term_id, header.term_offset, header.stream_id) != expected:
        raise ArchiveError(
            f"{path} does not belong to recording {descriptor.recording_id}: (term_id, term_offset, stream_id) "
            f"expected={expected} actual={(header.term_id, header.term_offset, header.stream_id)}"
        )
    return base + offset


def _header_at(term: bytes, offset: int) -> FrameHeader:
    return FrameHeader(*_HEADER.unpack_from(term, offset))


def migrate_segments(archive: Archive, source_id: int, target_id: int) -> int:
    """Move the segment files of a stopped recording to the one that begins where it ends, or ends where it begins.

    Returns how many; the source is empty afterwards. Raises UnknownRecordingError, ArchiveError, StorageError with
    nothing changed. After a crash half way, `attach_segments` of the target takes what was already moved before its
    start.
    """
    storage, directory = archive.storage, archive.directory
    source, target = archive.descriptor(source_id), archive.descriptor(target_id)
    join = _check_join(archive, source, target)
    bases = [base for base in _bases(source) if base < source.stop_position]
    if target.stop_position == join:
        storage_path = f"{directory}/{segment_name(target_id, join)}"
        if storage.exists(storage_path):  # the empty one after a full segment
            storage.remove(storage_path)
    for base in bases:
        if not storage.exists(f"{directory}/{segment_name(source_id, base)}"):
            raise ArchiveError(f"missing src segment file {directory}/{segment_name(source_id, base)}")
        if storage.exists(f"{directory}/{segment_name(target_id, base)}"):
            raise ArchiveError(f"preexisting dst segment file {directory}/{segment_name(target_id, base)}")
    for base in reversed(bases):
        storage.rename(f"{directory}/{segment_name(source_id, base)}", f"{directory}/{segment_name(target_id, base)}")
    trailing = f"{directory}/{segment_name(source_id, base_of(source, source.stop_position))}"
    for path in (trailing, trailing + DELETED_SUFFIX):
        if storage.exists(path):
            storage.remove(path)
    storage.sync_directory(directory)
    if target.start_position == join:
        archive.catalog.update(target_id, start_position=source.start_position)
    else:
        archive.catalog.update(target_id, stop_position=source.stop_position)
    archive.catalog.update(source_id, stop_position=source.start_position)
    return len(bases)


def _bases(descriptor: RecordingDescriptor) -> range:
    first = base_of(descriptor, descriptor.start_position)
    return range(first, max(first, descriptor.stop_position), descriptor.segment_length)


def _check_join(archive: Archive, source: RecordingDescriptor, target: RecordingDescriptor) -> int:
    """Return the position where both recordings meet. Raises ArchiveError when they do not, or differ in layout."""
    if source.recording_id == target.recording_id:
        raise ArchiveError(f"recording {source.recording_id} cannot be migrated to itself")
    if archive.recording(source.recording_id) is not None or source.is_active:
        raise ArchiveError(f"recording {source.recording_id} is still active")
    if archive.replays(source.recording_id):
        raise ArchiveError(f"recording {source.recording_id} is being replayed; stop that first")
    for name, words in _LAYOUT.items():
        ours, theirs = getattr(source, name), getattr(target, name)
        if ours != theirs:
            raise ArchiveError(f"invalid migrate: src{words}={ours} dst{words}={theirs}")
    if source.stop_position == target.start_position:
        join = target.start_position
    elif source.start_position == target.stop_position:
        join = source.start_position
    else:
        raise ArchiveError(
            "invalid migrate: src and dst are not contiguous "
            f"srcStartPosition={source.start_position} srcStopPosition={source.stop_position} "
            f"dstStartPosition={target.start_position} dstStopPosition={target.stop_position}"
        )
    for which, one in (("src", source), ("dst", target)):
        if base_of(one, join) != join:
            raise ArchiveError(
                f"invalid migrate: join position is not on segment boundary of {which} recording seamPosition={join} "
                f"startPosition={one.start_position} stopPosition={one.stop_position} "
                f"termBufferLength={one.term_length} segmentFileLength={one.segment_length}"
            )
    return join

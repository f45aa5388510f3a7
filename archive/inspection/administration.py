"""Changes to an archive folder from the command line. None of them works while a process owns the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ordo.archive.inspection.recording_inspection import default_storage, orphaned_segments, verify_recording
from ordo.archive.segments.catalog import CATALOG_NAME, Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.cursor import SegmentCursor
from ordo.archive.segments.frames import reseal
from ordo.archive.segments.recovery import base_of, remove_files
from ordo.archive.segments.scan import FrameScanner
from ordo.archive.store.lmdb_store import compact_store
from ordo.runtime.errors import ArchiveError
from ordo.runtime.io.storage import SegmentFile, Storage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.sentinels import NULL_POSITION

ERROR_ACTIVE_RECORDING = 2
BLOCK_BYTES = 1024 * 1024
NODE_FOLDER = "cluster"
"""Beside the archive of a node: what its member knows."""


class Compaction(NamedTuple):
    """The outcome of a compaction. Lengths in bytes."""

    finished_purges: int
    length_before_bytes: int
    length_after_bytes: int


@contextmanager
def _owned(directory: str, storage: Storage) -> Iterator[Catalog]:
    """Open the catalog of a folder that no process owns. Raises StorageInUseError, StorageMissingError."""
    Catalog.open(storage, directory, read_only=True).close()
    lock = storage.lock_directory(directory)
    try:
        catalog = Catalog.open(storage, directory)
        try:
            yield catalog
        finally:
            catalog.close()
    finally:
        lock.close()


def mark_invalid(directory: str, recording_id: int, *, storage: Storage | None = None) -> None:
    """Distrust a recording: it can be read, but not extended until it is truncated or valid again.

    Raises UnknownRecordingError, StorageInUseError, and ArchiveError when it is marked so already.
    """
    with _owned(directory, storage or default_storage()) as catalog:
        _check_state(catalog, recording_id, RecordingState.VALID, "invalid")
        catalog.update(recording_id, state=RecordingState.INVALID)


def mark_valid(directory: str, recording_id: int, *, storage: Storage | None = None) -> None:
    """Trust a recording again, after every frame of it was checked.

    Raises the damage that is found, UnknownRecordingError, StorageInUseError, and ArchiveError when it is valid.
    """
    storage = storage or default_storage()
    with _owned(directory, storage) as catalog:
        _check_state(catalog, recording_id, RecordingState.INVALID, "valid")
        found = verify_recording(storage, directory, catalog.get(recording_id))
        if found.damage is not None:
            raise found.damage
        catalog.update(recording_id, state=RecordingState.VALID)


def _check_state(catalog: Catalog, recording_id: int, expected: RecordingState, wanted: str) -> None:
    descriptor = catalog.get(recording_id)
    _check_stopped(descriptor)
    if descriptor.state is not expected:
        raise ArchiveError(f"recording {recording_id} is {descriptor.state.name}, so it cannot become {wanted}")


def _check_stopped(descriptor: RecordingDescriptor) -> None:
    if descriptor.stop_position == NULL_POSITION:
        raise ArchiveError(
            f"recording {descriptor.recording_id} was never stopped: start its archive once, which finds its end",
            code=ERROR_ACTIVE_RECORDING,
        )


def renew_checksums(
    directory: str, recording_id: int | None = None, *, storage: Storage | None = None
) -> list[tuple[int, int]]:
    """Give frames that have only Aeron's checksum the one that covers the header too; those that have it stay.

    Of every recording, or of one: its id, and how many frames were changed. All of them are checked first, and nothing
    is changed where one is damaged, which a new checksum would hide. Only the bytes of checksums are written, each
    within one aligned word, and a frame is whole with the old as with the new: a crash on the way loses nothing.
    Raises the damage that is found, UnknownRecordingError, StorageInUseError, ArchiveError for one never stopped.
    """
    storage = storage or default_storage()
    with _owned(directory, storage) as catalog:
        chosen = [one for one in catalog if one.state is not RecordingState.DELETED]
        if recording_id is not None:
            chosen = [catalog.get(recording_id)]
        for descriptor in chosen:
            _check_stopped(descriptor)
            found = verify_recording(storage, directory, descriptor)
            if found.damage is not None:
                raise found.damage
        return [(one.recording_id, _renew_recording(storage, directory, one)) for one in chosen]


def _renew_recording(storage: Storage, directory: str, descriptor: RecordingDescriptor) -> int:
    """Change the frames of a checked recording; return how many were changed."""
    scanner = FrameScanner(SegmentCursor(storage, directory, descriptor))
    position, changed_count = descriptor.start_position, 0
    while position < descriptor.stop_position:
        end = min(base_of(descriptor, position) + descriptor.segment_length, descriptor.stop_position)
        with storage.open_segment(scanner.cursor.path_of(position), descriptor.segment_length) as file:
            changed_count += _renew_segment(file, scanner, descriptor, position, end)
            file.sync_now()
        position = end
    return changed_count


def _renew_segment(
    file: SegmentFile, scanner: FrameScanner, descriptor: RecordingDescriptor, start: int, end: int
) -> int:
    """Change the frames of one segment file, a block at a time; return how many were changed."""
    base = base_of(descriptor, start)
    position, changed_count = start, 0
    while position < end:
        block_end, _, damage = scanner.run(position, min(position + BLOCK_BYTES, end))
        if damage is not None:
            raise damage
        length = min(block_end - position, BLOCK_BYTES + descriptor.mtu)  # the last may be a PAD of any length
        frames = bytearray(file.read_bytes(length, position - base))
        block_changed_count = reseal(frames, descriptor.stream_id)
        if block_changed_count:
            file.write_bytes(frames, position - base)
        changed_count += block_changed_count
        position = block_end
    return changed_count


def delete_orphans(directory: str, *, storage: Storage | None = None) -> list[str]:
    """Delete the segment files that belong to no recording, or lie outside its positions; return their names."""
    storage = storage or default_storage()
    with _owned(directory, storage):
        names = orphaned_segments(directory, storage=storage)
        for name in names:
            storage.remove(f"{directory}/{name}")
        storage.sync_directory(directory)
    return names


def compact(directory: str, *, storage: Storage | None = None) -> Compaction:
    """Finish interrupted purges, and free the unused space of the catalog's file."""
    storage = storage or default_storage()
    path = f"{directory}/{CATALOG_NAME}"
    before = os.path.getsize(path) if os.path.exists(path) else 0
    finished = 0
    with _owned(directory, storage) as catalog:
        for descriptor in list(catalog):
            if descriptor.state is RecordingState.DELETED:
                remove_files(storage, directory, descriptor.recording_id)
                catalog.remove(descriptor.recording_id)
                finished += 1
        catalog.close()
        compact_store(path)
        storage.sync_directory(directory)
    return Compaction(finished, before, os.path.getsize(path))


def migrate(directory: str, source_id: int, target_id: int, *, storage: Storage | None = None) -> int:
    """Give the segments of a stopped recording to the one that it meets (archive.md A7); return how many.

    Raises StorageInUseError, StorageMissingError, UnknownRecordingError, and ArchiveError for recordings that do not
    meet, and for the folder of a node, which knows its log and snapshots by their recordings.
    """
    from ordo.archive.archive import Archive  # with the transport, which the other commands start without
    from ordo.archive.history import migrate_segments

    storage = storage or default_storage()
    if os.path.isdir(os.path.join(os.path.dirname(os.path.abspath(directory)), NODE_FOLDER)):
        raise ArchiveError(
            f"{directory} belongs to a node of a cluster, which must find its log and snapshots as it left them"
        )
    Catalog.open(storage, directory, read_only=True).close()
    archive = Archive(directory, storage=storage, clock=SystemClock())
    try:
        return migrate_segments(archive, source_id, target_id)
    finally:
        archive.close()

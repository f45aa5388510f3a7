"""What changes an archive folder from the command line. Nothing of it works while a process owns the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from archive.catalog import CATALOG_NAME, NULL_POSITION, Catalog, RecordingState
from archive.lmdb_store import compact_store
from archive.recovery import remove_files
from archive.tools import default_storage, orphaned_segments, verify_recording
from runtime.errors import ArchiveError

ERROR_ACTIVE_RECORDING = 2


class Compaction(NamedTuple):
    """What a compaction has done. Lengths in bytes."""

    finished_purges: int
    length_before_bytes: int
    length_after_bytes: int


@contextmanager
def _owned(directory: str, storage: Any) -> Iterator[Catalog]:
    """The catalog of a folder that nobody else owns. Raises StorageInUseError, StorageMissingError."""
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


def mark_invalid(directory: str, recording_id: int, *, storage: Any = None) -> None:
    """Distrusts a recording: it can be read, but not extended until it is truncated or valid again.

    Raises UnknownRecordingError, StorageInUseError, and ArchiveError when it is marked so already.
    """
    with _owned(directory, storage or default_storage()) as catalog:
        _check_state(catalog, recording_id, RecordingState.VALID, "invalid")
        catalog.update(recording_id, state=RecordingState.INVALID)


def mark_valid(directory: str, recording_id: int, *, storage: Any = None) -> None:
    """Trusts a recording again, after every frame of it was checked.

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
    if descriptor.stop_position == NULL_POSITION:
        raise ArchiveError(
            f"recording {recording_id} was never stopped: start its archive once, which finds its end",
            code=ERROR_ACTIVE_RECORDING,
        )
    if descriptor.state is not expected:
        raise ArchiveError(f"recording {recording_id} is {descriptor.state.name}, so it cannot become {wanted}")


def delete_orphans(directory: str, *, storage: Any = None) -> list[str]:
    """Deletes the segment files that belong to no recording, or lie outside its positions; returns their names."""
    storage = storage or default_storage()
    with _owned(directory, storage):
        names = orphaned_segments(directory, storage=storage)
        for name in names:
            storage.remove(f"{directory}/{name}")
        storage.sync_directory(directory)
    return names


def compact(directory: str, *, storage: Any = None) -> Compaction:
    """Finishes purges that were cut short, and gives back what the catalog's file does not need."""
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

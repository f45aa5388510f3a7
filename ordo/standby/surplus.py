"""What a former primary has and the cluster that goes on has not, kept beside the log before it is cut off there.

    <data_dir>/surplus-<from>-<to>/archive/    one recording, of the log between the two positions

It is an archive as a node has one: `ordo log FOLDER` prints it, `ordo archive` checks it, and the pipeline reads it.
Its segments are one term long: which file has a position depends on where a recording begins, and segments of several
terms would have to begin elsewhere than those of the log.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import segment_name
from ordo.runtime.errors import ArchiveError, ClusterError, StorageError

if TYPE_CHECKING:
    from ordo.runtime.io.storage import Storage
    from ordo.standby.divergence import Divergence

COPY_BYTES = 1 << 20
RECORDING_ID = 0


def surplus_folder(data_dir: str, divergence: Divergence) -> str:
    """Return the folder of the archive that has, or will have, what is behind the common part."""
    return f"{data_dir}/surplus-{divergence.position}-{divergence.end_position}/archive"


def keep_surplus(
    storage: Storage, data_dir: str, archive_dir: str, log: RecordingDescriptor, divergence: Divergence
) -> str:
    """Copy what the log has behind the common part, durably; return the folder. The same again after a crash.

    Raises ClusterError where the folder has something else, StorageError where the copy is not read back as it should.
    """
    directory = surplus_folder(data_dir, divergence)
    for made in (directory.removesuffix("/archive"), directory):
        storage.make_directory(made)
    catalog = Catalog.open(storage, directory)
    try:
        kept = next(iter(catalog), None)  # it is added last, when all of it is there
        if kept is None:
            made_copy = _copy_log(storage, archive_dir, directory, log, divergence)
            if not _is_alike(storage, (archive_dir, log), (directory, made_copy), divergence):
                raise StorageError(f"{directory} is not read back as it was written; nothing was changed")
            catalog.add(made_copy)
        elif not _is_alike(storage, (archive_dir, log), (directory, kept), divergence):
            raise ClusterError(
                f"{directory} has something else than this folder's log: move it away, and give the same command again"
            )
    finally:
        catalog.close()
    storage.sync_directory(directory.removesuffix("/archive"))
    storage.sync_directory(data_dir)
    return directory


def _copy_log(
    storage: Storage, archive_dir: str, directory: str, log: RecordingDescriptor, divergence: Divergence
) -> RecordingDescriptor:
    """Copy the files, durably, and return the recording that they are."""
    position, end = divergence.position, divergence.end_position
    for base in range(position - position % log.term_length, end, log.term_length):
        _copy_term(storage, archive_dir, directory, log, base, (position, end))
    storage.sync_directory(directory)
    return log._replace(
        recording_id=RECORDING_ID,
        start_position=position,
        stop_position=end,
        segment_length=log.term_length,
        original_channel=log.original_channel if "alias=log" in log.original_channel else "aeron:ipc?alias=log",
        state=RecordingState.VALID,
    )


def _copy_term(
    storage: Storage, archive_dir: str, directory: str, log: RecordingDescriptor, base: int, stretch: tuple[int, int]
) -> None:
    """Copy what a term of the log has of a stretch of positions; the rest of the copy is empty."""
    source_base = base_of(log, max(base, log.start_position))
    source = f"{archive_dir}/{segment_name(log.recording_id, source_base)}"
    target = f"{directory}/{segment_name(RECORDING_ID, base)}"
    if storage.exists(target):
        storage.remove(target)  # a crash came while it was written
    position, end = max(stretch[0], base), min(stretch[1], base + log.term_length)
    with (
        storage.open_segment(source, log.segment_length, writable=False) as origin,
        storage.open_segment(target, log.term_length, create=True) as made,
    ):
        while position < end:
            block = origin.read_bytes(min(COPY_BYTES, end - position), position - source_base)
            if not block:
                raise StorageError(f"{source} ends before position={position}, and the log ends at {end}")
            made.write_bytes(block, position - base)
            position += len(block)
        made.sync_now()


def _is_alike(
    storage: Storage,
    log: tuple[str, RecordingDescriptor],
    copy: tuple[str, RecordingDescriptor],
    divergence: Divergence,
) -> bool:
    """Return whether the copy has what the log has behind the common part, record by record."""
    try:
        own, kept = (
            RecordingReader(storage, directory, recording, divergence.position).messages(divergence.end_position)
            for directory, recording in (log, copy)
        )
        return all(one == other for one, other in zip_longest(own, kept))
    except ArchiveError:
        return False

"""What a former primary has and the cluster that goes on has not, kept beside the log before it is cut off there.

    <data_dir>/surplus-<from>-<to>/archive/    one recording, of the log between the two positions

It is an archive as a node has one: `ordo log FOLDER` prints it, `ordo archive` checks it, and the pipeline reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import segment_name
from ordo.runtime.errors import StorageError

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
    """Copy what the log has behind the common part, durably; return the folder. The same again after a crash."""
    directory = surplus_folder(data_dir, divergence)
    for made in (directory.removesuffix("/archive"), directory):
        storage.make_directory(made)
    catalog = Catalog.open(storage, directory)
    try:
        if any(True for _ in catalog):
            return directory  # it is added last, when all of it is there
        position, end = divergence.position, divergence.end_position
        for base in range(base_of(log, position), end, log.segment_length):
            source = f"{archive_dir}/{segment_name(log.recording_id, base)}"
            _copy(storage, source, f"{directory}/{segment_name(RECORDING_ID, base)}", log, base, (position, end))
        storage.sync_directory(directory)
        channel = log.original_channel if "alias=log" in log.original_channel else "aeron:ipc?alias=log"
        catalog.add(
            log._replace(
                recording_id=-1,
                start_position=position,
                stop_position=end,
                original_channel=channel,
                state=RecordingState.VALID,
            )
        )
    finally:
        catalog.close()
    storage.sync_directory(directory.removesuffix("/archive"))
    storage.sync_directory(data_dir)
    return directory


def _copy(
    storage: Storage, source: str, target: str, log: RecordingDescriptor, base: int, stretch: tuple[int, int]
) -> None:
    """Copy what one segment file has of a stretch of positions; the rest of the copy is empty."""
    if storage.exists(target):
        storage.remove(target)  # a crash came while it was written
    offset, end = max(stretch[0] - base, 0), min(stretch[1] - base, log.segment_length)
    with (
        storage.open_segment(source, log.segment_length, writable=False) as origin,
        storage.open_segment(target, log.segment_length, create=True) as made,
    ):
        while offset < end:
            block = origin.read_bytes(min(COPY_BYTES, end - offset), offset)
            if not block:
                raise StorageError(f"{source} ends at {offset} bytes, and has log up to {end}")
            made.write_bytes(block, offset)
            offset += len(block)
        made.sync_now()

"""`ordo cluster trust`: lets a stopped member vote again with the data that it has, and gives up the rest."""

from __future__ import annotations

from ordo.archive.archive import Archive
from ordo.archive.segments.catalog import RecordingState
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.cluster.module.state.folder_rows import ACCEPTED_LEAP
from ordo.cluster.settings.config import NodeSettings
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.sentinels import NULL_VALUE


def accept_loss(config: NodeSettings) -> str:
    """Remove the damaged end of a member's log, and snapshots past it; return one line that says what it had lost.

    Raises StorageInUseError while the member runs, StorageMissingError when it has no store.
    """
    storage = FileStorage(open_lmdb)
    with open_stopped(config, storage) as store:
        state = store.load()
        end_position = state.log_base_position
        if state.log_recording_id != NULL_VALUE:
            end_position = _cut(storage, config, state.log_recording_id)
        for entry in state.snapshots:
            if entry.log_position > end_position:
                store.put_snapshot(entry._replace(is_valid=False))
        note = CommitNote(storage, str(config.cluster_dir))
        note.put(min(note.known_position, end_position))
        note.sync()
        note.close()
        store.put_distrust(Distrust.NONE)
        start = store.folder.start
        store.folder.put_start(start._replace(number=start.number + ACCEPTED_LEAP))
    lost = state.distrust.name or "nothing"
    return f"member {config.node.member_id} votes again with its log up to position={end_position}; it had lost: {lost}"


def _cut(storage: FileStorage, config: NodeSettings, recording_id: int) -> int:
    """End the log before its damage, and return the position of that end."""
    archive = Archive(str(config.archive_dir), storage=storage, clock=SystemClock(), sync=config.node.sync)
    try:
        descriptor = archive.descriptor(recording_id)
        if descriptor.state is not RecordingState.VALID:
            archive.truncate(recording_id, descriptor.stop_position)
        return int(descriptor.stop_position)
    finally:
        archive.close()

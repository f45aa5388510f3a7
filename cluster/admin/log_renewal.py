"""`ordo cluster renew-log`: starts the log of a stopped member again, after a snapshot at its end.

Term length and MTU of a log are those of its recording for as long as that lives. Behind a snapshot of all there is,
the recording is not needed any more: the member gives it up, as one does that took its snapshot from another member,
and the next leader begins a new one with the lengths of its configuration. Positions and terms go on: for elections and
for what is committed nothing has changed, so that each member may do this for itself.
"""

from __future__ import annotations

from ordo.archive.inspection.recording_inspection import dump, list_recordings, verify
from ordo.archive.segments.catalog import RecordingState
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.module.state.state_store import SnapshotEntry, StoredState
from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire.snapshots.snapshot_digest import combine, digest_of
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import ClusterError, CorruptFrameError, StorageError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.sentinels import NULL_VALUE

TERMS_MAX = 1 << 31
"""So many terms a log may have, at whatever length."""


def renew_log(config: NodeSettings, storage: Storage | None = None) -> str:
    """Renew the log of a stopped member; return one line that says what was done.

    Raises ClusterError where the member would lose something by it, or nothing would change; StorageInUseError while it
    runs, StorageMissingError when it has never run. Idempotent: the store changes in one transaction, and the recording
    goes when the member has another one.
    """
    storage = storage or FileStorage(open_lmdb)
    with open_stopped(config, storage) as store:
        state = store.load()
        if refusal := find_refusal(config, state, storage):
            raise ClusterError(f"the log of member {config.node.member_id} stays as it is: {refusal}")
        position, already = state.log_base_position, " already"
        if not has_begun_anew(state):
            position, already = max(one.log_position for one in state.snapshots if one.is_valid), ""
            store.rebase(position)
    return (
        f"member {config.node.member_id} begins its log anew{already} at {position:,}, after its snapshot: with "
        f"log_term_length = {config.cluster.log_term_length_bytes} and mtu = {config.cluster.mtu_bytes} where it leads"
    )


def has_begun_anew(state: StoredState) -> bool:
    """Return whether the recording was given up for a snapshot, and the member has not been started since."""
    return state.log_recording_id == NULL_VALUE and state.log_base_position > 0


def find_refusal(config: NodeSettings, state: StoredState, storage: Storage) -> str:
    """Return why the log cannot be renewed, or ''."""
    recordings = list_recordings(str(config.archive_dir), storage=storage)
    log = next((one for one in recordings if one.recording_id == state.log_recording_id), None)
    wanted = config.cluster.log_term_length_bytes, config.cluster.mtu_bytes
    if state.distrust is not Distrust.NONE:
        return f"it has lost {state.distrust.name}, and gets that back from the others first"
    if has_begun_anew(state):
        return ""
    if log is None or log.is_active or log.state is not RecordingState.VALID:
        return "it has none, or did not end in order; start the cluster, and end it with `ordo cluster shutdown`"
    if (log.term_length, log.mtu) == wanted:
        return f"it has the lengths of the configuration already: log_term_length = {wanted[0]} and mtu = {wanted[1]}"
    if log.stop_position // wanted[0] >= TERMS_MAX:
        return f"it ends at {log.stop_position:,}, beyond what terms of {wanted[0]} bytes reach"
    newest = max((one for one in state.snapshots if one.is_valid), default=None)
    if newest is None or newest.log_position != log.stop_position:
        at = "missing" if newest is None else f"at {newest.log_position:,}"
        return (
            f"it ends at {log.stop_position:,}, and its newest snapshot is {at}; start the cluster, and end it with "
            "`ordo cluster shutdown`, which takes one there"
        )
    return _find_damage(config, newest, state.digests.get(newest.log_position, b""), storage)


def _find_damage(config: NodeSettings, entry: SnapshotEntry, digest: bytes, storage: Storage) -> str:
    """All of the snapshot is read: without the log there is nothing else to start from."""
    folder, digests = str(config.archive_dir), []
    for recording_id in entry.recording_ids:
        (found,) = verify(folder, recording_id, storage=storage)
        if found.damage is not None:
            return f"the snapshot is damaged: {found.damage}"
        try:
            digests.append(digest_of(one.payload for one in dump(folder, recording_id, storage=storage)))
        except (CorruptFrameError, StorageError) as error:
            return f"the snapshot is damaged: {error}"
    if digest and combine(*digests) != digest:
        return f"the snapshot is not the one that was taken: its digest is {combine(*digests).hex()}"
    return ""

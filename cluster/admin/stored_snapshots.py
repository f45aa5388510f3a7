"""Snapshots of a node from its store on disk, and how a start would use them, whether it runs or not."""

from __future__ import annotations

from typing import NamedTuple

from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.module.state.state_store import SnapshotEntry, StoredState
from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_VALUE


class StoredSnapshot(NamedTuple):
    """One snapshot set of a member."""

    entry: SnapshotEntry
    digest: bytes
    """Empty where nothing can be compared with other members' ones."""


class RecoveryPlan(NamedTuple):
    """What a member begins with when it is started, unless the start finds damage.

    -1: there is none, or it is not known.
    """

    member_id: int
    candidate_term_id: int
    """The highest term that it has voted in, or stood for."""
    last_term_id: int
    """The newest leadership term of its log."""
    log_recording_id: int
    log_start: int
    log_end: int
    """-1 while the log is written, and after a crash until the next start."""
    snapshot_position: int
    """The position of the snapshot that it starts from; -1: it executes the log from its beginning."""
    snapshot_recording_ids: tuple[int, ...]
    """The services', by their ids, then the consensus module's."""
    lost: str
    """What it has lost, so that it may not vote; NONE: it votes."""


def list_snapshots(config: NodeSettings) -> list[StoredSnapshot]:
    """Whole ones and damaged ones, the oldest first. Raises StorageMissingError when the node has never run."""
    with open_stored(config) as store:
        state = store.load()
    return [StoredSnapshot(one, state.digests.get(one.log_position, b"")) for one in sorted(state.snapshots)]


def make_plan(config: NodeSettings) -> RecoveryPlan:
    """Raise StorageMissingError when the node has never run."""
    with open_stored(config) as store:
        state = store.load()
    return _plan(config, state)


def _plan(config: NodeSettings, state: StoredState) -> RecoveryPlan:
    start, end = _log_bounds(config, state.log_recording_id, state.log_base_position)
    usable = _usable(state.snapshots, start, end)
    newest = max(usable, default=None)
    return RecoveryPlan(
        config.node.member_id,
        state.candidate_term_id,
        state.terms[-1][0] if state.terms else NULL_VALUE,
        state.log_recording_id,
        start,
        end,
        newest.log_position if newest is not None else NULL_VALUE,
        newest.recording_ids if newest is not None else (),
        state.distrust.name or "NONE",
    )


def _log_bounds(config: NodeSettings, recording_id: int, base_position: int) -> tuple[int, int]:
    """Where the log begins and ends."""
    if recording_id == NULL_VALUE:
        return base_position, base_position
    found = {one.recording_id: one for one in list_recordings(str(config.archive_dir))}
    log = found.get(recording_id)
    return (log.start_position, log.stop_position) if log is not None else (NULL_VALUE, NULL_VALUE)


def _usable(snapshots: list[SnapshotEntry], start: int, end: int) -> list[SnapshotEntry]:
    """Return the snapshots that a start may begin from: intact, and the log continues from them."""
    highest = max(one.log_position for one in snapshots) if end == NULL_VALUE and snapshots else end
    return [one for one in snapshots if one.is_valid and start <= one.log_position <= highest]


def invalidate_snapshot(config: NodeSettings, log_position: int | None) -> str:
    """Has the next start use an older snapshot than the one of this position (None: the newest), or the whole log.

    Returns one line that says so.

    Raises ClusterError where there is none, or nothing else to start from, StorageInUseError while the member runs,
    StorageMissingError when it has never run.
    """
    member_id = config.node.member_id
    with open_stopped(config) as store:
        state = store.load()
        plan = _plan(config, state)
        usable = _usable(state.snapshots, plan.log_start, plan.log_end)
        wanted = plan.snapshot_position if log_position is None else log_position
        found = next((one for one in usable if one.log_position == wanted), None)
        if found is None:
            held = ", ".join(f"{one.log_position:,}" for one in sorted(usable)) or "none"
            raise ClusterError(f"member {member_id} has no such snapshot to start from; it has: {held}")
        rest = [one.log_position for one in usable if one != found]
        if not rest and plan.log_start > 0:
            raise ClusterError(
                f"the log of member {member_id} begins at {plan.log_start:,}, and the snapshot at "
                f"{found.log_position:,} is the only one to start from: it stays"
            )
        store.put_snapshot(found._replace(is_valid=False))
    begins = f"the snapshot at {max(rest):,}" if rest else "the beginning of its log"
    return f"member {member_id} does not use the snapshot at {found.log_position:,} any more: it starts from {begins}"

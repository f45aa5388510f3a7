"""Planted bugs of state hashes, and of protocol levels, which allow them (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.module.members import membership
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.module.versions.protocol_level import ProtocolLevel
from ordo.cluster.module.versions.state_doubt import StateDoubt
from ordo.cluster.module.versions.state_hashes import StateHashes
from ordo.cluster.wire.levels import FIRST_LEVEL, PROTOCOL_LEVEL

Patch = Callable[[object, str, Any], None]


def nobody_minds_another_hash(patch: Patch) -> None:
    """A member whose service gives another hash than a quorum's goes on with its state, and no snapshot follows."""
    patch(StateDoubt, "on_other_hash", lambda *_: None)
    patch(StateHashes, "_help", lambda *_: None)


def nobody_asks_for_the_snapshot_that_is_needed(patch: Patch) -> None:
    """A member stands still for its hash, and there is no snapshot from behind it."""
    patch(StateHashes, "_help", lambda *_: None)


def evidence_goes_with_old_snapshots(patch: Patch) -> None:
    """Retention, and a start that clears up, do not look at what is kept because it differed."""
    patch(StateStore, "evidence", lambda self: set())


def states_that_a_hash_showed_are_cleared_away(patch: Patch) -> None:
    """Only snapshots are spared at a start, and not the state at which a service stood still."""

    def evidence(self: StateStore) -> set[int]:
        snapshots = [one for one in self.list_evidence() if len(one.recording_ids) == 2]
        return {recording_id for one in snapshots for recording_id in one.recording_ids}

    patch(StateStore, "evidence", evidence)


def evidence_is_forgotten_with_the_state(patch: Patch) -> None:
    """A member that takes the others' state forgets which of its snapshots differed."""
    original = StateStore.replace_snapshots

    def replace_snapshots(self: StateStore, entry: SnapshotEntry, digest: bytes, from_position: int) -> None:
        original(self, entry, digest, from_position)
        with self._store.transaction() as txn:
            for key, _ in self._store.items(b"evidence/"):
                txn.delete(key)

    patch(StateStore, "replace_snapshots", replace_snapshots)


def leaders_write_what_old_members_cannot_read(patch: Patch) -> None:
    """The level of the log is raised when a leader knows the next one."""
    patch(ProtocolLevel, "_known_levels", lambda self, now_ns: [self.own_level])


def an_eighth_member_comes_to_old_ones(patch: Patch) -> None:
    """A leader does not wait for the level."""
    patch(membership, "MEMBERS_LEVEL", FIRST_LEVEL)


def members_that_were_not_heard_count_as_new(patch: Patch) -> None:
    """The level of the log is raised when those that have spoken know the next one."""

    def known(self: ProtocolLevel, now_ns: int) -> list[int]:
        return [self._reports[one].level for one in self._core.configuration.member_ids if one in self._reports]

    patch(ProtocolLevel, "_known_levels", known)


def snapshots_forget_the_level(patch: Patch) -> None:
    """A member that starts from a snapshot takes the log's level for that of old releases."""
    original = ProtocolLevel.start
    patch(ProtocolLevel, "start", lambda self, of_snapshot: original(self, of_snapshot and PROTOCOL_LEVEL - 1))

"""Encodes BackupResponse, which describes a member to a backup (cluster-consensus.md §22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import encode_members
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
    from ordo.cluster.module.state.state_store import SnapshotEntry
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.counters import Counter

MODULE_ID = -1


class BackupDescription:
    """Describes one member to backups.

    Only snapshots count that a quorum was seen to hold alike, or older ones: so a backup cannot copy the mistake of one
    member.
    """

    def __init__(
        self,
        member_id: int,
        core: ConsensusCore,
        log: LogKeeper,
        shelf: SnapshotShelf,
        agreement: SnapshotAgreement,
        membership: Membership,
        commit_position: Counter,
    ) -> None:
        self._member_id = member_id
        self._core = core
        self._log = log
        self._shelf = shelf
        self._agreement = agreement
        self._membership = membership
        self._commit_position = commit_position

    def describe(self, correlation_id: int, log_position: int) -> bytes | None:
        """Return a BackupResponse; None while there is no log to copy.

        `log_position` chooses the snapshot: the newest at or below it (the oldest where all are above), the newest of
        all for -1.
        """
        terms = self._core.terms
        if not terms or self._log.recording_id == NULL_VALUE:
            return None
        term_id, base_position = terms[-1]
        entry = self._choose(log_position)
        encoded: bytes = codecs.BACKUP_RESPONSE.encode(
            correlation_id=correlation_id,
            log_recording_id=self._log.recording_id,
            log_leadership_term_id=term_id,
            log_term_base_log_position=base_position,
            last_leadership_term_id=term_id,
            last_term_base_log_position=base_position,
            commit_position_counter_id=self._commit_position.counter_id,
            leader_member_id=self._core.leader_member_id,
            member_id=self._member_id,
            snapshots=[] if entry is None else _rows(entry),
            cluster_members=encode_members(self._membership.voters),
        )
        return encoded

    def _choose(self, log_position: int) -> SnapshotEntry | None:
        highest = self._agreement.agreed_position
        found = [one for one in self._shelf.valid() if one.log_position <= highest]
        if log_position == NULL_VALUE or not found:
            return found[0] if found else None
        return next((one for one in found if one.log_position <= log_position), found[-1])


def _rows(entry: SnapshotEntry) -> list[dict[str, int]]:
    """Return the rows of a snapshot: the service's part first, the module's last."""
    shared = {
        "leadership_term_id": entry.leadership_term_id,
        "term_base_log_position": entry.term_base_log_position,
        "log_position": entry.log_position,
        "timestamp": entry.timestamp,
    }
    of_services = sorted(enumerate(entry.service_recording_ids), reverse=True)  # as Aeron's recording log has them
    parts = (*of_services, (MODULE_ID, entry.module_recording_id))
    return [{"service_id": service_id, "recording_id": recording_id, **shared} for service_id, recording_id in parts]

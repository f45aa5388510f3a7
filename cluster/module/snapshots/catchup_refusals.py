"""Requests for deleted log: the leader refuses them and names a snapshot, which the asking member fetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.members import parse_member
from ordo.consensus.state.states import ElectionState
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
    from ordo.cluster.module.snapshots.snapshot_fetch import SnapshotFetch
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer

REFUSAL_INTERVAL_NS = 100_000_000


class CatchupRefusals:
    """The leader's part."""

    def __init__(
        self,
        own_id: int,
        core: ConsensusCore,
        contacts: Contacts,
        shelf: SnapshotShelf,
        reports: SnapshotReports,
        agreement: SnapshotAgreement,
    ) -> None:
        self._own_id = own_id
        self._core = core
        self._contacts = contacts
        self._shelf = shelf
        self._reports = reports
        self._agreement = agreement
        self._refused_ns: dict[int, int] = {}

    def refuse(self, member_id: int, position: int, start_position: int, leadership_term_id: int, now_ns: int) -> None:
        """Tell a member that the requested log is deleted, which snapshot to take instead, and from which member."""
        agreed = self._agreement.agreed
        if agreed.log_position <= position or now_ns < self._refused_ns.get(member_id, 0):
            return
        source_id = self._choose_source(agreed, member_id, now_ns)
        if source_id == NULL_VALUE:
            return
        (source,) = self._contacts.find([source_id])
        self._refused_ns[member_id] = now_ns + REFUSAL_INTERVAL_NS
        refusal = ordo_codecs.CATCHUP_REFUSAL.encode(
            leadership_term_id=leadership_term_id,
            start_position=start_position,
            snapshot_position=agreed.log_position,
            leader_member_id=self._own_id,
            follower_member_id=member_id,
            source_member_id=source_id,
            digest=agreed.digest,
            source=source.encode(),
        )
        self._reports.note_need(member_id, agreed.log_position, now_ns)
        self._contacts.send(member_id, refusal)

    def _choose_source(self, snapshot: HeldSnapshot, member_id: int, now_ns: int) -> int:
        """Return the follower to fetch a snapshot from, else the leader, which is busier; -1 if no holder is active."""
        holders = [one for one in self._reports.holders(snapshot) if one not in (member_id, self._own_id)]
        active = [one for one in holders if self._core.progress.is_active(one, now_ns)]
        if active:
            return active[member_id % len(active)]
        return self._own_id if self._shelf.find(*snapshot) is not None else NULL_VALUE


class RefusedCatchup:
    """The part of the member that asked."""

    def __init__(
        self,
        own_id: int,
        core: ConsensusCore,
        sequencer: Sequencer,
        contacts: Contacts,
        fetch: SnapshotFetch,
        *,
        announce: Callable[[str, str], None],
        on_begun: Callable[[int], None],
    ) -> None:
        """Take the member's parts; `on_begun` takes the time at which a fetch has begun."""
        self._own_id = own_id
        self._core = core
        self._sequencer = sequencer
        self._contacts = contacts
        self._fetch = fetch
        self._announce = announce
        self._on_begun = on_begun

    def on_refusal(self, refusal: records.CatchupRefusal, now_ns: int) -> None:
        """Begin to fetch the snapshot: the leader no longer has the log that this member needs next."""
        is_for_this = refusal.follower_member_id == self._own_id and self._core.state is not ElectionState.CLOSED
        if not is_for_this or refusal.snapshot_position <= self._sequencer.append_position:
            return
        if refusal.source_member_id not in self._contacts:
            self._contacts.learn(parse_member(refusal.source_member_id, refusal.source))
            self._contacts.connect(now_ns)
        wanted = HeldSnapshot(refusal.snapshot_position, refusal.digest)
        if self._fetch.begin(wanted, refusal.source_member_id, now_ns):
            self._on_begun(now_ns)
            self._announce(
                "cluster.snapshot-fetch",
                f"the log from position {self._sequencer.append_position} on is kept no longer by leader member "
                f"{refusal.leader_member_id}: fetches the snapshot at {wanted.log_position} from member "
                f"{refusal.source_member_id}",
            )

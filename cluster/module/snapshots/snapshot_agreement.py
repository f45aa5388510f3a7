"""Determines, once a second, which snapshot a quorum of voters and this member hold alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.snapshots.snapshot_reports import Agreement, HeldSnapshot
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_fetch import SnapshotFetch
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class StateJudge(Protocol):
    """Judges the state of this member by those of the others."""

    def compare(self, agreed: HeldSnapshot, alike_position: int) -> None:
        """Compare with a snapshot that a quorum holds alike, and that this member does not hold alike (yet)."""

    def tell_dissent(self, position: int | None) -> None:
        """Say that no quorum can agree at a position."""


class SnapshotAgreement:
    """One member's knowledge of what a quorum holds alike.

    `newest`: of what a quorum was last seen to hold, whether this member holds it or not; None for nothing.
    """

    def __init__(
        self,
        core: ConsensusCore,
        store: StateStore,
        shelf: SnapshotShelf,
        reports: SnapshotReports,
        judge: StateJudge,
    ) -> None:
        self._core = core
        self._store = store
        self._shelf = shelf
        self._reports = reports
        self._judge = judge
        self._agreement = Agreement(HeldSnapshot(*store.load().agreed))
        self.newest: HeldSnapshot | None = None

    @property
    def agreed(self) -> HeldSnapshot:
        """The newest snapshot that this member holds and a quorum was seen to hold alike."""
        return self._agreement.agreed

    @property
    def agreed_position(self) -> int:
        """The position of `agreed`, or -1."""
        return self._agreement.agreed.log_position

    @property
    def newest_position(self) -> int:
        """The position of `newest`, or -1."""
        return NULL_VALUE if self.newest is None else self.newest.log_position

    def holders(self) -> list[int]:
        """Return the members that hold `newest`, by ascending id."""
        return [] if self.newest is None else self._reports.holders(self.newest)

    def work(self) -> None:
        """Note permanently the newest snapshot that a quorum of voters and this member hold alike."""
        configuration, agreement = self._core.configuration, self._agreement
        found = self._reports.find_quorums(configuration.voter_ids, configuration.quorum_threshold)
        former = agreement.agreed
        for missed, alike_position in agreement.settle(found, self._shelf.digests()):
            self._judge.compare(missed, alike_position)
        if agreement.agreed != former:
            self._store.put_agreed(*agreement.agreed)
        self.newest = found[-1] if found else None
        self._judge.tell_dissent(self._reports.find_dissent(configuration.voter_ids, configuration.quorum_threshold))


class SnapshotReporter:
    """Tells the other members which snapshots this one holds, and which log it still needs."""

    def __init__(
        self,
        sequencer: Sequencer,
        contacts: Contacts,
        shelf: SnapshotShelf,
        reports: SnapshotReports,
        fetch: SnapshotFetch,
    ) -> None:
        self._sequencer = sequencer
        self._contacts = contacts
        self._shelf = shelf
        self._reports = reports
        self._fetch = fetch
        self._held: dict[int, bytes] = {}
        self._reported: dict[int, bytes] = {}

    def look(self, now_ns: int) -> None:
        """See which snapshots this member holds; called at each turn."""
        self._held = self._shelf.digests()

    def has_news(self) -> bool:
        """Return whether this member holds other snapshots than it has reported."""
        return self._held.keys() != self._reported.keys()

    def work(self, now_ns: int) -> None:
        """Tell the others, once a second and when there is news."""
        self._reported = self._held
        self._contacts.broadcast(self._reports.encode_own(self._reported, self._needed_position, now_ns))

    @property
    def _needed_position(self) -> int:
        """The position where the log begins that this member still lacks.

        Following the live log it may need it again.
        """
        return self._fetch.position if self._fetch.is_under_way else int(self._sequencer.append_position)

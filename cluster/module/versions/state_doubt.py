"""A member whose state differs from the others': it does not lead, keeps the evidence, and takes the others' state.

    found     the others of a quorum hold a snapshot alike, and this member holds another one of the same position; or
              their services had one state there, and this member's another (ordo.cluster.module.versions.state_hashes)
    leading   it hands over first: somebody has to answer meanwhile
    doubting  it votes, stands back from leading, answers nothing, and its service executes nothing more
    keeping   the state that shows the difference stays: the snapshot, or what the service records where it stands still
    fetching  the quorum's snapshot comes from a member that holds it; this one starts again from it, with its own log

Nothing of this touches the log, which is whole: only what the service made of it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
from ordo.cluster.module.state.state_store import Evidence
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import RecordOrder
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_fetch import FetchedSnapshot, SnapshotFetch
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import MemberHost
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.consensus.core import ConsensusCore

STATE_NS_MAX = 600 * 1_000_000_000
"""A service that has not recorded its state by then is not waited for."""


class StateDoubt:
    """The doubt of one member about its own state. `position`: where it was found to differ, or -1."""

    def __init__(
        self,
        host: MemberHost,
        core: ConsensusCore,
        store: StateStore,
        shelf: SnapshotShelf,
        reports: SnapshotReports,
        counters: ModuleCounters,
        order: Callable[[bytes], bool],
    ) -> None:
        """Take the member's parts. `order` sends a RecordOrder to the service, and returns False when it cannot."""
        self._host = host
        self._core = core
        self._store = store
        self._shelf = shelf
        self._reports = reports
        self._counters = counters
        self._order = order
        self.position = NULL_VALUE
        self._has_stopped_service = False
        self._dissent_position = NULL_VALUE
        self._unkept: Evidence | None = None
        """What a hash has shown, while the service records its state."""
        self._stopped_ns = 0

    def compare(self, agreed: HeldSnapshot, alike_position: int) -> None:
        """Compare with a snapshot that a quorum holds alike.

        `alike_position`: of the newest that this member held with a quorum.
        """
        own = self._reports.find_difference(agreed)
        if own is None or self.position != NULL_VALUE:
            return
        self.position = agreed.log_position
        kept = self._shelf.keep_as_evidence(agreed, own, alike_position)
        where = (
            f"Its own snapshot is kept as recordings {kept.recording_ids} (`ordo cluster evidence`)"
            if kept is not None
            else "Its own snapshot is not kept: it takes more than [snapshot] evidence_bytes"
        )
        since = _since(alike_position)
        self._host.record_error(
            f"the state of this member differs from that of members {self._reports.holders(agreed)}: something was "
            f"executed otherwise {since} {agreed.log_position}, where its snapshot has digest {own.hex()}, theirs "
            f"{agreed.digest.hex()}; the service, or what it writes, is not deterministic, or ran with other code. "
            f"{where}; it takes the others'"
        )

    def on_other_hash(self, agreed: HeldSnapshot, own: bytes, alike_position: int) -> None:
        """Note that the services of a quorum had this state, and this member's another.

        `alike_position`: where it was last known to have the others' state, or -1.
        """
        if self.position != NULL_VALUE:
            return
        self.position = agreed.log_position
        self._unkept = Evidence(
            NULL_VALUE, agreed.log_position, alike_position, NULL_VALUE, NULL_VALUE, 0, own, agreed.digest
        )
        since = _since(alike_position)
        self._host.record_error(
            f"the state of this member differs from that of a quorum: something was executed otherwise {since} "
            f"{agreed.log_position}, where the hash of its state is {own.hex()}, theirs {agreed.digest.hex()}; the "
            "service, or its state_hash, is not deterministic, or ran with other code. It takes the others' state with "
            "the next snapshot"
        )

    def on_state_kept(self, log_position: int, recording_id: int, *more: int) -> None:
        """Note that the service is halted here with its state recorded; NULL_VALUE if it could not be recorded.

        `more`: the states of the services 1, 2, ..., which may stand elsewhere.
        """
        found, self._unkept = self._unkept, None
        if found is None:
            return
        kept = found._replace(log_position=log_position, service_recording_id=recording_id, more_recording_ids=more)
        if not kept.recording_ids:
            told = "could not be recorded"
        elif self._shelf.keep_state(kept):
            told = f"is kept as recording {', '.join(map(str, kept.recording_ids))} (`ordo cluster evidence`)"
        else:
            told = "is not kept: it takes more than [snapshot] evidence_bytes"
        self._host.announce(
            "cluster.evidence", f"the differing state of this member at log position {log_position} {told}"
        )

    def tell_dissent(self, position: int | None) -> None:
        """Say once of each position that no quorum can agree there."""
        if position is None or position <= self._dissent_position:
            return
        self._dissent_position = position
        self._host.record_error(
            f"no quorum of the members has the same state at log position {position}: the service is not "
            "deterministic, look for sets and dictionaries of objects, time, randomness, addresses "
            "(`ordo.testing.check_environments` finds many); no snapshot is agreed on, and no log is deleted, until "
            "they are alike"
        )

    def work(self, fetch: SnapshotFetch, newest: HeldSnapshot | None, append_position: int, now_ns: int) -> None:
        """Take one step towards the others' state. `newest`: the newest snapshot that a quorum holds alike."""
        if self.position == NULL_VALUE:
            return
        if self._core.is_leading:
            self._host.transfer.begin(None, now_ns)
            return
        self._core.doubt_state()
        self._counters.distrust.set(int(self._core.distrust))
        if not self._has_stopped_service:
            order = RecordOrder.STAND_STILL if self._unkept is None else RecordOrder.KEEP_STATE
            stop = ordo_codecs.RECORD_ORDER.encode(log_position=self.position, order=order, text=b"")
            self._has_stopped_service, self._stopped_ns = self._order(stop), now_ns
        if self._unkept is not None and now_ns - self._stopped_ns < STATE_NS_MAX:
            return
        if newest is None or newest.log_position < self.position or newest.log_position > append_position:
            return
        if fetch.begin_from(self._reports.holders(newest), newest, self._core.leader_member_id, now_ns):
            self._host.announce(
                "cluster.snapshot-fetch", f"takes the state at log position {newest.log_position} of the other members"
            )

    def install(self, fetched: FetchedSnapshot) -> None:
        """Replace this member's snapshots from the difference on; the log stays and is executed again from there."""
        position = fetched.entry.log_position
        self._store.replace_snapshots(fetched.entry, fetched.digest, self.position)
        self._host.start_again(f"executes the log again from the other members' state at log position {position}")


def _since(alike_position: int) -> str:
    """Return where execution diverged, as far as it is known, for a message that names the later position next."""
    return f"between log positions {alike_position} and" if alike_position > 0 else "up to log position"

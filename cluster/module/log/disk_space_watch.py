"""Watches the free space on the disk: a member whose disk fills up takes less, and neither stops nor loses anything.

    free bytes   what becomes of the member
    low mark     SHORT until there is more than the high mark: as a leader it takes no more messages of clients, hands
                 over where a quorum of the others has room, and has the log shortened as far as retention allows
    half of it   what clients have sent before they heard of it stays in their ingress, too
    a quarter    OUT until there is more than the low mark: it appends nothing as a leader, and as a follower it leaves
                 the log, so that the others go on without it; it votes, answers queries, and is heard as before
    3/16         no more of the log is recorded until the next look at the disk; what is left is for snapshots, which
                 let go of log

A follower tells its leader with every position that it is SHORT: where no quorum of voters has room, what is taken
could not be committed, and the leader takes no messages either. What a member has acknowledged is on its disk already,
so that none of this takes anything back (docs/OPERATIONS.md, Full disks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.counters.counter_types import Room
from ordo.cluster.wire.sessions.ingress_notice import OPEN_NOTICE, encode_closed
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import StorageError
from ordo.sequencer.sequencer import FLAG_NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.archive.archive import Archive
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.sessions.session_notices import SessionNotices
    from ordo.cluster.module.sessions.sessions import ClusterSession
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.settings import ArchiveSettings
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.consensus.core import ConsensusCore
    from ordo.consensus.state.messages import AppendPosition
    from ordo.runtime.native.counters import Counter
    from ordo.sequencer.sequencer import Sequencer

HEARD_NS = 1_000_000_000
"""A member that is heard for so long without the flag has room again."""
DRAIN_NS = 1_000_000_000
"""For so long messages are taken that clients sent before they knew."""
HANDOVER_INTERVAL_NS = 10_000_000_000
SNAPSHOT_INTERVAL_NS = 10_000_000_000
TOUCH_INTERVAL_NS = 500_000_000
SHORT, OUT, CLOSED = (int(one) for one in (Room.SHORT, Room.OUT, Room.CLOSED))


class RoomHost(Protocol):
    """The member whose disk is watched."""

    transfer: LeadershipTransfer

    def record_error(self, message: str) -> None: ...
    def announce(self, event: str, text: str) -> None: ...
    @property
    def member_id(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...


@dataclass(frozen=True)
class WatchedDisk:
    """The disk of an archive, its two marks in bytes, and the counter that shows the state of it."""

    archive: Archive
    low_bytes: int
    high_bytes: int
    counter: Counter

    @classmethod
    def of(cls, archive: Archive, settings: ArchiveSettings, counters: ModuleCounters) -> WatchedDisk:
        """Return the disk that a member's settings speak of."""
        return cls(archive, settings.disk_low_bytes, settings.disk_high_bytes, counters.no_room)

    def measure(self) -> int:
        """Return the bytes that are free. Raises StorageError."""
        return int(self.archive.storage.usable_bytes(self.archive.directory))


class RoomWatch:
    """Watches one member's disk; `work` looks at it with every slow tick."""

    def __init__(
        self,
        host: RoomHost,
        disk: WatchedDisk,
        log: LogKeeper,
        core: ConsensusCore,
        sequencer: Sequencer,
        clients: SessionNotices,
        *,
        order_early_snapshot: Callable[[int], None],
        carry_out: Callable[[int], None],
    ) -> None:
        """Take the member's parts.

        `order_early_snapshot` takes how much room a snapshot has, in bytes; `carry_out` carries out, at a time in ns,
        what consensus has asked for.
        """
        self._host = host
        self._disk = disk
        self._log = log
        self._core = core
        self._sequencer = sequencer
        self._clients = clients
        self._order_early_snapshot = order_early_snapshot
        self._carry_out = carry_out
        self.is_out = False
        """No room for anything: nothing is to be appended or recorded."""
        self.is_closed = False
        """This leader takes no messages."""
        self._is_short = False
        self._free_bytes = disk.high_bytes
        self._short_members: dict[int, int] = {}
        """When each of those voters said last that it is short of room."""
        self._reason = ""
        self._closed_ns = self._handover_ns = self._snapshot_ns = self._touch_ns = 0

    @property
    def state(self) -> int:
        """The state of the disk as bits of `Room`."""
        return self._is_short * SHORT | self.is_out * OUT | self.is_closed * CLOSED

    def on_append_position(self, message: AppendPosition, now_ns: int) -> None:
        """Take a follower's position, with its flags; for the leader only."""
        if message.flags & FLAG_NO_ROOM:
            self._short_members[message.follower_member_id] = now_ns
        else:
            self._short_members.pop(message.follower_member_id, None)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Begin to lead: forget what other members reported to earlier leaders."""
        self._short_members.clear()
        self.is_closed = False

    def tell(self, session: ClusterSession) -> None:
        """Tell a session that was opened just now."""
        if self.is_closed:
            self._clients.notify(session, encode_closed(self._reason))

    # -- time ----------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> None:
        """Check the disk; called with every slow tick."""
        self._look()
        if self._host.is_leader:
            self._lead(now_ns)
        else:
            self.is_closed = False
            self._follow(now_ns)
        self._disk.counter.set(self.state)

    def _look(self) -> None:
        try:
            self._free_bytes = self._disk.measure()
        except StorageError:
            return  # the next write there says what is wrong
        free, low, high = self._free_bytes, self._disk.low_bytes, self._disk.high_bytes
        was_short = self._is_short
        self._is_short = free < (high if was_short else low)
        self.is_out = free < (low if self.is_out else low // 4)
        self._log.bound(max(0, free - low * 3 // 16) if low else None)
        self._sequencer.mark_no_room(self._is_short)
        if was_short is not self._is_short:
            self._announce()

    def _announce(self) -> None:
        where, free_mib = self._disk.archive.directory, self._free_bytes >> 20
        if self._is_short:
            self._host.record_error(
                f"{free_mib} MiB are free for {where}, less than disk_low: a leader takes no messages until there is"
                " more than disk_high; set or lower [retention], or enlarge the disk"
            )
        else:
            self._host.announce("cluster.room", f"{free_mib} MiB are free for {where}: there is room again")

    # -- the leader ----------------------------------------------------------------------------------------------------

    def _lead(self, now_ns: int) -> None:
        reason = self._find_reason(now_ns)
        if bool(reason) is not self.is_closed:
            self._close(reason, now_ns) if reason else self._open()
        if self.is_closed:
            is_drained = now_ns >= self._closed_ns + DRAIN_NS or self._free_bytes < self._disk.low_bytes // 2
            if is_drained:
                self._sequencer.hold_for_room(True)
            self._bear_up(now_ns)

    def _find_reason(self, now_ns: int) -> str:
        """Return why no messages are taken; empty while they are."""
        if self._is_short:
            return f"the disk of member {self._host.member_id}, which leads, is full"
        short = self._find_short(now_ns)
        configuration = self._core.configuration
        if len(configuration.voter_ids) - len(short) < configuration.quorum_threshold:
            return f"the disks of members {short} are full"
        return ""

    def _find_short(self, now_ns: int) -> list[int]:
        progress, voters = self._core.progress, self._core.configuration.voter_ids
        for member_id, said_ns in list(self._short_members.items()):
            if now_ns - said_ns > HEARD_NS and progress.is_active(member_id, now_ns):
                del self._short_members[member_id]
        return sorted(one for one in self._short_members if one in voters)

    def _close(self, reason: str, now_ns: int) -> None:
        self.is_closed = True
        self._reason = reason
        self._closed_ns = now_ns
        self._host.announce("cluster.ingress", f"no messages are taken from clients: {reason}")
        self._clients.notify_all(encode_closed(reason))

    def _open(self) -> None:
        self.is_closed = False
        self._sequencer.hold_for_room(False)
        self._clients.touch()
        self._host.announce("cluster.ingress", "messages are taken from clients again")
        self._clients.notify_all(OPEN_NOTICE)

    def _bear_up(self, now_ns: int) -> None:
        """Keep open the sessions whose messages delay their keep-alives; hand over, or delete what may be deleted."""
        if now_ns >= self._touch_ns:
            self._touch_ns = now_ns + TOUCH_INTERVAL_NS
            self._clients.touch()
        if not self._is_short:
            return
        if now_ns >= self._handover_ns:
            self._handover_ns = now_ns + HANDOVER_INTERVAL_NS
            self._hand_over(now_ns)
        if now_ns >= self._snapshot_ns and self._free_bytes > self._disk.low_bytes // 2:
            self._snapshot_ns = now_ns + SNAPSHOT_INTERVAL_NS
            self._order_early_snapshot(self._free_bytes - self._disk.low_bytes // 2)

    def _hand_over(self, now_ns: int) -> None:
        """Hand over to a member that has room, if enough of the others have room."""
        short, configuration = self._find_short(now_ns), self._core.configuration
        able = [
            one
            for one in configuration.voter_ids
            if one not in short and one != self._host.member_id and self._core.progress.is_active(one, now_ns)
        ]
        if len(able) >= configuration.quorum_threshold:
            self._host.transfer.begin(max(able, key=self._core.progress.member_position), now_ns)

    # -- the others ----------------------------------------------------------------------------------------------------

    def _follow(self, now_ns: int) -> None:
        self._sequencer.hold_for_room(False)
        if not self.is_out:
            return
        if self._core.state is ElectionState.CLOSED and not self._core.is_serving:
            self._core.on_log_lost("no room on the disk for the log", False, now_ns)
            self._carry_out(now_ns)
        self._core.bear_standstill(now_ns)

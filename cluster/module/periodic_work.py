"""The periodic work of a member beside its log: its members, snapshots, retention, room, clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.members.trust_watch import TrustWatch
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.state.clock_watch import ClockWatch
    from ordo.cluster.module.upkeep.disk_space_watch import RoomWatch
    from ordo.cluster.module.upkeep.join_watch import JoinWatch
    from ordo.cluster.module.upkeep.upkeep import Upkeep

BUSY_INTERVAL_NS = 5_000_000
IDLE_INTERVAL_NS = 100_000_000


class Chores:
    """Runs the periodic work.

    A busy member does it on its slow ticks, though not on each of the quick ones; an idle member, where ticks are most
    of the cost, does it less often.
    """

    def __init__(
        self,
        membership: Membership,
        trust: TrustWatch,
        join: JoinWatch,
        clock_watch: ClockWatch,
        upkeep: Upkeep,
        room: RoomWatch,
        sessions: OpenSessions,
    ) -> None:
        self.is_busy = True
        """An election, a join, a transfer or a request is under way."""
        self._membership = membership
        self._trust = trust
        self._join = join
        self._clock_watch = clock_watch
        self._upkeep = upkeep
        self._room = room
        self._sessions = sessions
        self._done_ns = -IDLE_INTERVAL_NS
        self._append_position = NULL_VALUE

    def work(self, append_position: int, now_ns: int) -> None:
        """Run the work that is due; called with every slow tick. A log that has grown also makes a member busy."""
        is_idle = append_position == self._append_position and not self.is_busy
        if now_ns - self._done_ns < (IDLE_INTERVAL_NS if is_idle else BUSY_INTERVAL_NS):
            return
        self._done_ns, self._append_position = now_ns, append_position
        self._membership.work(now_ns)
        self._trust.work(now_ns)
        self._join.work(now_ns)
        self._clock_watch.work()
        self._upkeep.work(now_ns)
        self._room.work(now_ns)
        self._sessions.take_counters()
        self._sessions.release_unwanted()

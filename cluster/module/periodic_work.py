"""The periodic work of a member beside its log: its members, snapshots, retention, room, clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.cluster.module.log.disk_space_watch import RoomWatch, WatchedDisk
from ordo.cluster.module.log.join_watch import JoinWatch
from ordo.cluster.module.members.trust_watch import TrustWatch
from ordo.cluster.module.services.service_watch import ServiceWatch
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS

if TYPE_CHECKING:
    from ordo.cluster.module.client_parts import ClientParts
    from ordo.cluster.module.member_parts import Foundation
    from ordo.cluster.module.members.membership import Membership
    from ordo.transport.client.client import TransportClient

BUSY_INTERVAL_NS = 5_000_000
IDLE_INTERVAL_NS = 100_000_000

Work = Callable[[int], object]
"""Does what is due at a time in ns."""


class EverySecond:
    """Runs work once a second, and at once when this member has something to tell the others."""

    def __init__(self, works: Sequence[Work], has_news: Callable[[], bool]) -> None:
        self._works = works
        self._has_news = has_news
        self._due_ns = 0

    def hasten(self, now_ns: int) -> None:
        """Run the work at the next tick."""
        self._due_ns = now_ns

    def work(self, now_ns: int) -> None:
        """Run the work if it is due."""
        if now_ns < self._due_ns and not self._has_news():
            return
        self._due_ns = now_ns + SECOND_NS
        for work in self._works:
            work(now_ns)


class DriverWatch:
    """Ends a member whose media driver is gone.

    The driver's end is an error in whatever call meets it first. In an election that is one more failed attempt, which
    is followed by the next one at once, again and again.
    """

    def __init__(self, client: TransportClient) -> None:
        self._client = client

    def work(self, now_ns: int) -> None:
        """Raise TransportError if the driver is gone."""
        self._client.check_open()


class PeriodicWork:
    """Runs work on the slow ticks of a member.

    A busy member does it on its slow ticks, though not on each of the quick ones; an idle member, where ticks are most
    of the cost, does it less often.
    """

    def __init__(self, works: Sequence[Work]) -> None:
        self.is_busy = True
        """An election, a join, a transfer or a request is under way."""
        self._works = works
        self._done_ns = -IDLE_INTERVAL_NS
        self._append_position = NULL_VALUE

    def work(self, append_position: int, now_ns: int) -> None:
        """Run the work that is due; called with every slow tick. A log that has grown also makes a member busy."""
        is_idle = append_position == self._append_position and not self.is_busy
        if now_ns - self._done_ns < (IDLE_INTERVAL_NS if is_idle else BUSY_INTERVAL_NS):
            return
        self._done_ns, self._append_position = now_ns, append_position
        for work in self._works:
            work(now_ns)


@dataclass(frozen=True)
class Watches:
    """What looks after a member again and again: its periodic work, and within it the room on its disk; its service."""

    periodic: PeriodicWork
    room: RoomWatch
    service: ServiceWatch


def make_watches(
    base: Foundation,
    membership: Membership,
    clients: ClientParts,
    snapshot_works: Sequence[Work],
    *,
    order_early_snapshot: Callable[[int], None],
    carry_out: Callable[[int], None],
) -> Watches:
    """Build what looks after a member; the last two are as `RoomWatch` has them."""
    member, core, sequencer, sessions = base.member, base.core, base.sequencer, clients.sessions
    room = RoomWatch(
        member,
        WatchedDisk.of(base.seams.archive, base.config.archive, base.counters),
        base.log,
        core,
        sequencer,
        clients.notices,
        order_early_snapshot=order_early_snapshot,
        carry_out=carry_out,
    )
    periodic = PeriodicWork(
        (
            DriverWatch(base.seams.client).work,
            membership.work,
            TrustWatch(core, member.record_error).work,
            JoinWatch(core, sequencer, base.contacts, member.record_error).work,
            lambda now_ns: member.clock_watch.work(),
            *snapshot_works,
            room.work,
            clients.quotas.work,
            lambda now_ns: sessions.take_counters(),
            lambda now_ns: sessions.release_unwanted(),
        )
    )
    service = ServiceWatch(member, base.config, core, sequencer, base.counters.service_position, clients.notices.touch)
    return Watches(periodic, room, service)

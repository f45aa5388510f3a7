"""The periodic work of a member beside its log: its members, snapshots, retention, room, clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS

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

"""Timers of the services: a heap ordered by deadline (cluster-consensus.md §13)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.timers import ServiceTimers

STALE_ENTRIES_MAX = 64
"""Entries of the heap for which there is no timer, beyond one for each there is."""


class TimerService:
    """The timers of one service by correlation id: scheduled on every member, fired only by the leader.

    They are those of the service at the record that it executes, which may be behind or ahead of the module. A timer
    of which an event is in the log that the service has not come to is not fired: the service decides what that event
    is for. `_appended` holds the events of this leadership that are not committed, and is dropped with it, so that the
    next leader fires them again.
    """

    def __init__(self) -> None:
        self._timers = ServiceTimers()
        self._heap: list[tuple[int, int]] = []
        self._ahead: dict[int, int] = {}
        """Events that the module has executed and the service has not; below zero the other way round."""
        self._appended: set[int] = set()
        self._unit: TimeUnit | None = None

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, correlation_id: int, deadline: int) -> None:
        """Schedule a timer, in place of any with this correlation id; `deadline` is in cluster time units."""
        self._timers.schedule(correlation_id, deadline)
        self._push(correlation_id)

    def cancel(self, correlation_id: int) -> None:
        self._timers.cancel(correlation_id)

    def execute(self, correlation_id: int) -> None:
        """Execute a TimerEvent of the log."""
        self._appended.discard(correlation_id)
        self._count(correlation_id, 1)

    def on_service_executed(self, correlation_id: int, timestamp: int) -> None:
        """Remove a timer whose TimerEvent the service has executed."""
        self._timers.fire(correlation_id, timestamp)
        self._count(correlation_id, -1)

    def on_unit(self, unit: TimeUnit) -> None:
        """Note that the service's deadlines are in this unit from now on; it says so where the log's time changes."""
        former, self._unit = self._unit, unit
        if former not in (None, unit):
            self._timers.rescale(former, unit)
            self._fill_heap()

    @property
    def unit(self) -> TimeUnit | None:
        """The unit of the deadlines; None: that of the log, whichever it is."""
        return self._unit

    def pop_due(self, now: int) -> int | None:
        """Return the correlation id of the next timer due at `now`, or None. The caller fires it or puts it back.

        `now` is in the unit of the log's end, from which a service that is behind may have another one.
        """
        if self._unit is not None:
            now = TimeUnit.of_timestamp(now).rescale(now, self._unit)
        while self._heap and self._heap[0][0] <= now:
            deadline, correlation_id = heapq.heappop(self._heap)
            if self._timers.get_deadline(correlation_id) == deadline and not self._is_under_way(correlation_id):
                return correlation_id
        return None

    @property
    def next_deadline(self) -> int | None:
        """Return a deadline that none of the timers is due before; None where there are none."""
        return self._heap[0][0] if self._heap else None

    def put_back(self, correlation_id: int) -> None:
        """Keep a timer due, because its TimerEvent could not be appended."""
        self._push(correlation_id)

    def mark_fired(self, correlation_id: int) -> None:
        self._appended.add(correlation_id)

    def lose_leadership(self) -> None:
        """Forget events that were not committed: their timers are due again."""
        appended, self._appended = self._appended, set()
        for correlation_id in appended:
            self._push(correlation_id)

    def snapshot(self) -> list[tuple[int, int]]:
        """Return correlation id and deadline of each timer, by correlation id.

        Module and service must be equally far.
        """
        assert not self._ahead, f"timers: module and service are at different positions: {self._ahead}"
        return self._timers.snapshot()

    def _is_under_way(self, correlation_id: int) -> bool:
        return correlation_id in self._appended or self._ahead.get(correlation_id, 0) > 0

    def _count(self, correlation_id: int, change: int) -> None:
        ahead = self._ahead.pop(correlation_id, 0) + change
        if ahead:
            self._ahead[correlation_id] = ahead
        self._push(correlation_id)

    def _push(self, correlation_id: int) -> None:
        """Add a heap entry for a timer. Stale entries are skipped when popped, and cleared now and then."""
        deadline = self._timers.get_deadline(correlation_id)
        if deadline is None:
            return
        heapq.heappush(self._heap, (deadline, correlation_id))
        if len(self._heap) > 2 * len(self._timers) + STALE_ENTRIES_MAX:
            self._fill_heap()

    def _fill_heap(self) -> None:
        self._heap = [(deadline, correlation_id) for correlation_id, deadline in self._timers.snapshot()]
        heapq.heapify(self._heap)


class ClusterTimers:
    """The timers of all services of a member, by service id.

    A TimerEvent of the log names a correlation id and no service. Each service executes it for its own timer of that
    id, if it has one that is due, and leaves it alone otherwise; so does each `TimerService` here.
    """

    def __init__(self, service_count: int) -> None:
        self._services = [TimerService() for _ in range(service_count)]
        self._unit: TimeUnit | None = None

    def __len__(self) -> int:
        return sum(len(one) for one in self._services)

    def __getitem__(self, service_id: int) -> TimerService:
        return self._services[service_id]

    def execute(self, correlation_id: int) -> None:
        """Execute a TimerEvent of the log."""
        for one in self._services:
            one.execute(correlation_id)

    @property
    def next_deadline(self) -> int | None:
        """Return a deadline that none of the timers is due before; None where there are none.

        None as well while a service has not executed the change of the log's unit: its deadlines are in the former one.
        """
        if len({self._unit, *(one.unit for one in self._services)} - {None}) > 1:
            return None
        found = (one.next_deadline for one in self._services)
        return min((deadline for deadline in found if deadline is not None), default=None)

    def fire_due(self, now: int, append: Callable[[int], bool]) -> bool:
        """Give every timer that is due to `append(correlation_id)`, until it returns False; for the leader only.

        Returns whether all of them were appended.
        """
        for one in self._services:
            while (correlation_id := one.pop_due(now)) is not None:
                if not append(correlation_id):
                    one.put_back(correlation_id)
                    return False
                one.mark_fired(correlation_id)
        return True

    def begin(self, unit: TimeUnit) -> None:
        """Note the unit of the snapshot, or of a term that begins; services that have one tell of each change."""
        self._unit = unit
        for one in self._services:
            if one.unit is None:
                one.on_unit(unit)

    def lose_leadership(self) -> None:
        for one in self._services:
            one.lose_leadership()

    def snapshot(self) -> list[tuple[int, int]]:
        """Return correlation id and deadline of each timer of all services, as `merge_timers` sorts them."""
        return merge_timers(one.snapshot() for one in self._services)


def merge_timers(services: Iterable[Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return all services' timers in the order that the consensus module's part of a snapshot has them."""
    return sorted(timer for timers in services for timer in timers)

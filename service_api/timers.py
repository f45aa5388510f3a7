"""The timers of a service: one rule for all programs that execute a log."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

from ordo.runtime.errors import ServiceCallError
from ordo.runtime.native.cluster_time import TimeUnit

NUMBER_MIN, NUMBER_MAX = -(1 << 63), (1 << 63) - 1


def check_timer(correlation_id: int, deadline: int) -> None:
    """Raise ServiceCallError unless a timer can be written into the log: both are numbers of 64 bits."""
    for name, value in (("correlation_id", correlation_id), ("deadline", deadline)):
        if not (hasattr(value, "__index__") and NUMBER_MIN <= index(value) <= NUMBER_MAX):
            raise ServiceCallError(f"schedule_timer: {name}={value!r}: must be a whole number of 64 bits")


class ServiceTimers:
    """Deadlines by correlation id, as the service's calls and the TimerEvents of the log leave them, in log order.

    When the service cancels a timer or schedules it anew, an event of it may be on its way in the log already. It comes
    too late: it is not for the service any more, and leaves a timer with a later deadline alone. So what a service sees
    is a function of the log; a timer fires once, not before its deadline, and never after it was cancelled.
    """

    def __init__(self, timers: Iterable[tuple[int, int]] = ()) -> None:
        """Restore the timers from what `snapshot` returned."""
        self._deadlines = dict(timers)

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, correlation_id: int, deadline: int) -> None:
        """Schedule a timer; `deadline` in cluster time units. A timer with the same correlation id is replaced.

        Raises ServiceCallError for numbers that the log cannot hold.
        """
        check_timer(correlation_id, deadline)
        self._deadlines[correlation_id] = deadline

    def cancel(self, correlation_id: int) -> None:
        self._deadlines.pop(correlation_id, None)

    def fire(self, correlation_id: int, timestamp: int) -> bool:
        """Remove a timer whose TimerEvent is executed; return whether the event is for the service."""
        deadline = self._deadlines.get(correlation_id)
        if deadline is None or timestamp < deadline:
            return False
        del self._deadlines[correlation_id]
        return True

    def rescale(self, former: TimeUnit, unit: TimeUnit) -> None:
        """Give all deadlines the unit that the log's time has from here on."""
        self._deadlines = {one: former.rescale(deadline, unit) for one, deadline in self._deadlines.items()}

    def get_deadline(self, correlation_id: int) -> int | None:
        return self._deadlines.get(correlation_id)

    def snapshot(self) -> list[tuple[int, int]]:
        """Return (correlation id, deadline) of each timer, in order of correlation id."""
        return sorted(self._deadlines.items())

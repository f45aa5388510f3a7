"""Timers of the services: a heap ordered by deadline (cluster-consensus.md §13)."""

from __future__ import annotations

import heapq
from collections import Counter

MAX_VALUE = 2**63 - 1


class TimerService:
    """Timers by correlation id. Scheduled by the service on every member, fired only by the leader.

    A fired timer stays until its TimerEvent is executed; `fired` remembers which the leader has appended, and is
    dropped with the leadership, so that the next leader fires them again. An event that is executed before the local
    service has asked for the timer is remembered, and the late request is swallowed.
    """

    def __init__(self) -> None:
        self._deadlines: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self._early: Counter[int] = Counter()
        self._fired: set[int] = set()

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, correlation_id: int, deadline: int) -> None:
        """`deadline` in cluster time units; replaces a timer with the same correlation id."""
        if self._early[correlation_id] > 0:
            self._early[correlation_id] -= 1
            self._early += Counter()
            return
        self._deadlines[correlation_id] = deadline
        self._fired.discard(correlation_id)
        heapq.heappush(self._heap, (deadline, correlation_id))

    def cancel(self, correlation_id: int) -> None:
        self._deadlines.pop(correlation_id, None)

    def execute(self, correlation_id: int) -> None:
        """A TimerEvent was executed from the log."""
        self._fired.discard(correlation_id)
        if self._deadlines.pop(correlation_id, None) is None:
            self._early[correlation_id] += 1

    def pop_due(self, now: int) -> int | None:
        """The correlation id of the next timer due at `now`, or None; the caller fires it or puts it back."""
        while self._heap and self._heap[0][0] <= now:
            deadline, correlation_id = heapq.heappop(self._heap)
            if self._deadlines.get(correlation_id) == deadline and correlation_id not in self._fired:
                return correlation_id
        return None

    def put_back(self, correlation_id: int) -> None:
        """The TimerEvent could not be appended: the timer stays due."""
        heapq.heappush(self._heap, (self._deadlines[correlation_id], correlation_id))

    def mark_fired(self, correlation_id: int) -> None:
        self._fired.add(correlation_id)

    def lose_leadership(self) -> None:
        """Events that were appended and not committed are forgotten: their timers are due again."""
        for correlation_id in self._fired:
            if correlation_id in self._deadlines:
                heapq.heappush(self._heap, (self._deadlines[correlation_id], correlation_id))
        self._fired.clear()

    def next_deadline(self) -> int:
        return self._heap[0][0] if self._heap else MAX_VALUE

    def snapshot(self) -> list[tuple[int, int]]:
        """(correlation id, deadline) of each timer, in order of correlation id."""
        return sorted(self._deadlines.items())

"""Windows over topics: what was read lately, kept for consumers that are near each other.

A cursor reads a topic in order from some number on, no further than READ_AHEAD_BYTES ahead of the consumer that is
furthest, and forgets what is behind all of WINDOW_BYTES. A consumer within the window shares it; another one gets a
cursor of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from typing import Protocol

from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.kafka.wire.records import Stored
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.cluster_time import time_ms

READ_AHEAD_BYTES = 1 << 20
WINDOW_BYTES = 4 << 20
MESSAGE_BYTES = 64
"""So much each message counts besides its payload."""
FRAGMENTS_PER_POLL = 512
TRIM_MIN = 256
_NUMBER = attrgetter("number")


class Follower(Protocol):
    """What reads a topic; see FeedFollower."""

    def work(self, now_ns: int) -> int: ...

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int: ...

    def close(self) -> None: ...


class Cursor:
    """One place in a topic. `next_number` is the number of the message that it reads next, 0 while unknown."""

    may_jump = False
    """Whether numbers may be left out: who asks for one that is not there gets the next."""

    def __init__(self, follower: Follower, next_number: int) -> None:
        self._follower = follower
        self.next_number = next_number
        self.first_number = next_number
        """The number of the oldest message in the window."""
        self.error: OrdoError | None = None
        """Why it has ended."""
        self.used_s = 0.0
        self.worked_s = 0.0
        self.waiters = 0
        self.is_shared = False
        """Whether others than who opened it have read here."""
        self._messages: list[Stored] = []
        self._ends: list[int] = []
        """Bytes of all messages up to each of them, since the cursor began."""
        self._asked_bytes = 0
        """Bytes of all messages up to the last one that was handed out."""

    def covers(self, number: int) -> bool:
        """Return whether the message with this number is in the window, or is the next one to be read."""
        return self.error is None and 0 < self.first_number <= number <= self.next_number

    def work(self, now_ns: int) -> bool:
        """Run one duty cycle, and return whether messages came, or the cursor has ended."""
        if self.error is not None:
            return False
        before = self.next_number
        try:
            if self._total - self._asked_bytes < READ_AHEAD_BYTES:
                self._follower.poll_messages(self._on_message, FRAGMENTS_PER_POLL)
            self._follower.work(now_ns)
        except OrdoError as error:
            self.error = error
            self._follower.close()
        self._trim()
        return self.next_number != before or self.error is not None

    @property
    def _total(self) -> int:
        return self._ends[-1] if self._ends else self._asked_bytes

    def _on_message(self, message: FeedMessage) -> None:
        _, number, _, _, timestamp, payload = message
        if not self._messages and not (self.may_jump and self.first_number):
            self.first_number = number
        self._messages.append(Stored(number, time_ms(timestamp), payload))
        self._ends.append(self._total + len(payload) + MESSAGE_BYTES)
        self.next_number = number + 1

    def _trim(self) -> None:
        if not self._ends or self._ends[-1] - self._ends[0] <= WINDOW_BYTES:
            return
        limit = self._ends[-1] - WINDOW_BYTES
        count = 0
        while self._ends[count] < limit and self._ends[count] <= self._asked_bytes:
            count += 1
        if count >= TRIM_MIN or count == len(self._ends):
            del self._messages[:count]
            del self._ends[:count]
            self.first_number = self._messages[0].number if self._messages else self.next_number

    def read(self, number: int, bytes_max: int) -> list[Stored]:
        """Return messages from `number` on without a gap: those up to `bytes_max`, and at least one if there is one."""
        begin = bisect_left(self._messages, number, key=_NUMBER)
        if number < self.first_number or begin == len(self._messages):
            return []
        first = self._messages[begin]
        start = self._ends[begin] - len(first.payload) - MESSAGE_BYTES
        end = begin + 1
        while end < len(self._messages) and self._ends[end] - start <= bytes_max:
            if self._messages[end].number != first.number + end - begin:
                break
            end += 1
        self._asked_bytes = max(self._asked_bytes, self._ends[end - 1])
        return self._messages[begin:end]

    def close(self) -> None:
        """End the reading. Idempotent."""
        self._follower.close()

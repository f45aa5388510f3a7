"""What happened in a simulated run: the last events in words, and one hash over all of them."""

from __future__ import annotations

import zlib
from collections import Counter, deque

EVENTS_KEPT = 200


class Trace:
    """Events in order of time. Two runs of one seed must end with the same `digest`."""

    def __init__(self) -> None:
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.digest = 0
        self.count = 0
        self.tally: Counter[str] = Counter()

    def note(self, now_ns: int, text: str) -> None:
        """One event at a virtual time in ns."""
        line = f"{now_ns / 1e9:11.6f} {text}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self.count += 1
        self.events.append(line)

    def count_fault(self, name: str) -> None:
        """One more fault of a kind."""
        self.tally[name] += 1

    def mix(self, value: int) -> None:
        """Takes a number into the digest that is no event of its own."""
        self.digest = zlib.crc32(value.to_bytes(8, "little", signed=True), self.digest)

"""How long requests of this gateway's callers take, second by second."""

from __future__ import annotations

import time
from typing import NamedTuple

SAMPLES_MAX = 4_096
"""So many round trips of one second are kept; more are counted only."""


class Second(NamedTuple):
    """What callers got in one second: how many answers, and percentiles of their round trips in ms, -1 without any."""

    answers: int
    p50_ms: float
    p99_ms: float
    max_ms: float


NOTHING = Second(0, -1, -1, -1)


class RoundTrips:
    """Counts the answers since the last call of `take`."""

    def __init__(self) -> None:
        self._answers = 0
        self._samples: list[float] = []
        self._longest = 0.0

    @staticmethod
    def start() -> float:
        """Return the moment at which something is sent, for `end`."""
        return time.monotonic()

    def end(self, answers: int, started: float) -> None:
        """Count this many answers to messages that were sent together."""
        took = time.monotonic() - started
        self._answers += answers
        self._longest = max(self._longest, took)
        if len(self._samples) < SAMPLES_MAX:
            self._samples.append(took)

    def take(self) -> Second:
        """Return the counts, and start again from zero."""
        if not self._samples:
            return NOTHING
        ordered = [one * 1e3 for one in sorted(self._samples)]
        last = len(ordered) - 1
        found = Second(self._answers, ordered[last // 2], ordered[round(last * 0.99)], self._longest * 1e3)
        self._answers, self._longest = 0, 0.0
        self._samples.clear()
        return found

"""How far a standby is behind its primary, in positions and in time."""

from __future__ import annotations

from collections import deque

MARKS_MAX = 4096
"""More than a standby that is asked four times a second meets while it is a quarter of an hour behind."""


class Lag:
    """Compares what the primary says of its committed log with what is here.

    What the primary had committed when it was asked is a mark. Once the standby has a mark, it has everything that was
    committed before the question was sent: what the primary committed since then may not be here. So the lag in time
    needs no two clocks that agree, and grows while the primary is silent.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        """(position, time of the question in ns) that are not reached yet, ascending."""
        self._level_ns: int | None = None
        self.heard_ns: int | None = None
        """When the primary answered last."""
        self.primary_position = -1
        """The most that the primary is known to have committed; -1: nothing is known."""
        self.position = -1
        """What is here."""

    def answer(self, position: int, asked_ns: int, now_ns: int) -> None:
        """Take the primary's answer to a question that was sent at `asked_ns`."""
        self.primary_position = max(self.primary_position, position)
        self.heard_ns = now_ns
        if len(self._marks) == MARKS_MAX:
            self._marks.pop()  # the newest before this one: it is reached a moment before this one is
        self._marks.append((position, asked_ns))
        self.reach(self.position)

    def reach(self, position: int) -> None:
        """Note how much is here."""
        self.position = position
        while self._marks and self._marks[0][0] <= position:
            self._level_ns = self._marks.popleft()[1]

    @property
    def behind_bytes(self) -> int:
        """What the primary is known to have committed and is not here."""
        return max(0, self.primary_position - self.position)

    def behind_ns(self, now_ns: int) -> int | None:
        """Return within how long what the primary committed may not be here; None before it was ever level."""
        return None if self._level_ns is None else now_ns - self._level_ns

    def silent_ns(self, now_ns: int) -> int | None:
        """Return how long ago the primary answered; None: never."""
        return None if self.heard_ns is None else now_ns - self.heard_ns

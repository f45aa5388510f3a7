"""Appends of one session take turns, so that what a quota of the cluster holds back stays in the door.

The cluster leaves in a session's stream what is over a quota, and so all that was sent after it, queries of other
clients too. So not much of what producers send is in the stream at a time, and almost nothing while the session is
held back. Where appends have to wait, each connection has a line of its own, and the lines take turns: one that sends
much does not hold up others with the same token.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

ORDERS_MAX = 512
BYTES_MAX = 1 << 20
"""So many appends, and bytes of them, are on their way at a time, in one session; one append however long it is."""
HELD_ORDERS_MAX = 2
"""So many while a quota holds the session back: one waits, and the next one is there when it has been taken."""


class Turn:
    """An append that has asked for its turn."""

    def __init__(self, length: int, begin: Callable[[], object]) -> None:
        self.length = length
        self._begin: Callable[[], object] | None = begin

    @property
    def is_waiting(self) -> bool:
        """Return whether its turn has neither come nor been given up."""
        return self._begin is not None

    def end_waiting(self) -> Callable[[], object] | None:
        """Return what its turn was for, if it waited. That holds the append, which nothing here keeps any more."""
        begin, self._begin = self._begin, None
        return begin


class Turns:
    """Lets the appends of each line go in the order in which they came."""

    def __init__(self) -> None:
        self.is_held = False
        """Whether a quota of the cluster holds the session back."""
        self._orders = self._bytes = 0
        self._lines: OrderedDict[object, deque[Turn]] = OrderedDict()
        """Lines in which somebody waits, the one whose turn is next first."""
        self._is_admitting = False

    def hold(self, is_held: bool) -> None:
        """Note whether a quota holds the session back from now on."""
        self.is_held = is_held
        self._admit()

    def ask(self, length: int, line: object, begin: Callable[[], object]) -> Turn:
        """Have `begin` called when the turn of an append of this length in bytes has come: at once, if it has.

        `give_back` ends the turn.
        """
        turn = Turn(length, begin)
        self._lines.setdefault(line, deque()).append(turn)
        self._admit()
        return turn

    def give_up(self, turns: Iterable[Turn]) -> None:
        """Have those whose turns have not come wait no more: all of them, before what waits behind them goes on."""
        for one in turns:
            one.end_waiting()
        self._admit()

    def give_back(self, length: int) -> None:
        """End a turn."""
        self._orders -= 1
        self._bytes -= length
        self._admit()

    def _has_room(self, length: int) -> bool:
        orders_max = HELD_ORDERS_MAX if self.is_held else ORDERS_MAX
        return not self._orders or (self._orders < orders_max and self._bytes + length <= BYTES_MAX)

    def _admit(self) -> None:
        """Begin with all that there is room for. What this calls may ask for turns, and give them back."""
        if self._is_admitting:
            return
        self._is_admitting = True
        try:
            while self._lines and self._admit_next():
                pass
        finally:
            self._is_admitting = False

    def _admit_next(self) -> bool:
        """Let the first append of the first line go, or forget it if it was given up; False: it has to wait."""
        line, waiting = next(iter(self._lines.items()))
        turn = waiting[0]
        if turn.is_waiting and not self._has_room(turn.length):
            return False
        waiting.popleft()
        if not waiting:
            del self._lines[line]
        elif turn.is_waiting:
            self._lines.move_to_end(line)
        if begin := turn.end_waiting():
            self._orders += 1
            self._bytes += turn.length
            begin()
        return True

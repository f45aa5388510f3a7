"""Appends of one session take turns, so that what a quota of the cluster holds back stays in the door.

The cluster leaves in a session's stream what is over a quota, and so all that was sent after it, queries of other
clients too. So not much of what producers send is in the stream at a time, and almost nothing while the session is
held back. Where appends have to wait, each connection has a line of its own, and the lines take turns: one that sends
much does not hold up others with the same token.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

ORDERS_MAX = 512
BYTES_MAX = 1 << 20
"""So many appends, and bytes of them, are on their way at a time, in one session; one append however long it is."""
HELD_ORDERS_MAX = 2
"""So many while a quota holds the session back: one waits, and the next one is there when it has been taken."""


Line = deque[tuple[int, asyncio.Future[None]]]
"""Lengths of appends, and what tells each of them that its turn has come."""


class Turns:
    """Lets the appends of each line go in the order in which they came. Belongs to one event loop."""

    def __init__(self) -> None:
        self.is_held = False
        """Whether a quota of the cluster holds the session back."""
        self._orders = self._bytes = 0
        self._lines: OrderedDict[object, Line] = OrderedDict()
        """Lines in which somebody waits, the one whose turn is next first."""
        self._called = 0
        """So many have been told that their turn has come, and have not run since: nobody goes before them."""

    def hold(self, is_held: bool) -> None:
        """Note whether a quota holds the session back from now on."""
        self.is_held = is_held
        self._admit()

    async def take(self, length: int, line: object = None) -> None:
        """Wait for the turn of an append of this length in bytes, in a line. `give_back` ends the turn."""
        if not self._lines and not self._called and self._has_room(length):
            self._begin(length)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(line, deque()).append((length, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn had just come
                self._called -= 1
                self.give_back(length)
            self._admit()
            raise
        self._called -= 1
        self._admit()

    def give_back(self, length: int) -> None:
        """End a turn."""
        self._orders -= 1
        self._bytes -= length
        self._admit()

    def _has_room(self, length: int) -> bool:
        orders_max = HELD_ORDERS_MAX if self.is_held else ORDERS_MAX
        return not self._orders or (self._orders < orders_max and self._bytes + length <= BYTES_MAX)

    def _begin(self, length: int) -> None:
        self._orders += 1
        self._bytes += length

    def _admit(self) -> None:
        while self._lines:
            line, waiting = next(iter(self._lines.items()))
            length, turn = waiting[0]
            if not turn.done() and not self._has_room(length):
                return
            waiting.popleft()
            if not waiting:
                del self._lines[line]
            if not turn.done():
                self._begin(length)
                self._called += 1
                turn.set_result(None)
                if waiting:
                    self._lines.move_to_end(line)

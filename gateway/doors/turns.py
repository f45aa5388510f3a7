"""Appends of one session take turns, so that what a quota of the cluster holds back stays in the door.

The cluster leaves in a session's stream what is over a quota, and so all that was sent after it, queries of other
clients too. So not much of what producers send is in the stream at a time, and almost nothing while the session is
held back.
"""

from __future__ import annotations

import asyncio
from collections import deque

ORDERS_MAX = 512
BYTES_MAX = 1 << 20
"""So many appends, and bytes of them, are on their way at a time, in one session; one append however long it is."""
HELD_ORDERS_MAX = 2
"""So many while a quota holds the session back: one waits, and the next one is there when it has been taken."""


class Turns:
    """Lets appends go in the order in which they came. Belongs to one event loop."""

    def __init__(self) -> None:
        self.is_held = False
        """Whether a quota of the cluster holds the session back."""
        self._orders = self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._called = 0
        """So many have been told that their turn has come, and have not run since: nobody goes before them."""

    def hold(self, is_held: bool) -> None:
        """Note whether a quota holds the session back from now on."""
        self.is_held = is_held
        self._admit()

    async def take(self, length: int) -> None:
        """Wait for the turn of an append of this length in bytes. `give_back` ends it."""
        if not self._waiting and not self._called and self._has_room(length):
            self._begin(length)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((length, turn))
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
        while self._waiting and (self._waiting[0][1].done() or self._has_room(self._waiting[0][0])):
            length, turn = self._waiting.popleft()
            if not turn.done():
                self._begin(length)
                self._called += 1
                turn.set_result(None)

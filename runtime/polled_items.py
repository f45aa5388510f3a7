"""What was polled from a stream and not handed out yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class PolledItems(Generic[Item]):
    """Items between a poll, which finds many, and a loop that takes one by one.

    They belong to the reader and not to the loop: whoever leaves the loop and begins another one, or polls, gets what
    follows the last item that was taken.
    """

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self.last: Item | None = None
        """The item that was handed out last, None before the first one."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> Item | None:
        """The item that is handed out next, which stays; None when there is none."""
        return self._items[0] if self._items else None

    def append(self, item: Item) -> None:
        """For the poll."""
        self._items.append(item)

    def take(self) -> Item:
        """Hands out one item. Raises IndexError when there is none."""
        self.last = self._items.popleft()
        return self.last

    def hand_out(self, handler: Callable[[Item], object], limit: int) -> int:
        """Calls `handler(item)` for at most `limit` items; returns how many. Raises what the handler raises."""
        count = 0
        while self._items and count < limit:
            count += 1
            handler(self.take())
        return count

"""What was polled from a stream and not handed out yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

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

    def take_from(self, poll: Callable[[Callable[[Item], object]], object]) -> Item | None:
        """Hands out one item, after a poll where none waits; None when nothing has come. Raises what `poll` raises."""
        if not self._items:
            poll(self.append)
        return self.take() if self._items else None

    def hand_out(self, handler: Callable[[Item], object], limit: int) -> int:
        """Calls `handler(item)` for at most `limit` items; returns how many. Raises what the handler raises."""
        count = 0
        while self._items and count < limit:
            count += 1
            handler(self.take())
        return count


class Positioned(Protocol):
    """An item that knows where the next one begins."""

    @property
    def position(self) -> int: ...


PositionedItem = TypeVar("PositionedItem", bound=Positioned)


class PolledMessages(PolledItems[PositionedItem]):
    """Items of a stream with positions, in bytes."""

    def __init__(self, begin_position: int | None) -> None:
        """`begin_position`: where the reader begins; None while that is not known."""
        super().__init__()
        self._begin_position = begin_position

    def position(self, polled_to: int | None) -> int | None:
        """Behind what was handed out, of a stream that is polled up to `polled_to`."""
        if not self:
            return polled_to
        return self._begin_position if self.last is None else self.last.position

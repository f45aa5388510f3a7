"""Items that were polled from a stream and not handed out yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")


class PolledItems(Generic[Item]):
    """A buffer between a poll, which finds many items, and a loop that takes them one by one.

    They belong to the reader and not to the loop: after the loop, another one, or a poll, gets what
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
        """The item that is handed out next, without taking it; None when there is none."""
        return self._items[0] if self._items else None

    def append(self, item: Item) -> None:
        """Append an item that a poll found."""
        self._items.append(item)

    def take(self) -> Item:
        """Hand out one item. Raises IndexError when there is none."""
        self.last = self._items.popleft()
        return self.last

    def take_from(self, poll: Callable[[Callable[[Item], object]], object]) -> Item | None:
        """Hand out one item, polling first if none waits; None when nothing has come. Raises what `poll` raises."""
        if not self._items:
            poll(self.append)
        return self.take() if self._items else None

    def hand_out(self, handler: Callable[[Item], object], limit: int) -> int:
        """Call `handler(item)` for at most `limit` items; return how many. Raises what the handler raises."""
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
    """Polled items of a stream with positions, in bytes."""

    def __init__(self, begin_position: int | None) -> None:
        """Start empty; `begin_position` is where the reader begins, None while that is not known."""
        super().__init__()
        self._begin_position = begin_position

    def position(self, polled_to: int | None) -> int | None:
        """Return the position after the delivered items, of a stream that is polled up to `polled_to`."""
        if not self:
            return polled_to
        return self._begin_position if self.last is None else self.last.position

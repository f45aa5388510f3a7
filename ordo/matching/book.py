"""A price-time priority order book for one instrument.

Prices are integers in 1/10000 dollar. A level holds its orders in a doubly linked list, oldest first; an order leaves
from any place in constant time. The best price of a side is the top of a heap; a level that became empty stays behind
until it surfaces there, so that no operation searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

BUY = 0
SELL = 1


class Fill(NamedTuple):
    """One execution of an aggressive order against a resting one, at the resting order's price."""

    maker_order_id: int
    maker_client_id: int
    quantity: int
    price: int


class Order:
    """A resting order, linked to its neighbours at the same price."""

    __slots__ = ("client_id", "level", "newer", "older", "order_id", "quantity")

    def __init__(self, order_id: int, client_id: int, quantity: int, level: Level) -> None:
        self.order_id = order_id
        self.client_id = client_id
        self.quantity = quantity
        self.level = level
        self.older: Order | None = None
        self.newer: Order | None = None


class Level:
    """All resting orders of one side at one price; `quantity` and `count` are their sums."""

    __slots__ = ("count", "newest", "oldest", "price", "quantity", "side")

    def __init__(self, side: int, price: int) -> None:
        self.side = side
        self.price = price
        self.quantity = 0
        self.count = 0
        self.oldest: Order | None = None
        self.newest: Order | None = None

    def orders(self) -> Iterator[Order]:
        """Yield the orders at this price, oldest first."""
        order = self.oldest
        while order is not None:
            yield order
            order = order.newer

    def append(self, order: Order) -> None:
        newest = self.newest
        if newest is None:
            self.oldest = order
        else:
            newest.newer = order
            order.older = newest
        self.newest = order
        self.quantity += order.quantity
        self.count += 1

    def unlink(self, order: Order) -> None:
        older, newer = order.older, order.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        self.quantity -= order.quantity
        self.count -= 1


class OrderBook:
    """Both sides of one instrument.

    Invariant: the best bid is below the best offer after every operation, and `orders` holds exactly the orders linked
    into the levels, each with a quantity above zero.
    """

    __slots__ = ("_heaps", "_levels", "orders")

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}
        self._levels: tuple[dict[int, Level], dict[int, Level]] = ({}, {})
        self._heaps: tuple[list[int], list[int]] = ([], [])  # bids negated, so that the top is the best

    def match(self, side: int, quantity: int, limit: int | None) -> list[Fill]:
        """Take up to `quantity` from the other side, best price first, oldest first, no worse than `limit`."""
        other = 1 - side
        heap, levels = self._heaps[other], self._levels[other]
        fills: list[Fill] = []
        while quantity and heap:
            price = heap[0] if other else -heap[0]
            level = levels[price]
            if not level.count:
                heappop(heap)
                del levels[price]
                continue
            if limit is not None and (price > limit if other else price < limit):
                break
            quantity = self._take(level, quantity, fills)
        return fills

    def _take(self, level: Level, quantity: int, fills: list[Fill]) -> int:
        """Execute against one level and return what is left of `quantity`."""
        price = level.price
        maker = level.oldest
        while maker is not None and quantity:
            taken = maker.quantity if maker.quantity < quantity else quantity
            fills.append(Fill(maker.order_id, maker.client_id, taken, price))
            quantity -= taken
            newer = maker.newer
            self.reduce(maker, taken)
            maker = newer
        return quantity

    def rest(self, order_id: int, client_id: int, side: int, quantity: int, price: int) -> None:
        """Put an order that crosses nothing, with an id that is not in the book, behind all others of its price."""
        levels = self._levels[side]
        level = levels.get(price)
        if level is None:
            level = levels[price] = Level(side, price)
            heappush(self._heaps[side], price if side else -price)
        order = Order(order_id, client_id, quantity, level)
        level.append(order)
        self.orders[order_id] = order

    def reduce(self, order: Order, quantity: int) -> None:
        """Take `quantity` off a resting order, which keeps its place, or leave the book when nothing is left."""
        if quantity >= order.quantity:
            order.level.unlink(order)
            del self.orders[order.order_id]
        else:
            order.quantity -= quantity
            order.level.quantity -= quantity

    def best(self, side: int) -> int | None:
        """Best price of a side, or None when it is empty."""
        heap, levels = self._heaps[side], self._levels[side]
        while heap:
            price = heap[0] if side else -heap[0]
            if levels[price].count:
                return price
            heappop(heap)
            del levels[price]
        return None

    def levels(self, side: int) -> list[Level]:
        """Return the levels of a side that hold orders, best price first."""
        levels = self._levels[side]
        return [levels[price] for price in sorted(levels, reverse=side == BUY) if levels[price].count]


def format_price(price: int) -> str:
    """Dollars with two decimals, or four below a cent."""
    return f"{price // 10_000}.{price % 10_000 // 100:02d}" if price % 100 == 0 else f"{price / 10_000:.4f}"


def render_book(book: OrderBook) -> str:
    """Return the book as text, one level a line.

    `B price: shares (orders)` best bid first, then S, best offer first.
    """
    return "".join(
        f"{letter} {format_price(level.price)}: {level.quantity} ({level.count})\n"
        for letter, side in (("B", BUY), ("S", SELL))
        for level in book.levels(side)
    )

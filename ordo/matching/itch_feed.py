"""Turns an ITCH feed back into the order entry that caused it.

The feed says what the exchange did: orders that came to rest, and executions of resting orders. Consecutive executions
of one nanosecond against one side were one aggressive order; it is entered again as an immediate-or-cancel order for
their sum, limited to the last price, and the engine must find the same executions by price-time priority itself.

| feed | order entry |
|---|---|
| A, F | NEW |
| E ... E of one timestamp and side | one NEW, immediate or cancel, with an order id of its own |
| C, X | REDUCE (C happened at another price than the book's) |
| D | CANCEL |
| U | REPLACE |
| all others | none: they do not change the displayed book |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ordo.matching.itch import (
    AddOrder,
    OrderCancel,
    OrderDelete,
    OrderExecuted,
    OrderExecutedAtPrice,
    OrderReplace,
)
from ordo.matching.protocol import FLAG_IMMEDIATE, FLAG_SELL, Kind, encode_request

AGGRESSIVE_ID_BASE = 1 << 63
"""Ids of the aggressive orders, which have none in the feed."""


class ExpectedFill(NamedTuple):
    """One execution of the feed."""

    order_id: int
    quantity: int
    price: int


class Entry(NamedTuple):
    """One request for the engine, and the executions the exchange found for it."""

    request: bytes
    expected: tuple[ExpectedFill, ...]


class _Resting:
    __slots__ = ("price", "quantity", "side")

    def __init__(self, side: int, quantity: int, price: int) -> None:
        self.side = side
        self.quantity = quantity
        self.price = price


class ItchFeed:
    """Order entry from the messages of one feed, for one client, with sequence numbers from `first_sequence`.

    Keeps side, size and price of resting orders, which executions refer to by order id only. Executions, cancels and
    replacements of orders that the feed never added are passed over and counted in `dangling_count`.
    """

    def __init__(self, client_id: int, first_sequence: int = 1) -> None:
        self.client_id = client_id
        self.sequence = first_sequence - 1
        self.aggressive_count = 0
        self.dangling_count = 0
        self._resting: dict[tuple[int, int], _Resting] = {}
        self._group: list[ExpectedFill] = []
        self._group_key: tuple[int, int, int] | None = None  # timestamp, instrument, side of the resting orders

    def entries(self, messages: Iterable[Any]) -> Iterator[Entry]:
        """Yield the requests, in order, each with what the exchange's own executions were."""
        for message in messages:
            if isinstance(message, OrderExecuted):
                yield from self._executed(message)
                continue
            yield from self._flush()
            entry = self._passive(message)
            if entry is not None:
                yield Entry(entry, ())
        yield from self._flush()

    def _executed(self, message: OrderExecuted) -> Iterator[Entry]:
        order = self._resting.get((message.locate, message.reference))
        if order is None:
            self.dangling_count += 1
            return
        key = (message.timestamp_ns, message.locate, order.side)
        if key != self._group_key:
            yield from self._flush()
            self._group_key = key
        self._group.append(ExpectedFill(message.reference, message.shares, order.price))
        self._take(message.locate, message.reference, message.shares)

    def _flush(self) -> Iterator[Entry]:
        """Yield the aggressive order behind the executions gathered, if there are any."""
        if not self._group or self._group_key is None:
            return
        _, instrument, side = self._group_key
        fills, self._group, self._group_key = tuple(self._group), [], None
        flags = FLAG_IMMEDIATE | (0 if side else FLAG_SELL)
        order_id = AGGRESSIVE_ID_BASE + self.aggressive_count
        self.aggressive_count += 1
        quantity = sum(fill.quantity for fill in fills)
        yield Entry(self._request(Kind.NEW, instrument, order_id, quantity, fills[-1].price, flags), fills)

    def _passive(self, message: object) -> bytes | None:
        """Return the request behind any message but an execution; None when the displayed book does not change."""
        if isinstance(message, AddOrder):
            side = FLAG_SELL if message.side == b"S" else 0
            self._resting[message.locate, message.reference] = _Resting(side, message.shares, message.price)
            return self._request(Kind.NEW, message.locate, message.reference, message.shares, message.price, side)
        if not isinstance(message, OrderCancel | OrderExecutedAtPrice | OrderDelete | OrderReplace):
            return None
        instrument, order_id = message.locate, message.reference
        order = self._resting.get((instrument, order_id))
        if order is None:
            self.dangling_count += 1
            return None
        if isinstance(message, OrderDelete):
            del self._resting[instrument, order_id]
            return self._request(Kind.CANCEL, instrument, order_id)
        if isinstance(message, OrderReplace):
            del self._resting[instrument, order_id]
            new = message.new_reference
            self._resting[instrument, new] = _Resting(order.side, message.shares, message.price)
            return self._request(Kind.REPLACE, instrument, order_id, message.shares, message.price, 0, new)
        self._take(instrument, order_id, message.shares)
        return self._request(Kind.REDUCE, instrument, order_id, message.shares)

    def _take(self, instrument: int, order_id: int, quantity: int) -> None:
        order = self._resting[instrument, order_id]
        order.quantity -= quantity
        if order.quantity <= 0:
            del self._resting[instrument, order_id]

    def _request(
        self, kind: Kind, instrument: int, order_id: int, quantity: int = 0, price: int = 0, flags: int = 0,
        new_order_id: int | None = None,
    ) -> bytes:  # fmt: skip
        self.sequence += 1
        return encode_request(
            kind,
            client_id=self.client_id,
            sequence=self.sequence,
            order_id=order_id,
            quantity=quantity,
            price=price,
            flags=flags,
            instrument=instrument,
            new_order_id=new_order_id,
        )

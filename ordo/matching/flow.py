"""A seeded order flow: what a busy instrument's members might send, the same for the same seed on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ordo.matching.protocol import (
    FLAG_ANY_PRICE,
    FLAG_IMMEDIATE,
    FLAG_SELL,
    REPLACE_ID,
    REQUEST,
    Kind,
)

TICK = 100  # one cent in 1/10000 dollar
START_PRICE = 100_0000
REMEMBERED_MAX = 10_000  # orders that may still be changed; the older half is forgotten beyond it
STEP_SHARE = 0.005  # of the requests, before which the price moves by one tick
AGE_MEAN = 300  # of an order when it is cancelled, in orders entered after it
DEPTH_TICKS_MEAN = 12.0

# share of each kind, cumulative
_PASSIVE = 0.46
_CANCEL = _PASSIVE + 0.36
_REDUCE = _CANCEL + 0.03
_REPLACE = _REDUCE + 0.05
_AGGRESSIVE = _REPLACE + 0.07  # the rest are market orders


class OrderFlow:
    """A flow of `count` requests of one client.

    Of them 46 % are passive orders near a wandering price, 36 % cancels of an order sent before, 3 % reductions, 5 %
    replacements, 7 % limit orders through the price and 3 % market orders.

    Some cancels come too late, as in life: their order was executed meanwhile, and the engine says so.
    """

    def __init__(self, *, seed: int, count: int, client_id: int = 1, instrument: int = 1) -> None:
        self.seed = seed
        self.count = count
        self.client_id = client_id
        self.instrument = instrument

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        """Yield the requests, numbered from 1; every call begins anew."""
        draw = random.Random(self.seed)
        sent: list[int] = []
        price = START_PRICE
        for sequence in range(1, self.count + 1):
            choice = draw.random()
            if choice * 1000 % 1 < STEP_SHARE:
                price = max(price + draw.choice((-TICK, TICK)), 100 * TICK)
            if len(sent) >= REMEMBERED_MAX:
                del sent[: REMEMBERED_MAX // 2]
            if sent and _PASSIVE <= choice < _REPLACE:
                yield self._change(draw, sequence, choice, sent, price)
            else:
                yield self._enter(draw, sequence, choice, sent, price)

    def _enter(self, draw: random.Random, sequence: int, choice: float, sent: list[int], price: int) -> bytes:
        """Return a new order: passive, through the price, or at any price."""
        side = FLAG_SELL if draw.random() < 0.5 else 0
        quantity = 100 * int(1 + draw.expovariate(0.5))
        if choice < _REPLACE:
            sent.append(sequence)
            return self._pack(Kind.NEW, side, sequence, sequence, quantity, self._passive_price(draw, side, price))
        if choice < _AGGRESSIVE:
            reach = 5 * TICK
            limit = max(price - reach, TICK) if side else price + reach
            return self._pack(Kind.NEW, side | FLAG_IMMEDIATE, sequence, sequence, quantity, limit)
        return self._pack(Kind.NEW, side | FLAG_ANY_PRICE, sequence, sequence, quantity, 0)

    def _change(self, draw: random.Random, sequence: int, choice: float, sent: list[int], price: int) -> bytes:
        """Return a cancel, reduction or replacement of an order that was sent before."""
        index = max(len(sent) - 1 - int(draw.expovariate(1 / AGE_MEAN)), 0)
        order_id = sent[index]
        if _CANCEL <= choice < _REDUCE:
            return self._pack(Kind.REDUCE, 0, sequence, order_id, 100, 0)
        if _REDUCE <= choice < _REPLACE:
            sent[index] = sequence
            side = FLAG_SELL if draw.random() < 0.5 else 0
            new_price = self._passive_price(draw, side, price)
            return self._pack(Kind.REPLACE, 0, sequence, order_id, 200, new_price) + REPLACE_ID.pack(sequence)
        del sent[index]
        return self._pack(Kind.CANCEL, 0, sequence, order_id, 0, 0)

    def _passive_price(self, draw: random.Random, side: int, price: int) -> int:
        distance = TICK * int(1 + draw.expovariate(1 / DEPTH_TICKS_MEAN))
        return price + distance if side else max(price - distance, TICK)

    def _pack(self, kind: Kind, flags: int, sequence: int, order_id: int, quantity: int, price: int) -> bytes:
        return REQUEST.pack(kind, flags, self.instrument, self.client_id, sequence, order_id, quantity, price)

"""Orders that were sent into the cluster lately, so that none that is given again is sent, and paid for, again.

A client whose request was not answered in time sends it again, all of it. Of one that went in parts, the quota of the
session may have let some through: these are known here by their names, and the next try goes on with the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

A = TypeVar("A")
KNOWN_MAX = 2_048
"""So many are known, in one session: four times as many as can be under way. The oldest is forgotten."""


class KnownOrders(Generic[A]):
    """Orders by names, which those that do the same have alike. Belongs to one event loop."""

    def __init__(self, is_done: Callable[[A], bool]) -> None:
        """`is_done`: whether an order with this answer need not be sent again."""
        self._is_done = is_done
        self._orders: OrderedDict[bytes, asyncio.Future[A]] = OrderedDict()

    def find(self, name: bytes | None) -> asyncio.Future[A] | None:
        """Return the order that is under way, or is done; one that ended otherwise is sent again."""
        return None if name is None else self._orders.get(name)

    def note(self, name: bytes | None, order: asyncio.Task[A]) -> None:
        """Remember an order that is on its way; one without a name cannot be told from another."""
        if name is None:
            return
        self._orders[name] = order
        self._orders.move_to_end(name)
        if len(self._orders) > KNOWN_MAX:
            self._orders.popitem(last=False)
        order.add_done_callback(lambda _: self._note_end(name, order))

    def forget(self) -> None:
        """Forget all of them: their session is over, and the cluster of the next one may lack them."""
        self._orders.clear()

    def _note_end(self, name: bytes, order: asyncio.Task[A]) -> None:
        """Keep the answer of an order that is done, and nothing else of it."""
        if self._orders.get(name) is not order:
            return
        if order.cancelled() or order.exception() is not None or not self._is_done(order.result()):
            del self._orders[name]
            return
        self._orders[name] = kept = order.get_loop().create_future()
        kept.set_result(order.result())

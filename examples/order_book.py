"""An order book with feeds: limit orders meet by price, then by time; trades and best prices go to everybody.

ordo node --config node.toml --service examples.order_book:OrderBook
"""

import json
from bisect import insort
from dataclasses import astuple, dataclass

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter

DIGITS_MAX = 16


@dataclass
class Order:
    """What is left of a limit order. Prices are whole numbers, in the smallest unit of the currency."""

    id: int
    side: str
    symbol: str
    quantity: int
    price: int

    @property
    def rank(self) -> tuple[int, int]:
        """Its place on its side of the book: the best price first, and of the same price the oldest."""
        return (-self.price if self.side == "buy" else self.price), self.id

    def accepts(self, price: int) -> bool:
        return price <= self.price if self.side == "buy" else price >= self.price


class OrderBook(ClusteredService):
    """A message is "buy SYMBOL QUANTITY PRICE", "sell SYMBOL QUANTITY PRICE" or "cancel ID".

    The answer to an order is "ID LEFT": its id, and how much of it stays in the book. Topic `trades` gets "SYMBOL
    QUANTITY PRICE RESTING-ID ID" of each trade, topic `quotes` "SYMBOL BID ASK" whenever a best price is another one;
    "-" where that side is empty. Both are numbered, so a reader can see that it has all of them.
    """

    def __init__(self) -> None:
        self.next_id = 1
        self.orders: dict[int, Order] = {}
        self.books: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """By symbol and side: the ranks of its orders, the best first."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.next_id, orders = json.loads(snapshot.read())
            for fields in orders:
                self._rest(Order(*fields))

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        match payload.decode(errors="replace").split():
            case ["buy" | "sell" as side, symbol, quantity, price] if _is_count(quantity) and _is_count(price):
                return self._enter(Order(self.next_id, side, symbol, int(quantity), int(price)))
            case ["cancel", number] if _is_count(number) and int(number) in self.orders:
                return self._cancel(self.orders[int(number)])
            case ["cancel", number]:
                raise Reject(f"order {number} is not in the book")
        raise Reject("must be buy|sell SYMBOL QUANTITY PRICE, with whole numbers above 0, or cancel ID")

    def _enter(self, order: Order) -> bytes:
        self.next_id += 1
        before = self._quote(order.symbol)
        others = self.books.get((order.symbol, "sell" if order.side == "buy" else "buy"), [])
        while order.quantity and others and order.accepts(self.orders[others[0][1]].price):
            self._trade(order, self.orders[others[0][1]])
        if order.quantity:
            self._rest(order)
        self._tell_quote(order.symbol, before)
        return f"{order.id} {order.quantity}".encode()

    def _trade(self, order: Order, resting: Order) -> None:
        """The price is that of the order that was there first."""
        quantity = min(order.quantity, resting.quantity)
        order.quantity -= quantity
        resting.quantity -= quantity
        trade = f"{order.symbol} {quantity} {resting.price} {resting.id} {order.id}"
        self.cluster.publish("trades", trade.encode())
        if not resting.quantity:
            self._remove(resting)

    def _cancel(self, order: Order) -> bytes:
        before = self._quote(order.symbol)
        self._remove(order)
        self._tell_quote(order.symbol, before)
        return f"{order.id} 0".encode()

    def _rest(self, order: Order) -> None:
        self.orders[order.id] = order
        insort(self.books.setdefault((order.symbol, order.side), []), order.rank)

    def _remove(self, order: Order) -> None:
        del self.orders[order.id]
        ranks = self.books[order.symbol, order.side]
        ranks.remove(order.rank)
        if not ranks:
            del self.books[order.symbol, order.side]

    def _quote(self, symbol: str) -> str:
        best = [self.books.get((symbol, side)) for side in ("buy", "sell")]
        return " ".join([symbol, *(str(self.orders[ranks[0][1]].price) if ranks else "-" for ranks in best)])

    def _tell_quote(self, symbol: str, before: str) -> None:
        quote = self._quote(symbol)
        if quote != before:
            self.cluster.publish("quotes", quote.encode())

    def on_query(self, payload: bytes) -> bytes:
        """The best prices of a symbol, as in `quotes`."""
        return self._quote(payload.decode(errors="replace")).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        orders = [astuple(order) for _, order in sorted(self.orders.items())]
        writer.write(json.dumps([self.next_id, orders]).encode())


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < DIGITS_MAX and int(text) > 0

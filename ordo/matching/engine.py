"""The matching engine as a state machine: requests in, answers out, no cluster, clock or randomness in sight."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from ordo.matching.book import BUY, SELL, Fill, OrderBook
from ordo.matching.protocol import (
    ANSWER,
    EXECUTION,
    FILL,
    FLAG_ANY_PRICE,
    FLAG_IMMEDIATE,
    FLAG_SELL,
    REPLACE_ID,
    REQUEST,
    Kind,
    Status,
)

ANSWERS_KEPT = 1024
"""Last answers kept for each client, so that a request sent again is answered as it was the first time."""

_ANSWER_KIND = int(Kind.ANSWER)
_NEW = int(Kind.NEW)
_ACCEPTED = int(Status.ACCEPTED)
_EXECUTION_KIND = int(Kind.EXECUTION)

_HEAD = Struct("<8sQQII")  # format, next match number, requests applied, clients, books
_CLIENT = Struct("<IIQ")  # id, answers kept, last sequence
_LENGTH = Struct("<I")
_BOOK = Struct("<HxxI")  # instrument, orders
_ORDER = Struct("<QIIIBxxx")  # id, client, quantity, price, side
_FORMAT = b"match/1\0"


class Client:
    """What the engine remembers of one client: the last sequence number applied, and the last answers."""

    __slots__ = ("answers", "client_id", "sequence")

    def __init__(self, client_id: int, sequence: int = 0) -> None:
        self.client_id = client_id
        self.sequence = sequence
        self.answers: deque[bytes] = deque(maxlen=ANSWERS_KEPT)


class MatchingCore:
    """Books by instrument and clients by id. The same requests in the same order give the same answers and state.

    `applied` counts requests applied (duplicates and gaps are not), `match_number` numbers the executions.
    `executions` holds, after each `apply`, the notices for owners of resting orders other than the requesting client.
    """

    def __init__(self) -> None:
        self.books: dict[int, OrderBook] = {}
        self.clients: dict[int, Client] = {}
        self.match_number = 0
        self.applied = 0
        self.executions: list[tuple[int, bytes]] = []
        self._handlers: dict[int, Callable[..., bytes]] = {
            Kind.NEW: self._new,
            Kind.CANCEL: self._cancel,
            Kind.REDUCE: self._reduce,
            Kind.REPLACE: self._replace,
            Kind.REPORT: self._report,
        }

    def apply(self, request: bytes) -> bytes:
        """Apply one request (protocol.py) and return its answer; b"" for bytes too short to be a request."""
        if self.executions:
            self.executions = []
        if len(request) < 32:
            return b""
        kind, flags, instrument, client_id, sequence, order_id, quantity, price = REQUEST.unpack_from(request)
        client = self.clients.get(client_id)
        if client is None:
            client = self.clients[client_id] = Client(client_id)
        if sequence != client.sequence + 1:
            return self._out_of_sequence(client, sequence, instrument)
        client.sequence = sequence
        self.applied += 1
        book = self.books.get(instrument)
        if book is None:
            book = OrderBook()
            if kind == _NEW:
                self.books[instrument] = book
        handler = self._handlers.get(kind, self._unknown_kind)
        answer = handler(book, flags, instrument, client_id, sequence, order_id, quantity, price, request)
        client.answers.append(answer)
        return answer

    def _out_of_sequence(self, client: Client, sequence: int, instrument: int) -> bytes:
        """Return the first answer again for a duplicate; a refusal for a number beyond the next one."""
        if sequence > client.sequence:
            return _refuse(Status.GAP, instrument, client.client_id, sequence, client.sequence + 1)
        index = sequence - (client.sequence - len(client.answers)) - 1
        if index < 0:
            return _refuse(Status.TOO_OLD, instrument, client.client_id, sequence, 0)
        return client.answers[index]

    def _new(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        if not quantity or (not price and not flags & FLAG_ANY_PRICE):
            return _refuse(Status.BAD_REQUEST, instrument, client_id, sequence, order_id)
        if order_id in book.orders:
            return _refuse(Status.DUPLICATE_ORDER_ID, instrument, client_id, sequence, order_id)
        return self._enter(book, flags, instrument, client_id, sequence, order_id, quantity, price)

    def _enter(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int,
    ) -> bytes:  # fmt: skip
        """Match an order that is known to be valid and rest what is left of it, if it may rest."""
        side = flags & FLAG_SELL
        fills = book.match(side, quantity, None if flags & FLAG_ANY_PRICE else price)
        if not fills:
            if flags & (FLAG_IMMEDIATE | FLAG_ANY_PRICE):
                quantity = 0
            else:
                book.rest(order_id, client_id, side, quantity, price)
            return ANSWER.pack(
                _ANSWER_KIND, _ACCEPTED, instrument, client_id, sequence, order_id, 0, quantity, 0, 0
            )  # fmt: skip
        filled = sum([fill[2] for fill in fills])
        remaining = quantity - filled
        if flags & (FLAG_IMMEDIATE | FLAG_ANY_PRICE):
            remaining = 0
        elif remaining:
            book.rest(order_id, client_id, side, remaining, price)
        head = ANSWER.pack(
            _ANSWER_KIND, _ACCEPTED, instrument, client_id, sequence, order_id, filled, remaining, len(fills), 0
        )
        return head + self._record(fills, client_id, instrument)

    def _record(self, fills: list[Fill], taker_id: int, instrument: int) -> bytes:
        """Numbers the fills, notes what their makers are to be told, and encodes them for the answer."""
        parts = []
        number = self.match_number
        for maker_order_id, maker_client_id, quantity, price in fills:
            number += 1
            parts.append(FILL.pack(maker_order_id, number, quantity, price))
            if maker_client_id != taker_id:
                notice = EXECUTION.pack(
                    _EXECUTION_KIND, instrument, maker_client_id, maker_order_id, number, quantity, price
                )
                self.executions.append((maker_client_id, notice))
        self.match_number = number
        return b"".join(parts)

    def _cancel(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        order = book.orders.get(order_id)
        if order is None or order.client_id != client_id:
            return _refuse(Status.UNKNOWN_ORDER, instrument, client_id, sequence, order_id)
        remaining = order.quantity
        book.reduce(order, remaining)
        return ANSWER.pack(_ANSWER_KIND, _ACCEPTED, instrument, client_id, sequence, order_id, 0, remaining, 0, 0)

    def _reduce(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        order = book.orders.get(order_id)
        if order is None or order.client_id != client_id:
            return _refuse(Status.UNKNOWN_ORDER, instrument, client_id, sequence, order_id)
        remaining = max(order.quantity - quantity, 0)
        book.reduce(order, quantity)
        return ANSWER.pack(_ANSWER_KIND, _ACCEPTED, instrument, client_id, sequence, order_id, 0, remaining, 0, 0)

    def _replace(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        order = book.orders.get(order_id)
        if order is None or order.client_id != client_id:
            return _refuse(Status.UNKNOWN_ORDER, instrument, client_id, sequence, order_id)
        if len(request) < REQUEST.size + REPLACE_ID.size or not quantity or not price:
            return _refuse(Status.BAD_REQUEST, instrument, client_id, sequence, order_id)
        (new_order_id,) = REPLACE_ID.unpack_from(request, REQUEST.size)
        if new_order_id != order_id and new_order_id in book.orders:
            return _refuse(Status.DUPLICATE_ORDER_ID, instrument, client_id, sequence, new_order_id)
        side_flag = FLAG_SELL if order.level.side == SELL else 0
        book.reduce(order, order.quantity)
        return self._enter(book, side_flag, instrument, client_id, sequence, new_order_id, quantity, price)

    def _report(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        return ANSWER.pack(_ANSWER_KIND, _ACCEPTED, instrument, client_id, sequence, order_id, 0, 0, 0, 0)

    def _unknown_kind(
        self, book: OrderBook, flags: int, instrument: int, client_id: int, sequence: int,
        order_id: int, quantity: int, price: int, request: bytes,
    ) -> bytes:  # fmt: skip
        return _refuse(Status.BAD_REQUEST, instrument, client_id, sequence, order_id)

    def dump(self) -> Iterator[bytes]:
        """Yield the whole state as a row of byte strings, the same on every replica; `load` takes them back in."""
        yield _HEAD.pack(_FORMAT, self.match_number, self.applied, len(self.clients), len(self.books))
        for client_id, client in sorted(self.clients.items()):
            answers = [_LENGTH.pack(len(answer)) + answer for answer in client.answers]
            yield _CLIENT.pack(client_id, len(answers), client.sequence) + b"".join(answers)
        for instrument, book in sorted(self.books.items()):
            orders = [
                _ORDER.pack(order.order_id, order.client_id, order.quantity, level.price, side)
                for side in (BUY, SELL)
                for level in book.levels(side)
                for order in level.orders()
            ]
            yield _BOOK.pack(instrument, len(orders)) + b"".join(orders)

    @classmethod
    def load(cls, chunks: Iterable[bytes]) -> MatchingCore:
        """Return the engine whose `dump` these chunks are, cut anywhere; raises ValueError for anything else."""
        data = b"".join(chunks)
        if data[: len(_FORMAT)] != _FORMAT:
            raise ValueError(f"not a matching engine snapshot: begins with {data[:8]!r}, expected {_FORMAT!r}")
        core = cls()
        _, core.match_number, core.applied, client_count, book_count = _HEAD.unpack_from(data)
        offset = _HEAD.size
        for _ in range(client_count):
            offset = core._load_client(data, offset)
        for _ in range(book_count):
            offset = core._load_book(data, offset)
        if offset != len(data):
            raise ValueError(f"matching engine snapshot has length={len(data)}, expected {offset}")
        return core

    def _load_client(self, data: bytes, offset: int) -> int:
        client_id, count, sequence = _CLIENT.unpack_from(data, offset)
        client = self.clients[client_id] = Client(client_id, sequence)
        offset += _CLIENT.size
        for _ in range(count):
            (length_bytes,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size + length_bytes
            client.answers.append(data[offset - length_bytes : offset])
        return offset

    def _load_book(self, data: bytes, offset: int) -> int:
        instrument, count = _BOOK.unpack_from(data, offset)
        book = self.books[instrument] = OrderBook()
        offset += _BOOK.size
        for _ in range(count):
            order_id, client_id, quantity, price, side = _ORDER.unpack_from(data, offset)
            book.rest(order_id, client_id, side, quantity, price)
            offset += _ORDER.size
        return offset

    def state_hash(self) -> str:
        """128 bits over the whole state, as hex: equal on replicas that executed the same requests."""
        digest = hashlib.blake2b(digest_size=16)
        for chunk in self.dump():
            digest.update(chunk)
        return digest.hexdigest()


def _refuse(status: Status, instrument: int, client_id: int, sequence: int, order_id: int) -> bytes:
    return ANSWER.pack(_ANSWER_KIND, status, instrument, client_id, sequence, order_id, 0, 0, 0, 0)


__all__ = ["ANSWERS_KEPT", "MatchingCore"]

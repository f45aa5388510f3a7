"""The order-entry protocol of the matching engine. Little-endian; prices in 1/10000.

Request, 32 bytes (a replacement adds 8)

     0     1      2                4            8          16         24          28       32
     kind  flags  instrument u16   client u32   sequence   order id   quantity    price    new order id
     u8    u8                                   u64        u64        u32         u32      u64, REPLACE only

Answer, 40 bytes and 24 a fill

     0     1       2               4            8          16         24        28          32
     kind  status  instrument      client u32   sequence   order id   filled    remaining   fills u32, u32 zero
     fill: maker order id u64, match number u64, quantity u32, price u32

Query, 2 bytes: instrument u16. Its answer, 24 bytes: the top of the book, a quantity of 0 where a side is empty

     0          4          8              16
     bid u32    ask u32    bid quantity   ask quantity
                           u64            u64

A client numbers its requests 1, 2, 3, ... and may send any of them again. The engine applies each number once and in
order: a number it has applied gets the same answer again, one beyond the next gets status GAP and is not applied.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

REQUEST = Struct("<BBHIQQII")
REPLACE_ID = Struct("<Q")
ANSWER = Struct("<BBHIQQIIII")
FILL = Struct("<QQII")
EXECUTION = Struct("<BxHIQQII")

QUERY = Struct("<H")
TOP_OF_BOOK = Struct("<IIQQ")

FLAG_SELL = 0x01
FLAG_IMMEDIATE = 0x02  # what does not match at once is cancelled, never rests
FLAG_ANY_PRICE = 0x04  # a market order; implies FLAG_IMMEDIATE


class Kind(IntEnum):
    """First byte of every message."""

    NEW = 1
    CANCEL = 2  # the whole order
    REDUCE = 3  # `quantity` off a resting order, which keeps its priority
    REPLACE = 4  # cancels `order id` and enters `new order id` with quantity and price on the same side
    REPORT = 5  # every replica logs its state hash; changes nothing
    ANSWER = 16
    EXECUTION = 17  # to the owner of a resting order that another client's order took


class Status(IntEnum):
    """Second byte of an answer."""

    ACCEPTED = 0
    UNKNOWN_ORDER = 1
    DUPLICATE_ORDER_ID = 2
    BAD_REQUEST = 3
    GAP = 4  # `sequence` is not the next one: the answer carries the expected one in `order id`
    TOO_OLD = 5  # applied long ago, its answer is no longer kept


class AnswerFill(NamedTuple):
    """One execution, as the taker is told."""

    maker_order_id: int
    match_number: int
    quantity: int
    price: int


class Answer(NamedTuple):
    """A decoded answer. `remaining` is what rests in the book, or rested before a cancel."""

    status: Status
    instrument: int
    client_id: int
    sequence: int
    order_id: int
    filled: int
    remaining: int
    fills: tuple[AnswerFill, ...]


class Execution(NamedTuple):
    """A decoded notice to a maker."""

    instrument: int
    client_id: int
    order_id: int
    match_number: int
    quantity: int
    price: int


def encode_request(
    kind: Kind,
    *,
    client_id: int,
    sequence: int,
    order_id: int = 0,
    quantity: int = 0,
    price: int = 0,
    flags: int = 0,
    instrument: int = 0,
    new_order_id: int | None = None,
) -> bytes:
    """One request. `new_order_id` is for REPLACE."""
    head = REQUEST.pack(kind, flags, instrument, client_id, sequence, order_id, quantity, price)
    return head if new_order_id is None else head + REPLACE_ID.pack(new_order_id)


def decode_answer(data: bytes) -> Answer:
    """Return the answer in `data`; raises ValueError when it is none or is cut short."""
    if len(data) < ANSWER.size or data[0] != Kind.ANSWER:
        raise ValueError(f"not an answer: length={len(data)} first byte={data[:1].hex() or 'none'}")
    _, status, instrument, client_id, sequence, order_id, filled, remaining, count, _ = ANSWER.unpack_from(data)
    if len(data) != ANSWER.size + count * FILL.size:
        raise ValueError(
            f"answer with fills={count} has length={len(data)}, expected {ANSWER.size + count * FILL.size}"
        )
    fills = tuple(AnswerFill(*fill) for fill in FILL.iter_unpack(data[ANSWER.size :]))
    return Answer(Status(status), instrument, client_id, sequence, order_id, filled, remaining, fills)


def decode_execution(data: bytes) -> Execution:
    """Return the maker's notice in `data`; raises ValueError when it is none."""
    if len(data) != EXECUTION.size or data[0] != Kind.EXECUTION:
        raise ValueError(f"not an execution: length={len(data)} first byte={data[:1].hex() or 'none'}")
    _, *fields = EXECUTION.unpack(data)
    return Execution(*fields)

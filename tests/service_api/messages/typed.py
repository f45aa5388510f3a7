"""Messages with a field of each type, in versions that extend and contradict one another."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum, IntFlag
from typing import Annotated

from ordo.messages import (
    Array,
    Bytes,
    Chars,
    Fixed,
    Schema,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    composite,
    field,
    group,
    message,
)


class Side(IntEnum):
    BUY = 1
    SELL = 2


class Flags(IntFlag):
    HIDDEN = 1
    PEGGED = 4


@composite
class Venue:
    code: Annotated[str, Chars(4)]
    desk: UInt8


@group
class Leg:
    account: UInt32
    share: Annotated[Decimal, Fixed(3)]
    note: str = ""


@message(id=1)
class Order:
    id: UInt64
    side: Side
    flags: Flags
    price: Annotated[Decimal, Fixed(2)]
    is_open: bool
    venue: Venue
    digest: Annotated[bytes, Bytes(2)]
    sizes: Annotated[tuple[int, ...], Array(UInt16, 2)]
    limit: UInt32 | None
    legs: list[Leg]
    text: str = ""


@message(id=2)
class Position:
    """Called as a column of the log is, for engines that see no difference between large and small letters."""

    account: UInt32


@message(id=3)
class Ping:
    """Without fields."""


@message(id=2, version=1)
class PositionWithCents:
    account: UInt32
    cents: UInt64 | None = field(since=1, default=None)


@message(id=2)
class LongPosition:
    """Contradicts Position."""

    account: UInt64


@message(id=2)
class Transfer:
    """Has the id and the length of a Position."""

    cents: UInt32


@message(id=2, schema_id=7)
class Order7:
    symbol: str


Order7.__name__ = "Order"
ORDER = Order(
    2**64 - 2, Side.SELL, Flags.HIDDEN | Flags.PEGGED, Decimal("-12.50"), True, Venue("XETR", 7), b"\x01\xff", (3, 4),
    None, [Leg(1, Decimal("0.125"), "half"), Leg(2, Decimal(1))], "größer",
)  # fmt: skip
ORDER_VALUES = {
    "id": Decimal(2**64 - 2), "side": "SELL", "flags": ["HIDDEN", "PEGGED"], "price": Decimal("-12.50"),
    "is_open": True, "venue": {"code": "XETR", "desk": 7}, "digest": b"\x01\xff", "sizes": [3, 4], "limit": None,
    "legs": [
        {"account": 1, "share": Decimal("0.125"), "note": "half"},
        {"account": 2, "share": Decimal("1.000"), "note": ""},
    ],
    "text": "größer",
}  # fmt: skip
FIRST = Schema("first", Order, Position, Ping)
SECOND = Schema("second", Order, PositionWithCents, Ping)
WRONG = Schema("wrong", Order, LongPosition, Ping)
OTHER = Schema("other", Transfer)
SEVENTH = Schema("seventh", Order7)

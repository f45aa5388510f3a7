"""Messages with every type, at two versions of their schema."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum, IntFlag, StrEnum
from typing import Annotated, ClassVar

from ordo.messages import (
    Array,
    Bytes,
    Chars,
    Fixed,
    Float32,
    Int8,
    Int16,
    Int32,
    Int64,
    Rows,
    Schema,
    Sized,
    TimestampNs,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    composite,
    field,
    group,
    message,
    number,
)


class Side(IntEnum):
    BUY = 1
    SELL = 2


class Venue(IntEnum):
    NEAR = -3
    FAR = 30_000


class TimeInForce(StrEnum):
    DAY = "0"
    FILL_OR_KILL = "4"


class Flags(IntFlag):
    POST = 1
    HIDDEN = 512


@composite
class Money:
    units: Int64
    currency: Annotated[str, Chars(3)]
    cents: UInt8 | None


@group
class Party:
    party_id: UInt16


@group
class Leg:
    instrument: UInt32
    ratio: Int8
    parties: Annotated[list[Party], Rows(UInt8)] = field(default_factory=list)
    note: Annotated[str, Sized(UInt8)] = ""


@message(id=1)
class OrderV0:
    """An order as the schema's first version had it."""

    account: UInt64
    side: Side
    legs: list[Leg] = field(default_factory=list)
    note: str = ""


@message(id=1, version=2)
class Order:
    """The same message two versions later."""

    account: UInt64
    side: Side
    quantity: UInt32 | None = field(since=1, default=None)
    urgent: bool = field(since=2, default=False)
    legs: list[Leg] = field(default_factory=list)
    tags: list[Party] = field(since=2, default_factory=list)
    note: str = ""
    trail: bytes = field(since=2, default=b"")


@message(id=2, version=2)
class Everything:
    """One field of each type."""

    KIND: ClassVar[str] = "everything"

    tiny: Int8
    small: Int16
    middle: Int32
    large: Int64
    natural_tiny: UInt8
    natural_small: UInt16
    natural_middle: UInt32
    natural_large: UInt64
    single: Float32
    double: float
    plain: int
    truth: bool
    side: Side
    venue: Annotated[Venue, Int16]
    time_in_force: TimeInForce
    flags: Annotated[Flags, UInt16]
    symbol: Annotated[str, Chars(8)]
    digest: Annotated[bytes, Bytes(4)]
    levels: Annotated[tuple[int, ...], Array(Int16, 3)]
    price: Annotated[Decimal, Fixed(4)]
    money: Money
    at: TimestampNs
    maybe_tiny: Int8 | None
    maybe_large: UInt64 | None
    maybe_real: float | None
    maybe_truth: bool | None
    maybe_side: Side | None
    maybe_time: TimeInForce | None
    maybe_symbol: Annotated[str, Chars(2)] | None
    maybe_price: Annotated[Decimal, Fixed(2, Int32)] | None
    zero_is_none: Annotated[int, number("uint16", null=0, low=1)] | None
    legs: list[Leg]
    note: str
    data: Annotated[bytes, Sized(UInt16)]


@message(id=3, version=2, schema_id=5, byte_order="big")
class Reversed:
    """Highest byte first."""

    count: UInt16
    real: Float32
    price: Annotated[Decimal, Fixed(1, Int32)]
    levels: Annotated[tuple[int, ...], Array(UInt32, 2)]
    text: str


OLD = Schema("orders", OrderV0)
NEW = Schema("orders", Order, Everything)

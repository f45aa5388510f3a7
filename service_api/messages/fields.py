"""The types that a message's fields can have, as annotations.

Each is the Python type of the values, annotated with how they travel: `UInt32` is an `int` of four bytes,
`Annotated[str, Chars(8)]` a `str` of up to eight characters. Names and ranges are those of SBE (sbe-encoding.md §2).
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, replace
from dataclasses import field as dataclass_field
from typing import Annotated, Any, TypeAlias

from ordo.runtime.errors import MessageError

SINCE = "since"


@dataclass(frozen=True)
class Primitive:
    """A number of SBE: its name, its bytes on the wire, and the values that a field may have.

    `null` stands for None in an optional field. `meaning` is what SBE calls the semantic type, such as UTCTimestamp.
    """

    name: str
    length_bytes: int
    low: float
    high: float
    null: float
    code: str
    meaning: str = ""
    time_unit: str = ""


def _integer(name: str, code: str, length_bytes: int, *, is_signed: bool, **extra: str) -> Primitive:
    if is_signed:
        high = (1 << 8 * length_bytes - 1) - 1
        return Primitive(name, length_bytes, -high, high, -high - 1, code, **extra)
    null = (1 << 8 * length_bytes) - 1
    return Primitive(name, length_bytes, 0, null - 1, null, code, **extra)


def _timestamp(unit: str) -> Primitive:
    return _integer("uint64", "Q", 8, is_signed=False, meaning="UTCTimestamp", time_unit=unit)


PRIMITIVES = {
    one.name: one
    for one in (
        _integer("int8", "b", 1, is_signed=True),
        _integer("uint8", "B", 1, is_signed=False),
        _integer("int16", "h", 2, is_signed=True),
        _integer("uint16", "H", 2, is_signed=False),
        _integer("int32", "i", 4, is_signed=True),
        _integer("uint32", "I", 4, is_signed=False),
        _integer("int64", "q", 8, is_signed=True),
        _integer("uint64", "Q", 8, is_signed=False),
        Primitive("float", 4, -math.inf, math.inf, math.nan, "f"),
        Primitive("double", 8, -math.inf, math.inf, math.nan, "d"),
    )
}


def number(name: str, *, null: int | None = None, low: int | None = None, high: int | None = None) -> Primitive:
    """Return an integer of SBE with another null value or range, as in `Annotated[int, number("int32", null=0)]`.

    Raises MessageError when there is no integer of that name.
    """
    usual = PRIMITIVES.get(name)
    if usual is None or usual.code in "fd":
        raise MessageError(f"{name!r} is no integer: allowed are int8 to int64 and uint8 to uint64")
    return replace(
        usual,
        null=usual.null if null is None else null,
        low=usual.low if low is None else low,
        high=usual.high if high is None else high,
    )


Int8: TypeAlias = Annotated[int, PRIMITIVES["int8"]]
UInt8: TypeAlias = Annotated[int, PRIMITIVES["uint8"]]
Int16: TypeAlias = Annotated[int, PRIMITIVES["int16"]]
UInt16: TypeAlias = Annotated[int, PRIMITIVES["uint16"]]
Int32: TypeAlias = Annotated[int, PRIMITIVES["int32"]]
UInt32: TypeAlias = Annotated[int, PRIMITIVES["uint32"]]
Int64: TypeAlias = Annotated[int, PRIMITIVES["int64"]]
UInt64: TypeAlias = Annotated[int, PRIMITIVES["uint64"]]
Float32: TypeAlias = Annotated[float, PRIMITIVES["float"]]
Float64: TypeAlias = Annotated[float, PRIMITIVES["double"]]
TimestampMs: TypeAlias = Annotated[int, _timestamp("millisecond")]
TimestampUs: TypeAlias = Annotated[int, _timestamp("microsecond")]
TimestampNs: TypeAlias = Annotated[int, _timestamp("nanosecond")]


@dataclass(frozen=True)
class Chars:
    """`Annotated[str, Chars(8)]`: up to `length` characters of Latin-1, filled up with NUL."""

    length: int


@dataclass(frozen=True)
class Bytes:
    """`Annotated[bytes, Bytes(16)]`: exactly `length` bytes."""

    length: int


SCALE_MAX = 127
"""Digits of a decimal after the point: its exponent is an int8, whose lowest value stands for null."""


@dataclass(frozen=True)
class Fixed:
    """`Annotated[Decimal, Fixed(2)]`: a decimal with `scale` digits after the point, kept as an integer."""

    scale: int
    mantissa: object = Int64


@dataclass(frozen=True)
class Array:
    """`Annotated[tuple[int, ...], Array(UInt16, 4)]`: exactly `length` numbers."""

    of: object
    length: int


@dataclass(frozen=True)
class Rows:
    """`Annotated[list[Leg], Rows(UInt8)]`: how the count of a group's rows travels; `list[Leg]` alone is UInt16.

    `dimension` is the place of the rows' length, of their count, and the length of both in all, where a schema has
    others than a length of two bytes and then the count.
    """

    count: object = UInt16
    dimension: tuple[int, int, int] | None = None
    length: object = UInt16


@dataclass(frozen=True)
class Sized:
    """`Annotated[bytes, Sized(UInt16)]`: how the length of variable data travels; `bytes` and `str` alone is UInt32."""

    length: object = UInt32


@dataclass(frozen=True)
class At:
    """`Annotated[UInt32, At(16)]`: the place of a field in its block, where it does not follow the one before."""

    offset: int


def field(*, since: int = 0, **options: Any) -> Any:
    """Say more of a message's field: `since`, the version of the schema that brought it, and its default.

    `default` and the other options are those of `dataclasses.field`. A message of an older version has the default in
    its place, so a field with `since` needs one, or is optional (then None).
    """
    return dataclass_field(**options, metadata={SINCE: since})


def since_of(found: Field[Any]) -> int:
    """Return the version that brought a field."""
    return int(found.metadata.get(SINCE, 0))


def find_primitive(annotation: object) -> Primitive | None:
    """Return the primitive that an annotation such as UInt16 names, or None."""
    if isinstance(annotation, Primitive):
        return annotation
    return next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Primitive)), None)


def primitive_of(annotation: object) -> Primitive:
    """Return the primitive that an annotation such as UInt16 names. Raises MessageError when it names none."""
    found = find_primitive(annotation)
    if found is None:
        raise MessageError(f"{annotation!r:.60} is no number: use UInt8 to Int64, Float32 or Float64 of ordo.messages")
    return found

"""Mistakes in the classes of messages are told in one line, where the class is made."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, IntFlag, StrEnum
from typing import Annotated, Any

import pytest

from ordo.messages import (
    At,
    Bytes,
    Chars,
    Fixed,
    Float32,
    Rows,
    Schema,
    Sized,
    UInt8,
    UInt32,
    UInt64,
    composite,
    encode,
    field,
    group,
    message,
    number,
    view,
)
from ordo.runtime.errors import MessageError
from tests.service_api.messages.orders import Money, Order, OrderV0, Reversed

MIDDLE: Any = "middle"


class Wide(IntEnum):
    MANY = 300


class Words(StrEnum):
    LONG = "long"


class Far(IntFlag):
    HIGH = 256


class NoRow:
    pass


@group
class Row:
    text: str


@group
class Good:
    number: UInt8


@group(byte_order="big")
class BigRow:
    number: UInt8


WRONG: list[tuple[Any, str]] = [
    (dict, "Wrong.found: <class 'dict'> has no place in a message"),
    (int | str, "Wrong.found: int | str has no place in a message"),
    (Decimal, "Wrong.found: <class 'decimal.Decimal'> has no place in a message"),
    (Wide, "Wrong.found: Wide has values that uint8 cannot have: annotate another"),
    (Annotated[Wide, Float32], "Wrong.found: Wide has values that float cannot have: annotate another"),
    (Words, "Wrong.found: the values of Words are not single characters of Latin-1"),
    (Far, "Wrong.found: Far has values that uint8 cannot have: annotate another"),
    (list[NoRow], "Wrong.found: <class 'tests.service_api.messages.test_definitions.NoRow'> is no row"),
    (list[Row] | None, "Wrong.found: a group is never None: an empty one is []"),
    (str | None, "Wrong.found: data of variable length is never None"),
    (Money | None, "Wrong.found: bytes, arrays and composites have no value that stands for None"),
    (Annotated[bytes, Bytes(2)] | None, "Wrong.found: bytes, arrays and composites have no value that stands for None"),
    (Annotated[str, Chars(0)], "Wrong.found: its length is 0: allowed are 1 to 65534"),
    (Annotated[Decimal, Fixed(2, str)], "<class 'str'> is no number: use UInt8 to Int64, Float32 or Float64"),
    (Row, "Wrong.found: Row has groups or data of variable length: no composite"),
    (list[BigRow], "Wrong and BigRow differ in their byte order"),
    (
        Annotated[list[Good], Rows(UInt64)],
        "Wrong.found: counts and lengths travel as UInt8, UInt16 or",
    ),
    (
        Annotated[list[Good], Rows(UInt8, (90, 0, 2))],
        "Wrong.found: its dimension (90, 0, 2) has no place for",
    ),
    (Annotated[list[Good], Rows(UInt8, (0, 1, 4))], "Wrong.found: its dimension (0, 1, 4) has no place for"),
    (
        Annotated[bytes, Sized(Float32)],
        "Wrong.found: counts and lengths travel as UInt8, UInt16 or",
    ),
    ("Missing", "Wrong: an annotation cannot be read: name 'Missing' is not defined"),
]


@pytest.mark.parametrize(("annotation", "text"), WRONG, ids=[str(index) for index in range(len(WRONG))])
def test_a_type_without_a_place(annotation: Any, text: str) -> None:
    wrong = type("Wrong", (), {"__annotations__": {"found": annotation}})
    with pytest.raises(MessageError) as caught:
        message(id=1)(wrong)
    assert caught.value.message.startswith(text) and "\n" not in caught.value.message


def late() -> type:
    class Late:
        one: UInt32 = field(since=1)

    return message(id=1, version=1)(Late)


def ahead() -> type:
    class Ahead:
        one: UInt32 = field(since=2, default=0)

    return message(id=1, version=1)(Ahead)


def before() -> type:
    class Before:
        one: UInt32 = field(since=2, default=0)
        two: UInt32 = field(since=1, default=0)

    return message(id=1, version=2)(Before)


def overlap() -> type:
    class Overlap:
        one: UInt32
        two: Annotated[UInt32, At(2)]

    return message(id=1)(Overlap)


def slots() -> type:
    class Slots:
        __slots__ = ("one",)
        one: UInt32

    return message(id=1)(Slots)


def inherited() -> type:
    class Inherited(OrderV0):
        one: UInt32 = 0

    return message(id=1)(Inherited)


def too_short() -> type:
    class TooShort:
        one: UInt32

    return message(id=1, block_length=3)(TooShort)


def not_composite() -> type:
    class NotComposite:
        text: str

    return composite(NotComposite)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (late, "Late.one: it came with a later version: give it a default, or make it optional"),
        (ahead, "Ahead.one came after version 1: raise the message's version"),
        (before, "Before.one: what is new in a version comes after what is older"),
        (overlap, "Overlap.two: it begins at 2, inside the field before, which ends at 4"),
        (slots, "Slots has __slots__ of its own: leave them out"),
        (inherited, "Inherited inherits from a message: write its fields out"),
        (too_short, "TooShort: its block has 4 bytes: allowed are up to 3"),
        (not_composite, "NotComposite has groups or data of variable length: no composite can"),
        (lambda: message(id=65_535), "id is 65535: allowed are 0 to 65534"),
        (lambda: message(id=1, version=-1), "version is -1: allowed are 0 to 65534"),
        (
            lambda: group(byte_order=MIDDLE)(NoRow),
            "byte_order is 'middle': allowed are 'little' and 'big'",
        ),
        (lambda: number("float"), "'float' is no integer: allowed are int8 to int64 and uint8 to uint64"),
        (lambda: Schema("empty"), "schema empty has no messages"),
        (lambda: Schema("twice", Order, OrderV0), "OrderV0 and Order have the same id, 1"),
        (lambda: Schema("mixed", Order, Reversed), "Reversed is of schema 5, the others are of 1"),
        (lambda: Schema("none", int), "int is no message: decorate the class with @ordo.message(id=...)"),
        (lambda: view(int, b""), "int is no message"),
        (lambda: encode(Row("x")), "Row is no message: decorate the class with @ordo.message(id=...)"),
    ],
)
def test_a_class_that_cannot_be(make: Callable[[], object], text: str) -> None:
    with pytest.raises(MessageError) as caught:
        make()
    assert caught.value.message.startswith(text) and "\n" not in caught.value.message

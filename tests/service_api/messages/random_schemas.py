"""Schemas at random, with every type that a message can have, and values of them."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, IntFlag, StrEnum
from functools import reduce
from itertools import count
from operator import or_
from random import Random
from typing import Annotated, Any, NamedTuple

from ordo.messages import (
    Array,
    At,
    Bytes,
    Chars,
    Fixed,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Rows,
    Schema,
    Sized,
    TimestampMs,
    TimestampNs,
    TimestampUs,
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
from ordo.service_api.messages.fields import PRIMITIVES, Primitive, primitive_of

INTEGERS: tuple[Any, ...] = (Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64)
CLOCKS: tuple[Any, ...] = (TimestampMs, TimestampUs, TimestampNs)
REALS: tuple[Any, ...] = (Float32, Float64)
COUNTS: tuple[Any, ...] = (UInt8, UInt16, UInt32)
NAMES = ("price", "Price", "value", "class_", "int8", "mantissa", "exponent", "length", "bool", "Array", "legs", "mro_")
"""Names that the schema, its types or Python have a use for."""
CHARACTERS = "AZ09 \t\n\r\x01\x1f\"'<&\xe9\xa0\x85"
VERSION_MAX = 2

Make = Callable[[], Any]


class Drawn(NamedTuple):
    """A type, what makes a value of it, and whether it may be None."""

    annotation: Any
    make: Make
    has_null: bool = True


class SchemaMaker:
    """Draws the classes of one schema and their values."""

    def __init__(self, random: Random, *, is_plain: bool = False) -> None:
        """`is_plain`: leave out what SBE's Java tool has other rules for."""
        self._random = random
        self._is_plain = is_plain
        self._numbers = count()
        self._big = random.random() < 0.2
        self._composites: list[Drawn] = []
        self._enums: list[Drawn] = []
        self.makes: dict[type, Make] = {}
        """Class of a message -> what makes one."""

    def schema(self) -> Schema:
        """Draw a schema, whose messages `makes` has."""
        for template_id in range(1, self._random.randint(1, 3) + 1):
            self._message(template_id)
        return Schema("drawn", *self.makes)

    def _message(self, template_id: int) -> None:
        version = self._random.randint(0, VERSION_MAX)
        of_class, make = self._block(f"Message{template_id}", version, 0)
        decorate = message(id=template_id, version=version, byte_order=self._order, block_length=self._room())
        made: type = decorate(of_class)
        self.makes[made] = lambda: made(**make())

    @property
    def _order(self) -> Any:
        return "big" if self._big else "little"

    def _room(self) -> int:
        return 0 if self._is_plain or self._random.random() < 0.8 else 40_000

    def _name(self, taken: set[str]) -> str:
        wanted = self._random.choice(NAMES) if self._random.random() < 0.3 and not self._is_plain else ""
        name = wanted if wanted and wanted not in taken else f"f{next(self._numbers)}"
        assert not keyword.iskeyword(name)
        taken.add(name)
        return name

    def _block(self, name: str, version: int, depth: int) -> tuple[type, Callable[[], dict[str, Any]]]:
        """Return a class with annotations, and what makes the values of its fields."""
        annotations: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        makes: dict[str, Make] = {}
        taken: set[str] = set()
        versions = sorted(self._random.randint(0, version) for _ in range(self._random.randint(min(depth, 1), 6)))
        for since in versions:
            self._add_field(self._name(taken), since, annotations, defaults, makes)
        for since in sorted(self._random.randint(0, version) for _ in range(self._random.randint(0, 2 - depth))):
            own = self._name(taken)
            annotations[own], makes[own] = self._rows(f"{name}Row", version, depth)
            defaults[own] = field(since=since, default_factory=list, kw_only=True)
        for since in sorted(self._random.randint(0, version) for _ in range(self._random.randint(0, 2))):
            own = self._name(taken)
            is_text = self._random.random() < 0.5
            annotations[own] = Annotated[str if is_text else bytes, Sized(self._random.choice(COUNTS))]
            makes[own] = (lambda: "né") if is_text else (lambda: b"\0\xff")
            defaults[own] = field(since=since, default="" if is_text else b"", kw_only=True)
        made = type(name, (), {"__annotations__": annotations, **defaults})
        return made, lambda: {own: make() for own, make in makes.items()}

    def _add_field(
        self, name: str, since: int, annotations: dict[str, Any], defaults: dict[str, Any], makes: dict[str, Make]
    ) -> None:
        drawn = self._type(0)
        annotation = drawn.annotation
        is_optional = (drawn.has_null or since > 0) and self._random.random() < 0.4
        if since:
            given: dict[str, Any] = {"default": None} if is_optional else {"default_factory": drawn.make}
            defaults[name] = field(since=since, kw_only=True, **given)
        else:
            defaults[name] = field(kw_only=True)
        annotations[name] = annotation | None if is_optional else annotation
        if is_optional and drawn.has_null:
            makes[name] = lambda: None if self._random.random() < 0.3 else drawn.make()
        else:
            makes[name] = drawn.make

    def _rows(self, name: str, version: int, depth: int) -> tuple[Any, Make]:
        of_class, make = self._block(f"{name}{next(self._numbers)}", version, depth + 1)
        made: type = group(of_class, byte_order=self._order)
        length, counted = self._random.choice(COUNTS[1:]), self._random.choice(COUNTS)
        rows = Rows(counted, None, length)
        if self._random.random() < 0.3 and not self._is_plain:
            rows = Rows(counted, self._random.choice([(0, 5, 9), (0, 4, 12), (4, 0, 8)]), length)
        return Annotated[list[made], rows], lambda: [made(**make()) for _ in range(self._random.randint(0, 2))]  # type: ignore[valid-type]

    def _type(self, depth: int) -> Drawn:
        kinds: list[Callable[[], Drawn]] = [
            *(self._integer, self._ranged, self._clock, self._real, self._truth, self._characters, self._bytes),
            *(self._decimal, self._array, self._enum, self._flags, self._character),
        ]
        if depth < 2:
            kinds += [lambda: self._composite(depth)] * 2
        return self._random.choice(kinds)()

    def _numbers_of(self, primitive: Primitive) -> Make:
        if primitive.code in "fd":
            return lambda: self._random.choice([0.0, -1.5, 2.0**60])
        low, high = int(primitive.low), int(primitive.high)
        return lambda: self._random.choice([low, high, self._random.randint(low, high)])

    def _integer(self) -> Drawn:
        found = self._random.choice(INTEGERS)
        return Drawn(found, self._numbers_of(primitive_of(found)))

    def _ranged(self) -> Drawn:
        found = self._range()
        return Drawn(Annotated[int, found], self._numbers_of(found))

    def _range(self) -> Primitive:
        name = self._random.choice([name for name in PRIMITIVES if name not in ("float", "double")])
        return number(name, null=0, low=1, high=self._random.choice([9, 100]))

    def _clock(self) -> Drawn:
        return Drawn(self._random.choice(CLOCKS), lambda: self._random.randint(0, 1 << 62))

    def _real(self) -> Drawn:
        return Drawn(self._random.choice(REALS), self._numbers_of(PRIMITIVES["double"]))

    def _truth(self) -> Drawn:
        is_odd = self._random.random() < 0.2 and not self._is_plain
        return Drawn(Annotated[bool, number("uint8", null=7)] if is_odd else bool, lambda: self._random.random() < 0.5)

    def _characters(self) -> Drawn:
        length = self._random.randint(1, 4)
        return Drawn(Annotated[str, Chars(length)], lambda: "\xe9" * self._random.randint(1, length))

    def _bytes(self) -> Drawn:
        length = self._random.randint(1, 4)
        return Drawn(Annotated[bytes, Bytes(length)], lambda: self._random.randbytes(length), has_null=False)

    def _decimal(self) -> Drawn:
        scale = self._random.choice([0, 2, 9, 18])
        of = self._random.choice([*INTEGERS, Annotated[int, self._range()]])
        make = self._numbers_of(primitive_of(of))
        return Drawn(Annotated[Decimal, Fixed(scale, of)], lambda: Decimal(make()).scaleb(-scale))

    def _array(self) -> Drawn:
        length = self._random.randint(1, 3)
        of = self._random.choice([*INTEGERS, *CLOCKS, *REALS, Annotated[int, self._range()]])
        make = self._numbers_of(primitive_of(of))
        kind = float if of in REALS else int
        return Drawn(
            Annotated[tuple[kind, ...], Array(of, length)],  # type: ignore[valid-type]
            lambda: tuple(make() for _ in range(length)),
            has_null=False,
        )

    def _enum(self) -> Drawn:
        """Draw an enumeration, or one of before in another width; some look like SBE's Boolean."""
        members = self._random.choice([{"F": 0, "T": 1}, {"BUY": 1, "SELL": 2}, {"A": 100}, {}])
        members = members or {f"M{one}": one for one in range(self._random.randint(1, 5))}
        of_class = IntEnum(self._enum_name(), members)  # type: ignore[misc]
        wide = (Int8, UInt8, Int16, UInt16) if self._is_plain else INTEGERS
        width = self._random.choice([None, *wide, Annotated[int, number("uint16", null=500)]])
        annotation = of_class if width is None else Annotated[of_class, width]
        return Drawn(annotation, lambda: self._random.choice(list(of_class)))

    def _enum_name(self) -> str:
        return (
            self._random.choice(["Side", "Array", "BooleanType", "char4"]) if not self._is_plain else self._own("Side")
        )

    def _own(self, name: str) -> str:
        return f"{name}{next(self._numbers)}"

    def _character(self) -> Drawn:
        several = self._random.sample("ABC01" if self._is_plain else CHARACTERS, 3)
        of_class = StrEnum(self._own("Kind"), {f"C{index}": one for index, one in enumerate(several)})  # type: ignore[misc]
        return Drawn(of_class, lambda: self._random.choice(list(of_class)))

    def _flags(self) -> Drawn:
        width = self._random.choice([UInt8, UInt16, UInt32, UInt64])
        bits = self._random.sample(range(8 * primitive_of(width).length_bytes), 3)
        of_class = IntFlag(self._own("Flags"), {f"B{bit}": 1 << bit for bit in bits})  # type: ignore[misc]
        return Drawn(
            Annotated[of_class, width],
            lambda: reduce(or_, self._random.sample(list(of_class), self._random.randint(0, 3)), of_class(0)),
        )

    def _composite(self, depth: int) -> Drawn:
        if self._composites and self._random.random() < 0.3 and not depth:
            return self._random.choice(self._composites)
        annotations: dict[str, Any] = {}
        makes: dict[str, Make] = {}
        taken: set[str] = set()
        for place in range(self._random.randint(1, 3)):
            drawn, name = self._type(depth + 1), self._name(taken)
            is_optional = drawn.has_null and self._random.random() < 0.4
            annotation = drawn.annotation
            if self._random.random() < 0.1:
                annotation = Annotated[annotation, At(place * (100 if depth else 1_000))]
            annotations[name] = annotation | None if is_optional else annotation
            makes[name] = drawn.make
        name = self._own("Pair") if self._is_plain else self._random.choice(["Pair", "messageHeader", "Message1"])
        made: type = composite(type(name, (), {"__annotations__": annotations}), byte_order=self._order)
        drawn = Drawn(made, lambda: made(**{name: make() for name, make in makes.items()}), has_null=False)
        if not depth:
            self._composites.append(drawn)
        return drawn


def draw(seed: int, *, is_plain: bool = False) -> tuple[Schema, list[Any]]:
    """Return a schema and some of its messages."""
    maker = SchemaMaker(Random(seed), is_plain=is_plain)
    schema = maker.schema()
    return schema, [make() for make in maker.makes.values() for _ in range(3)]

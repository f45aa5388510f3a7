"""How the messages of a class are laid out: its annotations, read into places, lengths and ranges (sbe-encoding.md).

Fields of a fixed length come first, in the order of the class, each after the one before it; then groups; then data of
variable length. So says SBE, whatever order the class has them in.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from decimal import Decimal
from enum import IntEnum, IntFlag, StrEnum
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from ordo.runtime.errors import MessageError
from ordo.service_api.messages.blocks import BlockCodec, Group, Names, VariableData
from ordo.service_api.messages.fields import (
    PRIMITIVES,
    SCALE_MAX,
    Array,
    At,
    Bytes,
    Chars,
    Fixed,
    Primitive,
    Rows,
    Sized,
    find_primitive,
    primitive_of,
    since_of,
)

SIGNED, UNSIGNED, REAL, BOOLEAN, CHARACTERS, RAW, NAMED_NUMBER, NAMED_CHARACTER, FLAGS, DECIMAL, ARRAY, COMPOSITE = (
    range(12)
)
"""Kinds of fields, as codec.pxd numbers them."""
NAMED = (NAMED_NUMBER, NAMED_CHARACTER, FLAGS)
"""Kinds whose values are members of an enumeration."""
WITHOUT_NULL = (RAW, ARRAY, COMPOSITE)
"""Kinds whose bytes cannot say None: a field is None in a message of a version that had none, and never otherwise."""
LENGTH_MAX = 65_534
"""The longest block, and the longest value in it: the length is a uint16."""
BOOLEAN_TYPE = Primitive("uint8", 1, 0, 1, 255, "B")
CHARACTER = Primitive("char", 1, 1, 255, 0, "c")
PLAIN = {int: PRIMITIVES["int64"], float: PRIMITIVES["double"]}


Encoding: TypeAlias = tuple[int, Primitive, int, object, str]
"""Kind, primitive, length, what it is made of, and what is allowed, of a field of fixed length."""
PlannedField: TypeAlias = tuple[str, int, int, int, bool, int, int, int, int, object, object, str]
"""A field as codec.pxd's FieldPlan has it, with its helper, its default and what is allowed."""
CodecArguments: TypeAlias = tuple[type, list[PlannedField], tuple[Group, ...], tuple[VariableData, ...], int, bool]


@dataclass(frozen=True)
class FieldLayout:
    """One field of fixed length: its place in the block and how its values travel."""

    name: str
    place: int
    length_bytes: int
    kind: int
    primitive: Primitive
    is_optional: bool
    since: int
    default: object
    of: Any
    """The class of an enumeration or a composite, the scale of a decimal, the count of an array's numbers."""
    allowed: str
    """What is allowed, for errors."""


@dataclass(frozen=True)
class GroupLayout:
    """One group: the class of its rows, and how its dimension travels."""

    name: str
    row_class: type
    since: int
    rows: Rows


@dataclass(frozen=True)
class DataLayout:
    """One value of variable length."""

    name: str
    is_text: bool
    since: int
    length: Primitive


@dataclass(frozen=True)
class Layout:
    """All that travels of a class."""

    of_class: type
    fields: tuple[FieldLayout, ...]
    groups: tuple[GroupLayout, ...]
    data: tuple[DataLayout, ...]
    block_length: int
    is_big_endian: bool

    @property
    def parts(self) -> tuple[FieldLayout | GroupLayout | DataLayout, ...]:
        """All fields, groups and data, in the order in which they travel."""
        return (*self.fields, *self.groups, *self.data)

    def codec_arguments(self, codecs: Mapping[type, BlockCodec]) -> CodecArguments:
        """Return what a codec is made of: class, fields, groups, data, block length and byte order."""
        groups = tuple(
            Group(one.name, self.of_class, codecs[one.row_class], one.since, dimension_of(one.rows), self.is_big_endian)
            for one in self.groups
        )
        data = tuple(
            VariableData(one.name, self.of_class, one.is_text, one.since, one.length.length_bytes, self.is_big_endian)
            for one in self.data
        )
        plans = [self._plan(one, codecs) for one in self.fields]
        return self.of_class, plans, groups, data, self.block_length, self.is_big_endian

    def _plan(self, one: FieldLayout, codecs: Mapping[type, BlockCodec]) -> PlannedField:
        primitive, helper = one.primitive, one.of
        if one.kind in NAMED:
            helper = Names(one.of, one.kind == NAMED_CHARACTER, one.kind == FLAGS)
        elif one.kind == COMPOSITE:
            helper = codecs[one.of]
        elif one.kind == ARRAY:
            helper = struct.Struct(f"{'>' if self.is_big_endian else '<'}{one.of}{primitive.code}")
        has_null = one.is_optional and one.kind not in WITHOUT_NULL
        return (
            *(one.name, one.place, one.length_bytes, one.kind, has_null, one.since),
            *(*_range(primitive), _null_bits(primitive), helper, one.default, one.allowed),
        )


def layout_of(
    of_class: type, row_classes: Mapping[type, Layout], block_length: int, is_big_endian: bool, is_composite: bool
) -> Layout:
    """Read the layout of a dataclass from its annotations.

    `row_classes` are those that `group` and `composite` made, by class, with their layouts. `block_length` is 0 where
    the block ends with its last field. A composite is there as a whole or not at all: its fields have no version.
    Raises MessageError for what SBE has no place for.
    """
    reader = _Reader(of_class, row_classes, is_composite)
    for found in fields(of_class):
        reader.add(found)
    length = block_length or reader.end
    if not reader.end <= length <= LENGTH_MAX:
        length_max = block_length or LENGTH_MAX
        raise MessageError(f"{of_class.__name__}: its block has {reader.end} bytes: allowed are up to {length_max}")
    return Layout(of_class, tuple(reader.fields), tuple(reader.groups), tuple(reader.data), length, is_big_endian)


class _Reader:
    """Goes through the fields of one class."""

    def __init__(self, of_class: type, row_classes: Mapping[type, Layout], is_composite: bool) -> None:
        self.fields: list[FieldLayout] = []
        self.groups: list[GroupLayout] = []
        self.data: list[DataLayout] = []
        self.end = 0
        self._class = of_class
        self._row_classes = row_classes
        self._is_composite = is_composite
        try:
            # Without names of the class itself: a field may be called as its type is.
            self._hints = get_type_hints(of_class, localns={}, include_extras=True)
        except (NameError, TypeError) as error:
            raise MessageError(f"{of_class.__name__}: an annotation cannot be read: {error}") from error

    def add(self, found: Field[Any]) -> None:
        """Add one field of the dataclass. Raises MessageError for a type that has no place in a message."""
        base, marks, is_optional = _split(self._hints[found.name])
        since, default = 0 if self._is_composite else since_of(found), _default(found)
        if get_origin(base) in (list, tuple) and not _first(marks, Array):
            if is_optional:
                raise self._wrong(found.name, "a group is never None: an empty one is []")
            (row_class,) = get_args(base)[:1]
            if not isinstance(row_class, type) or row_class not in self._row_classes:
                raise self._wrong(found.name, f"{row_class!r:.60} is no row: decorate its class with @group")
            rows = _first(marks, Rows) or Rows()
            self._check_dimension(found.name, rows)
            self.groups.append(GroupLayout(found.name, row_class, since, rows))
        elif base in (str, bytes) and not _first(marks, Chars, Bytes):
            if is_optional:
                raise self._wrong(found.name, "data of variable length is never None: an empty value is it")
            length = self._count(found.name, (_first(marks, Sized) or Sized()).length)
            self.data.append(DataLayout(found.name, base is str, since, length))
        else:
            self._add_fixed(found.name, base, marks, is_optional, since, default)

    def _check_dimension(self, name: str, rows: Rows) -> None:
        """Check that the length and the count of rows have their places apart, inside the dimension."""
        length, count = self._count(name, rows.length).length_bytes, self._count(name, rows.count).length_bytes
        length_place, _, count_place, _, total = dimension_of(rows)
        first, second = sorted([(length_place, length), (count_place, count)])
        if first[0] < 0 or first[0] + first[1] > second[0] or not second[0] + second[1] <= total <= LENGTH_MAX:
            raise self._wrong(name, f"its dimension {rows.dimension} has no place for the rows' length and count")

    def _count(self, name: str, annotation: object) -> Primitive:
        """Return how a count or a length travels. Raises MessageError unless as UInt8, UInt16 or UInt32."""
        primitive = primitive_of(annotation)
        if primitive.code not in "BHI":
            raise self._wrong(name, f"counts and lengths travel as UInt8, UInt16 or UInt32, not as {primitive.name}")
        return primitive

    def _add_fixed(
        self, name: str, base: object, marks: tuple[object, ...], is_optional: bool, since: int, default: object
    ) -> None:
        if since and default is MISSING and not is_optional:
            raise self._wrong(name, "it came with a later version: give it a default, or make it optional")
        kind, primitive, length, of, allowed = self._encoding(name, base, marks)
        if is_optional and kind in WITHOUT_NULL and not since:
            raise self._wrong(
                name,
                "bytes, arrays and composites have no value that stands for None, unless a later version brought them",
            )
        at = _first(marks, At)
        place = self.end if at is None else at.offset
        if place < self.end:
            raise self._wrong(name, f"it begins at {place}, inside the field before, which ends at {self.end}")
        self.end = place + length
        default = None if default is MISSING else default
        allowed += " and None" if is_optional and kind not in WITHOUT_NULL else ""
        self.fields.append(FieldLayout(name, place, length, kind, primitive, is_optional, since, default, of, allowed))

    def _encoding(self, name: str, base: object, marks: tuple[object, ...]) -> Encoding:
        """Return kind, primitive, length, what it is made of, and what is allowed, of a field of fixed length."""
        primitive = next(filter(None, map(find_primitive, marks)), None)
        if (array := _first(marks, Array)) is not None:
            primitive, length = primitive_of(array.of), self._length(name, array.length)
            allowed = f"{length} numbers, each {_numbers(primitive)}"
            return ARRAY, primitive, length * primitive.length_bytes, length, allowed
        if (fixed := _first(marks, Fixed)) is not None and base is Decimal:
            primitive = primitive_of(fixed.mantissa)
            if not 0 <= fixed.scale <= SCALE_MAX:
                raise self._wrong(name, f"Fixed({fixed.scale}): allowed are 0 to {SCALE_MAX} digits after the point")
            allowed = f"decimals with up to {fixed.scale} digits after the point, as a whole {_numbers(primitive)}"
            return DECIMAL, primitive, primitive.length_bytes, fixed.scale, allowed
        if (chars := _first(marks, Chars)) is not None and base is str:
            length = self._length(name, chars.length)
            return CHARACTERS, CHARACTER, length, None, f"str of up to {length} characters of Latin-1, without NUL"
        if (raw := _first(marks, Bytes)) is not None and base is bytes:
            length = self._length(name, raw.length)
            return RAW, PRIMITIVES["uint8"], length, None, f"bytes, {length} of them"
        if isinstance(base, type):
            if base in self._row_classes:
                return self._composite(name, base)
            if base is bool:
                return BOOLEAN, _boolean_type(primitive), 1, None, "True and False"
            if issubclass(base, (IntEnum, IntFlag, StrEnum)):
                return self._named(name, base, primitive)
            if base in (int, float):
                primitive = primitive or PLAIN[base]
                kind = REAL if primitive.code in "fd" else SIGNED if primitive.low < 0 else UNSIGNED
                return kind, primitive, primitive.length_bytes, None, _numbers(primitive)
        raise self._wrong(name, f"{base!r:.60} has no place in a message; the types are in ordo.messages")

    def _composite(self, name: str, base: type) -> Encoding:
        layout: Layout = self._row_classes[base]
        if layout.groups or layout.data:
            raise self._wrong(name, f"{base.__name__} has groups or data of variable length: no composite")
        return COMPOSITE, PRIMITIVES["uint8"], layout.block_length, base, f"a {base.__name__}"

    def _named(self, name: str, base: type, primitive: Primitive | None) -> Encoding:
        """Return the encoding of an enumeration: uint8 unless the annotation says otherwise."""
        members: list[Any] = list(base)  # type: ignore[call-overload]
        allowed = ", ".join(one.name for one in members)
        if issubclass(base, StrEnum):
            if any(len(one) != 1 or not 0 < ord(one) < 256 for one in members):
                raise self._wrong(name, f"the values of {base.__name__} are not single characters of Latin-1")
            return NAMED_CHARACTER, CHARACTER, 1, base, allowed
        primitive = primitive or PRIMITIVES["uint8"]
        is_flags = issubclass(base, IntFlag)
        high = (1 << 8 * primitive.length_bytes) - 1 if is_flags else primitive.high
        if primitive.code in "fd" or any(not primitive.low <= int(one) <= high for one in members):
            raise self._wrong(name, f"{base.__name__} has values that {primitive.name} cannot have: annotate another")
        return FLAGS if is_flags else NAMED_NUMBER, primitive, primitive.length_bytes, base, allowed

    def _length(self, name: str, length: int) -> int:
        if not 0 < length <= LENGTH_MAX:
            raise self._wrong(name, f"its length is {length}: allowed are 1 to {LENGTH_MAX}")
        return length

    def _wrong(self, name: str, why: str) -> MessageError:
        return MessageError(f"{self._class.__name__}.{name}: {why}")


def _split(hint: Any) -> tuple[object, tuple[object, ...], bool]:
    """Return the Python type of an annotation, what it is annotated with, and whether None is allowed."""
    marks: list[object] = []
    is_optional = False
    while True:
        if get_origin(hint) is Annotated:
            marks = [*hint.__metadata__, *marks]
            hint = hint.__origin__
        elif get_origin(hint) in (Union, types.UnionType):
            others = [one for one in get_args(hint) if one is not type(None)]
            if len(others) != 1 or len(others) == len(get_args(hint)):
                return hint, (), False
            hint, is_optional = others[0], True
        else:
            return hint, tuple(marks), is_optional


def _first(marks: tuple[object, ...], *kinds: type) -> Any:
    return next((one for one in reversed(marks) if isinstance(one, kinds)), None)


def _default(found: Field[Any]) -> object:
    return found.default if found.default_factory is MISSING else found.default_factory()


def _boolean_type(primitive: Primitive | None) -> Primitive:
    """Return the one byte that a Boolean is, with the null value of what it is annotated with."""
    if primitive is None or primitive.code in "fd":
        return BOOLEAN_TYPE
    return replace(BOOLEAN_TYPE, null=int(primitive.null) & 0xFF)


def _numbers(primitive: Primitive) -> str:
    return (
        f"{primitive.name}, without NaN" if primitive.code in "fd" else f"{int(primitive.low)} to {int(primitive.high)}"
    )


def _range(primitive: Primitive) -> tuple[int, int]:
    return (0, 0) if primitive.code in "fd" else (int(primitive.low), int(primitive.high))


def _null_bits(primitive: Primitive) -> int:
    """Return the null value as it lies on the wire."""
    if primitive.code in "fd":
        (bits,) = struct.unpack("<Q", struct.pack("<" + primitive.code, primitive.null).ljust(8, b"\0"))
        return int(bits)
    return int(primitive.null) & ((1 << 8 * primitive.length_bytes) - 1)


def dimension_of(rows: Rows) -> tuple[int, int, int, int, int]:
    """Return places and sizes of a group's dimension: of the rows' length, of their count, and of both in all."""
    length, count = primitive_of(rows.length).length_bytes, primitive_of(rows.count).length_bytes
    length_place, count_place, total = rows.dimension or (0, length, length + count)
    return length_place, length, count_place, count, total


def classes_in(layout: Layout) -> Iterator[type]:
    """Iterate over the classes that a layout is made of: rows of groups, then composites."""
    for group in layout.groups:
        yield group.row_class
    for one in layout.fields:
        if one.kind == COMPOSITE:
            yield one.of

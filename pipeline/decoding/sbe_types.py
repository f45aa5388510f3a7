"""Types of an SBE schema, and how their values are read (sbe-encoding.md; FIX SBE 1.0, 2.0 RC3).

Types become Arrow types: numbers as they are (uint64 as decimal), `char` arrays and named enum values as strings, sets
as lists of names, composites as structs. Null values become null; a `char` array is null when its first byte is NUL.
"""

from __future__ import annotations

import codecs
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ordo.service_api.messages.schema_file import (
    CONSTANT,
    OPTIONAL,
    Composite,
    Field,
    NamedValues,
    SchemaFile,
    SimpleType,
    Type,
)


@dataclass(frozen=True)
class Primitive:
    """A primitive type: its struct code, length, Arrow type and default null value."""

    code: str
    length_bytes: int
    arrow: pa.DataType
    null: float


PRIMITIVES: dict[str, Primitive] = {
    "char": Primitive("c", 1, pa.string(), 0),
    "int8": Primitive("b", 1, pa.int8(), -(1 << 7)),
    "uint8": Primitive("B", 1, pa.int16(), (1 << 8) - 1),
    "int16": Primitive("h", 2, pa.int16(), -(1 << 15)),
    "uint16": Primitive("H", 2, pa.int32(), (1 << 16) - 1),
    "int32": Primitive("i", 4, pa.int32(), -(1 << 31)),
    "uint32": Primitive("I", 4, pa.int64(), (1 << 32) - 1),
    "int64": Primitive("q", 8, pa.int64(), -(1 << 63)),
    "uint64": Primitive("Q", 8, pa.decimal128(20, 0), (1 << 64) - 1),
    "float": Primitive("f", 4, pa.float32(), math.nan),
    "double": Primitive("d", 8, pa.float64(), math.nan),
}
REALS = ("float", "double")
VALUES_MAX = 1 << 16
"""Values of all messages of a schema: composites that refer twice to one another have twice as many at each level."""

Reader = Callable[[bytes, int], Any]


@dataclass(frozen=True)
class Encoding:
    """How one field is laid out: its length, its Arrow type, and how to read it at an offset."""

    length_bytes: int
    arrow: pa.DataType
    read: Reader


@dataclass(frozen=True)
class IntegerRecord:
    """A composite of integers that says how messages are laid out: message headers, dimensions of groups, lengths."""

    length_bytes: int
    parts: Mapping[str, tuple[int, struct.Struct]]
    constants: Mapping[str, int]

    def value(self, name: str, data: bytes, offset: int) -> int:
        """Return one value of the record at `offset`. Raises struct.error when the data is cut."""
        if name in self.constants:
            return self.constants[name]
        place, form = self.parts[name]
        value: int = form.unpack_from(data, offset + place)[0]
        return value


class TypeTable:
    """How the types of one schema are laid out and read."""

    def __init__(self, file: SchemaFile) -> None:
        self._file = file
        self._order = ">" if file.is_big_endian else "<"
        self._count = 0
        """Values so far."""

    def field(self, field: Field) -> Encoding:
        """Return the encoding of a message's field. Raises KeyError and ValueError for what the schema lacks."""
        if field.presence == CONSTANT and field.value_ref is not None:
            return self._constant_by_reference(field.type, field.value_ref)
        return self._of(field.type, field.presence)

    def integers(self, composite: Composite, *needed: str) -> IntegerRecord:
        """Return the layout of a composite of integers, which has the values `needed`. Raises ValueError."""
        parts: dict[str, tuple[int, struct.Struct]] = {}
        constants: dict[str, int] = {}
        for part in composite.parts:
            if isinstance(part.type, SimpleType) and part.type.primitive not in ("char", *REALS):
                if part.type.presence == CONSTANT:
                    constants[part.name] = int(part.type.text or "0")
                else:
                    parts[part.name] = part.offset, struct.Struct(self._order + PRIMITIVES[part.type.primitive].code)
        missing = [name for name in needed if name not in parts and name not in constants]
        if missing:
            raise ValueError(f"composite {composite.name} has no {' and no '.join(missing)}")
        return IntegerRecord(composite.length_bytes, parts, constants)

    def var_data(self, composite: Composite) -> tuple[IntegerRecord, str | None]:
        """Return the length's layout of a composite for var-data, and Python's name of its content's character set.

        Raises ValueError for what is missing, and for a character set that Python does not know.
        """
        content = composite.part("varData").type
        charset = content.charset if isinstance(content, SimpleType) else None
        if charset:
            try:
                b"a".decode(charset, "replace")
                charset = codecs.lookup(charset).name
            except LookupError as error:
                raise ValueError(f"varData of {composite.name} cannot be text: {error}") from error
        return self.integers(composite, "length"), charset

    def _of(self, entry: Type, presence: str) -> Encoding:
        self._count += 1
        if self._count > VALUES_MAX:
            raise ValueError(f"its messages have over {VALUES_MAX} values, with those of composites within composites")
        if isinstance(entry, SimpleType):
            return self._type(entry, presence)
        if isinstance(entry, Composite):
            return self._composite(entry)
        return self._set(entry) if entry.is_set else self._enum(entry)

    def _type(self, entry: SimpleType, presence: str) -> Encoding:
        presence = entry.presence or presence
        if presence != CONSTANT:
            return self._primitive(entry.primitive, entry.length, presence, entry.null)
        if entry.value_ref is not None:
            return self._constant_by_reference(entry, entry.value_ref)
        return _constant(entry.primitive, entry.text)

    def _constant_by_reference(self, entry: Type, reference: str) -> Encoding:
        """Return the value of a reference such as Side.BUY.

        It is the value's name for a field of an enum, else its number in the field's type.
        """
        _, name, text = self._file.referred(reference)
        if isinstance(entry, SimpleType):
            return _constant(entry.primitive, text)
        return Encoding(0, pa.string(), lambda data, at: name)

    def _primitive(self, name: str, length: int, presence: str, null_text: str | None) -> Encoding:
        primitive = PRIMITIVES[name]
        if name == "char":
            return _characters(length, _null_character(null_text) if presence == OPTIONAL else None)
        null = primitive.null if null_text is None else _number(name, null_text)
        convert = _optional(null) if presence == OPTIONAL else _unchanged
        if name == "uint64":
            convert = _decimal(convert)
        form = struct.Struct(f"{self._order}{length}{primitive.code}")
        if length == 1:
            return Encoding(form.size, primitive.arrow, lambda data, at: convert(form.unpack_from(data, at)[0]))
        return Encoding(
            form.size,
            pa.list_(primitive.arrow),
            lambda data, at: [convert(value) for value in form.unpack_from(data, at)],
        )

    def _enum(self, entry: NamedValues) -> Encoding:
        form = struct.Struct(self._order + PRIMITIVES[entry.primitive].code)
        null: object
        if entry.primitive == "char":
            names: dict[object, str] = {text.encode("latin-1"): name for name, text in entry.values}
            null = _null_character(entry.null)
        else:
            names = {int(text or "0"): name for name, text in entry.values}
            null = PRIMITIVES[entry.primitive].null if entry.null is None else int(entry.null)

        def read(data: bytes, at: int) -> str | None:
            (value,) = form.unpack_from(data, at)
            return names.get(value, None if value == null else f"unknown({value!r})")

        return Encoding(form.size, pa.string(), read)

    def _set(self, entry: NamedValues) -> Encoding:
        form = struct.Struct(self._order + PRIMITIVES[entry.primitive].code)
        bits = [(int(text or "0"), name) for name, text in entry.values]

        def read(data: bytes, at: int) -> list[str]:
            (value,) = form.unpack_from(data, at)
            return [name for bit, name in bits if value >> bit & 1]

        return Encoding(form.size, pa.list_(pa.string()), read)

    def _composite(self, entry: Composite) -> Encoding:
        parts = [(part.name, part.offset, self._of(part.type, "required")) for part in entry.parts]
        arrow = pa.struct([(name, encoding.arrow) for name, _, encoding in parts])

        def read(data: bytes, at: int) -> dict[str, Any]:
            return {name: encoding.read(data, at + place) for name, place, encoding in parts}

        return Encoding(entry.length_bytes, arrow, read)


def _characters(length: int, null: bytes | None) -> Encoding:
    def read(data: bytes, at: int) -> str | None:
        value = data[at : at + length]
        if len(value) < length:
            raise struct.error(f"{length} characters in {len(value)} bytes")
        return None if null is not None and value[:1] == null else value.split(b"\0", 1)[0].decode("latin-1")

    return Encoding(length, pa.string(), read)


def _null_character(text: str | None) -> bytes:
    """Return a char's null value: NUL, or what the schema gives, as a character or its number."""
    if text is None:
        return b"\0"
    return text.encode("latin-1") if len(text) == 1 else bytes([int(text)])


def _constant(primitive: str, text: str) -> Encoding:
    value: object = text
    if primitive != "char":
        number = _number(primitive, text)
        try:
            struct.pack(f"<{PRIMITIVES[primitive].code}", number)
        except (struct.error, OverflowError):
            raise ValueError(f"{primitive} has no value {text.strip()}, which a constant has") from None
        value = Decimal(number) if primitive == "uint64" else number
    return Encoding(0, PRIMITIVES[primitive].arrow, lambda data, at: value)


def _number(primitive: str, text: str) -> float:
    return float(text) if primitive in REALS else int(text)


def _unchanged(value: Any) -> Any:
    return value


def _optional(null: float) -> Callable[[Any], Any]:
    if null != null:  # a null value of NaN: any NaN is null
        return lambda value: None if value != value else value
    return lambda value: None if value == null else value


def _decimal(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return Decimals, which Arrow's decimals are made of."""

    def read(value: Any) -> Any:
        found = convert(value)
        return None if found is None else Decimal(found)

    return read

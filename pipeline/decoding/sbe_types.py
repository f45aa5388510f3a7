"""Types of an SBE schema in XML, and how their values are read (sbe-encoding.md; FIX SBE 1.0, 2.0 RC3).

Types become Arrow types: numbers as they are (uint64 as decimal), `char` arrays and named enum values as strings, sets
as lists of names, composites as structs. Null values become null; a `char` array is null when its first byte is NUL.
"""

from __future__ import annotations

import math
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa


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
    """The types of one schema, by name."""

    def __init__(self, byte_order: str) -> None:
        self._order = byte_order
        self._types: dict[str, ElementTree.Element] = {}

    def add(self, types: ElementTree.Element) -> None:
        """Take over a `types` element."""
        for entry in types:
            self._types[entry.attrib["name"]] = entry
            if local_name(entry) == "composite":  # types inside a composite may be referred to from outside
                for inner in entry:
                    if local_name(inner) in ("enum", "set", "composite"):
                        self._types.setdefault(inner.attrib["name"], inner)

    def field(self, element: ElementTree.Element) -> Encoding:
        """Return the encoding of a message's field. Raises KeyError and ValueError for what the schema lacks."""
        name, presence = element.attrib["type"], element.get("presence", "required")
        if presence == "constant" and "valueRef" in element.attrib:
            return self._constant_by_reference(name, element.attrib["valueRef"])
        if name in PRIMITIVES:
            return self._primitive(name, 1, presence, element.get("nullValue"))
        return self._of(self._types[name], presence)

    def integers(self, composite: str, *needed: str) -> IntegerRecord:
        """Return the layout of a composite of integers, which has the values `needed`. Raises ValueError."""
        parts: dict[str, tuple[int, struct.Struct]] = {}
        constants: dict[str, int] = {}
        end = 0
        for child, offset, length in self._places(self._types[composite]):
            name, form = child.attrib["name"], self._resolved(child)
            if form.get("presence") == "constant":
                constants[name] = int(form.text or "0")
            elif form.get("primitiveType") not in (None, "char", *REALS):
                parts[name] = offset, struct.Struct(self._order + PRIMITIVES[form.attrib["primitiveType"]].code)
            end = offset + length
        missing = [name for name in needed if name not in parts and name not in constants]
        if missing:
            raise ValueError(f"composite {composite} has no {' and no '.join(missing)}")
        return IntegerRecord(end, parts, constants)

    def var_data(self, composite: str) -> tuple[IntegerRecord, str | None]:
        """Return the length's layout of a composite for var-data, and the character set of its content."""
        content = next(entry for entry in self._types[composite] if entry.attrib["name"] == "varData")
        return self.integers(composite, "length"), self._resolved(content).get("characterEncoding")

    def _places(self, composite: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, int, int]]:
        """Iterate over the parts of a composite, with offset and length; the content of var-data has no length."""
        offset = 0
        for child in composite:
            offset = int(child.get("offset", offset))
            length = self._part(child).length_bytes
            yield child, offset, length
            offset += length

    def _part(self, child: ElementTree.Element) -> Encoding:
        return self._of(self._resolved(child), "required")

    def _resolved(self, child: ElementTree.Element) -> ElementTree.Element:
        """Return a part of a composite, or the type that it refers to."""
        if local_name(child) != "ref":
            return child
        name = child.attrib["type"]
        return ElementTree.Element("type", primitiveType=name) if name in PRIMITIVES else self._types[name]

    def _of(self, element: ElementTree.Element, presence: str) -> Encoding:
        kind = local_name(element)
        if kind == "type":
            return self._type(element, presence)
        if kind == "enum":
            return self._enum(element)
        if kind == "set":
            return self._set(element)
        if kind == "composite":
            return self._composite(element)
        raise ValueError(f"{element.get('name')} is a {kind}, allowed are type, enum, set and composite")

    def _type(self, element: ElementTree.Element, presence: str) -> Encoding:
        presence = element.get("presence", presence)
        primitive, text = element.attrib["primitiveType"], element.text or ""
        if presence != "constant":
            return self._primitive(primitive, int(element.get("length", "1")), presence, element.get("nullValue"))
        if "valueRef" in element.attrib:
            return self._constant_by_reference(primitive, element.attrib["valueRef"])
        return _constant(primitive, text)

    def _constant_by_reference(self, type_name: str, reference: str) -> Encoding:
        """Return the value of a reference such as Side.BUY.

        It is the value's name for a field of an enum, else its number in the field's type.
        """
        enum_name, _, value_name = reference.rpartition(".")
        enum = self._types[enum_name]
        value = next((entry for entry in enum if entry.attrib["name"] == value_name), None)
        if value is None or local_name(enum) != "enum":
            raise ValueError(f"valueRef {reference!r} names no value of an enum")
        given = self._types.get(type_name)
        if type_name == enum_name or (given is not None and local_name(given) == "enum"):
            return Encoding(0, pa.string(), lambda data, at: value_name)
        return _constant(self._primitive_of(type_name), (value.text or "").strip())

    def _primitive(self, name: str, length: int, presence: str, null_text: str | None) -> Encoding:
        primitive = PRIMITIVES[name]
        if name == "char":
            return _characters(length, _null_character(null_text) if presence == "optional" else None)
        null = primitive.null if null_text is None else _number(name, null_text)
        convert = _optional(null) if presence == "optional" else _unchanged
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

    def _enum(self, element: ElementTree.Element) -> Encoding:
        name, null_text = self._encoding_type(element)
        form, texts = struct.Struct(self._order + PRIMITIVES[name].code), [(e.text or "").strip() for e in element]
        null: object
        if name == "char":
            values: list[object] = [text.encode("latin-1") for text in texts]
            null = _null_character(null_text)
        else:
            values = [int(text or "0") for text in texts]
            null = PRIMITIVES[name].null if null_text is None else int(null_text)
        names = dict(zip(values, (entry.attrib["name"] for entry in element), strict=True))

        def read(data: bytes, at: int) -> str | None:
            (value,) = form.unpack_from(data, at)
            return names.get(value, None if value == null else f"unknown({value!r})")

        return Encoding(form.size, pa.string(), read)

    def _set(self, element: ElementTree.Element) -> Encoding:
        form = struct.Struct(self._order + PRIMITIVES[self._encoding_type(element)[0]].code)
        bits = [(int(choice.text or "0"), choice.attrib["name"]) for choice in element]

        def read(data: bytes, at: int) -> list[str]:
            (value,) = form.unpack_from(data, at)
            return [name for bit, name in bits if value >> bit & 1]

        return Encoding(form.size, pa.list_(pa.string()), read)

    def _composite(self, element: ElementTree.Element) -> Encoding:
        parts: list[tuple[str, int, Encoding]] = []
        end = 0
        for child, offset, length in self._places(element):
            parts.append((child.attrib["name"], offset, self._part(child)))
            end = offset + length
        arrow = pa.struct([(name, encoding.arrow) for name, _, encoding in parts])

        def read(data: bytes, at: int) -> dict[str, Any]:
            return {name: encoding.read(data, at + place) for name, place, encoding in parts}

        return Encoding(end, arrow, read)

    def _encoding_type(self, element: ElementTree.Element) -> tuple[str, str | None]:
        """Return the primitive type of an enum or a set, and its own null value if it has one."""
        name = element.attrib["encodingType"]
        null_text = element.get("nullValue")
        if name not in PRIMITIVES:
            null_text = null_text or self._types[name].get("nullValue")
        return self._primitive_of(name), null_text

    def _primitive_of(self, name: str) -> str:
        return name if name in PRIMITIVES else self._types[name].attrib["primitiveType"]


def local_name(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


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
        value = Decimal(text.strip()) if primitive == "uint64" else _number(primitive, text)
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

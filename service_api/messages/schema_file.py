"""An SBE schema in XML as objects: what is in the file and in those that it includes (FIX SBE 1.0, 2.0 RC3).

Both that need a schema read it here: `ordo schema import`, which writes classes, and the decoder of the pipeline.
Nothing is decided about values: null values and constants are the texts of the schema. Types are looked up when they
are needed, so what no message uses may be whatever it likes.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ordo.service_api.messages.fields import PRIMITIVES

LENGTHS = {"char": 1, **{name: one.length_bytes for name, one in PRIMITIVES.items()}}
"""Name of a primitive type -> its bytes."""
INCLUDE_DEPTH_MAX = 8
NESTED_MAX = 32
"""Types within types, and groups within groups."""
LENGTH_MAX = 1 << 24
"""Bytes or values of one part: no message is longer."""
OPTIONAL, CONSTANT = "optional", "constant"
ARRAY_MEANING = "array"
"""The semantic type of an array where its type alone would say a number, or bytes."""
BYTES_MEANING = "bytes"
"""That of a single byte that is bytes."""
ENUM_MEANING = "enumeration"
"""That of an enumeration that looks like SBE's Boolean."""
_TYPES = ("type", "enum", "set", "composite", "ref")


@dataclass(frozen=True)
class SimpleType:
    """A primitive type, or several of it in a row. `text` is the value of a constant, unless `value_ref` names it."""

    name: str
    primitive: str
    length: int = 1
    presence: str = ""
    """"" where the schema leaves it to the field."""
    text: str = ""
    value_ref: str | None = None
    null: str | None = None
    low: str | None = None
    high: str | None = None
    meaning: str = ""
    """SBE's semantic type."""
    time_unit: str = ""
    charset: str | None = None

    @property
    def length_bytes(self) -> int:
        return 0 if self.presence == CONSTANT else self.length * LENGTHS[self.primitive]


@dataclass(frozen=True)
class NamedValues:
    """An enum, or a set of bits: its names with the texts of their values, in the order of the schema."""

    name: str
    is_set: bool
    primitive: str
    null: str | None
    values: tuple[tuple[str, str], ...]
    description: str
    meaning: str = ""
    """SBE's semantic type."""

    @property
    def length_bytes(self) -> int:
        return LENGTHS[self.primitive]


@dataclass(frozen=True)
class Composite:
    """Several values in a row, with names."""

    name: str
    parts: tuple[Part, ...]
    description: str

    @property
    def length_bytes(self) -> int:
        return self.parts[-1].end if self.parts else 0

    def part(self, name: str) -> Part:
        """Return the part of a name. Raises ValueError."""
        for one in self.parts:
            if one.name == name:
                return one
        raise ValueError(f"composite {self.name} has no {name}")


Type = SimpleType | NamedValues | Composite


class Part(NamedTuple):
    """A value of a composite, at an offset in it. `is_placed`: the schema gives the offset."""

    name: str
    offset: int
    is_placed: bool
    type: Type
    presence: str = ""
    """What the composite says of the part, unless its type says it."""

    @property
    def end(self) -> int:
        return self.offset + self.type.length_bytes


class Field(NamedTuple):
    """A field of a block. `offset` is None where it follows what is before it; `presence` is what the field says."""

    name: str
    since: int
    offset: int | None
    presence: str
    value_ref: str | None
    type: Type


class Data(NamedTuple):
    """A field of variable length: a composite of a length and what has it."""

    name: str
    since: int
    composite: Composite


class Group(NamedTuple):
    """Repeated blocks behind a dimension, which says how many there are."""

    block: Block
    dimension: Composite


@dataclass(frozen=True)
class Block:
    """A message, or the rows of a group. `block_length` is 0 where the schema does not give it."""

    name: str
    number: int
    since: int
    block_length: int
    description: str
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    data: tuple[Data, ...]

    @property
    def newest(self) -> int:
        """The newest version that brought a part of it."""
        parts = [one.since for one in self.fields] + [one.since for one in self.data]
        return max([self.since, *parts, *(one.block.newest for one in self.groups)])


@contextmanager
def telling(path: Path, kind: Callable[[str], Exception]) -> Iterator[None]:
    """Turn what a schema lacks into one line that names the file."""
    try:
        yield
    except KeyError as error:
        raise kind(f"{path} cannot be read as an SBE schema: there is no {error}") from error
    except (ElementTree.ParseError, OSError, ValueError) as error:
        raise kind(f"{path} cannot be read as an SBE schema: {error}") from error


class SchemaFile:
    """One schema. Raises KeyError, ValueError, OSError and ParseError for what it lacks: `telling` words them."""

    def __init__(self, path: Path, root: ElementTree.Element | None = None) -> None:
        """Read a file, or `root`, which was parsed already."""
        self._root = _parse(path) if root is None else root
        if _kind(self._root) != "messageSchema":
            raise ValueError("the root element is not messageSchema")
        self.package = self._root.get("package") or path.stem
        self.is_big_endian = self._root.get("byteOrder") == "bigEndian"
        self.schema_id = int(self._root.attrib["id"])
        self.version = int(self._root.get("version", "0"))
        self._elements: dict[str, ElementTree.Element] = {}
        self._types: dict[str, Type] = {}
        self._made: dict[ElementTree.Element, Type] = {}
        self._depth = 0
        inner: dict[str, ElementTree.Element] = {}
        for types in _types_in(self._root, path, 0):
            for entry in types:
                self._elements[entry.attrib["name"]] = entry
                for part in entry if _kind(entry) == "composite" else ():
                    if _kind(part) in ("enum", "set", "composite"):  # may be referred to from outside
                        inner.setdefault(part.attrib["name"], part)
        self._elements = {**inner, **self._elements}

    @cached_property
    def messages(self) -> tuple[Block, ...]:
        """The messages, in the order of the file."""
        return tuple(self._block(element) for element in self._root if _kind(element) == "message")

    @property
    def header(self) -> Composite:
        """What every message begins with."""
        return self._composite_called(self._root.get("headerType", "messageHeader"))

    def type(self, name: str) -> Type:
        """Return the type of a name. Raises KeyError."""
        if name not in self._types:
            self._types[name] = self._type_of(self._elements[name])
        return self._types[name]

    def referred(self, reference: str) -> tuple[NamedValues, str, str]:
        """Return what a reference such as Side.BUY names: the enum, the value's name and its text."""
        enum_name, _, value_name = reference.rpartition(".")
        enum = self.type(enum_name)
        if isinstance(enum, NamedValues) and not enum.is_set:
            for name, text in enum.values:
                if name == value_name:
                    return enum, name, text
        raise ValueError(f"valueRef {reference!r} names no value of an enum")

    def _block(self, element: ElementTree.Element, depth: int = 0) -> Block:
        if depth > NESTED_MAX:
            raise ValueError(f"there are more than {NESTED_MAX} groups within one another")
        fields: list[Field] = []
        groups: list[Group] = []
        data: list[Data] = []
        for child in element:
            kind, since = _kind(child), int(child.get("sinceVersion", "0"))
            if kind == "field":
                fields.append(self._field(child, since))
            elif kind == "group":
                dimension = self._composite_called(child.get("dimensionType", "groupSizeEncoding"))
                groups.append(Group(self._block(child, depth + 1), dimension))
            elif kind == "data":
                data.append(Data(child.attrib["name"], since, self._composite_called(child.attrib["type"])))
        return Block(
            element.attrib["name"],
            int(element.attrib["id"]) if depth == 0 else 0,
            int(element.get("sinceVersion", "0")),
            _count(element, "blockLength", 0),
            element.get("description") or "",
            tuple(fields),
            tuple(groups),
            tuple(data),
        )

    def _field(self, element: ElementTree.Element, since: int) -> Field:
        name = element.attrib["type"]
        return Field(
            element.attrib["name"],
            since,
            _count(element, "offset", 0) if "offset" in element.attrib else None,
            element.get("presence", "required"),
            element.get("valueRef"),
            _simple(element, name) if name in LENGTHS else self.type(name),
        )

    def _composite_called(self, name: str) -> Composite:
        found = self.type(name)
        if not isinstance(found, Composite):
            raise ValueError(f"{name} is no composite")
        return found

    def _type_of(self, element: ElementTree.Element) -> Type:
        """Return the type that an element is: the same object each time."""
        if element not in self._made:
            self._made[element] = self._read_type(element)
        return self._made[element]

    def _read_type(self, element: ElementTree.Element) -> Type:
        kind, self._depth = _kind(element), self._depth + 1
        try:
            if self._depth > NESTED_MAX:
                raise ValueError(f"{element.get('name')} has itself as a part, or is one of over {NESTED_MAX} in a row")
            if kind == "type":
                return _simple(element, element.attrib["primitiveType"])
            if kind in ("enum", "set"):
                return self._named_values(element, kind == "set")
            if kind == "composite":
                return self._composite(element)
        finally:
            self._depth -= 1
        raise ValueError(f"{element.get('name')} is a {kind}: allowed are type, enum, set and composite")

    def _named_values(self, element: ElementTree.Element, is_set: bool) -> NamedValues:
        primitive, null = element.attrib["encodingType"], element.get("nullValue")
        if primitive not in LENGTHS:
            encoding = self.type(primitive)
            if not isinstance(encoding, SimpleType):
                raise ValueError(f"{element.attrib['name']} has the encoding {primitive}, which is no primitive type")
            primitive, null = encoding.primitive, null or encoding.null
        kind = "choice" if is_set else "validValue"
        text_of = _character if primitive == "char" else _stripped
        values = tuple((one.attrib["name"], text_of(one.text or "")) for one in element if _kind(one) == kind)
        if is_set:
            _check_bits(element.attrib["name"], primitive, values)
        name, description = element.attrib["name"], element.get("description") or ""
        return NamedValues(name, is_set, primitive, null, values, description, element.get("semanticType", ""))

    def _composite(self, element: ElementTree.Element) -> Composite:
        parts: list[Part] = []
        end = 0
        for child in element:
            if _kind(child) in _TYPES:
                offset = _count(child, "offset", end)
                name, presence = child.attrib["name"], child.get("presence", "")
                parts.append(Part(name, offset, "offset" in child.attrib, self._part_type(child), presence))
                end = parts[-1].end
        return Composite(element.attrib["name"], tuple(parts), element.get("description") or "")

    def _part_type(self, element: ElementTree.Element) -> Type:
        if _kind(element) != "ref":
            return self._type_of(element)
        name = element.attrib["type"]
        return SimpleType(element.attrib["name"], name) if name in LENGTHS else self.type(name)


def _simple(element: ElementTree.Element, primitive: str) -> SimpleType:
    """Return what a type says of itself, or a field whose type is primitive."""
    if primitive not in LENGTHS:
        raise KeyError(primitive)
    is_type = _kind(element) == "type"
    return SimpleType(
        element.attrib["name"],
        primitive,
        _count(element, "length", 1) if is_type else 1,
        element.get("presence", ""),
        element.text or "",
        element.get("valueRef"),
        element.get("nullValue"),
        element.get("minValue"),
        element.get("maxValue"),
        element.get("semanticType", ""),
        element.get("timeUnit", ""),
        element.get("characterEncoding"),
    )


def _stripped(text: str) -> str:
    return text.strip()


def _character(text: str) -> str:
    """Return the character of an enum's value: itself, or the number of one that XML does not hold, in two digits."""
    found = text if len(text) == 1 else text.strip()
    is_number = len(found) == 2 and found.isascii() and found.isdigit()
    return chr(int(found)) if is_number and int(found) < ord(" ") else found


def _check_bits(name: str, primitive: str, values: tuple[tuple[str, str], ...]) -> None:
    """Raise ValueError for a set that has bits which its encoding has not."""
    if primitive in ("char", "float", "double"):
        raise ValueError(f"the set {name} has the encoding {primitive}: allowed are integers")
    end = 8 * LENGTHS[primitive]
    for choice, text in values:
        if not 0 <= int(text or "0") < end:
            raise ValueError(f"{name}.{choice} is bit {int(text)}: allowed are 0 to {end - 1} of {primitive}")


def _count(element: ElementTree.Element, name: str, default: int) -> int:
    """Return a length or an offset that the schema gives. Raises ValueError for one that no message has."""
    found = int(element.get(name, default))
    if not 0 <= found <= LENGTH_MAX:
        raise ValueError(f"{element.get('name')} has the {name} {found}: allowed are 0 to {LENGTH_MAX}")
    return found


def _parse(path: Path) -> ElementTree.Element:
    """Return the root of a file. Raises ParseError, OSError, ValueError."""
    try:
        return ElementTree.parse(path).getroot()
    except LookupError as error:  # its first line names it
        raise ValueError(f"{error}; write the file in UTF-8") from error


def _types_in(root: ElementTree.Element, path: Path, depth: int) -> Iterator[ElementTree.Element]:
    """Iterate over the `types` elements of a schema and of the files of its folder that it includes."""
    for child in root:
        if _kind(child) == "types":
            yield child
        elif _kind(child) == "include":
            if depth > INCLUDE_DEPTH_MAX:
                raise ValueError("files include one another")
            included = path.parent / child.attrib["href"]
            tree = _parse(included)
            yield from [tree] if _kind(tree) == "types" else _types_in(tree, included, depth + 1)


def _kind(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]

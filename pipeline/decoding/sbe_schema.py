"""Messages by an SBE schema in XML: types, field layout and decoding (sbe-encoding.md, FIX SBE 1.0).

Types become Arrow types: numbers as they are (uint64 as decimal), `char` arrays and named enum values as strings, sets
as lists of names, composites as structs, groups as lists of structs, var-data as string or binary. Null values become
null.
"""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from ordo.pipeline.decoding.errors import PipelineError

_PRIMITIVES: dict[str, tuple[str, int, pa.DataType, Any]] = {
    "char": ("c", 1, pa.string(), b"\0"),
    "int8": ("b", 1, pa.int8(), -(1 << 7)),
    "uint8": ("B", 1, pa.int16(), (1 << 8) - 1),
    "int16": ("h", 2, pa.int16(), -(1 << 15)),
    "uint16": ("H", 2, pa.int32(), (1 << 16) - 1),
    "int32": ("i", 4, pa.int32(), -(1 << 31)),
    "uint32": ("I", 4, pa.int64(), (1 << 32) - 1),
    "int64": ("q", 8, pa.int64(), -(1 << 63)),
    "uint64": ("Q", 8, pa.decimal128(20, 0), (1 << 64) - 1),
    "float": ("f", 4, pa.float32(), None),
    "double": ("d", 8, pa.float64(), None),
}

Reader = Callable[[bytes, int], Any]


@dataclass(frozen=True)
class Encoding:
    """How one field is laid out: its length, its Arrow type, and how to read it at an offset."""

    length_bytes: int
    arrow: pa.DataType
    read: Reader


@dataclass(frozen=True)
class Field:
    """A field of a block. `since` is the schema version that brought it."""

    name: str
    offset: int
    since: int
    encoding: Encoding


@dataclass(frozen=True)
class VarData:
    """A field of variable length: a length and that many bytes."""

    name: str
    since: int
    length: struct.Struct
    charset: str | None


@dataclass(frozen=True)
class Block:
    """A message's or a group's fields, then its groups, then its var-data."""

    name: str
    since: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    data: tuple[VarData, ...]

    def arrow(self) -> pa.DataType:
        parts = [(entry.name, entry.encoding.arrow) for entry in self.fields]
        parts += [(group.block.name, pa.list_(group.block.arrow())) for group in self.groups]
        parts += [(entry.name, pa.string() if entry.charset else pa.binary()) for entry in self.data]
        return pa.struct(parts)

    def decode(self, data: bytes, offset: int, block_length: int, version: int) -> tuple[dict[str, Any], int]:
        """Return the values, and the offset behind them.

        Rules of acting version and block length: sbe-encoding.md §7.
        """
        values: dict[str, Any] = {}
        for entry in self.fields:
            there = entry.since <= version and entry.offset + entry.encoding.length_bytes <= block_length
            values[entry.name] = entry.encoding.read(data, offset + entry.offset) if there else None
        offset += block_length
        for group in self.groups:
            values[group.block.name], offset = group.decode(data, offset, version)
        for part in self.data:
            values[part.name], offset = _var_data(part, data, offset, version)
        return values, offset


@dataclass(frozen=True)
class Group:
    """Repeated blocks behind a header of block length and count."""

    block: Block
    header: struct.Struct

    def decode(self, data: bytes, offset: int, version: int) -> tuple[list[dict[str, Any]] | None, int]:
        if self.block.since > version:
            return None, offset
        block_length, count = self.header.unpack_from(data, offset)
        offset += self.header.size
        rows = []
        for _ in range(count):
            row, offset = self.block.decode(data, offset, block_length, version)
            rows.append(row)
        return rows, offset


def _var_data(part: VarData, data: bytes, offset: int, version: int) -> tuple[str | bytes | None, int]:
    if part.since > version:
        return None, offset
    (length,) = part.length.unpack_from(data, offset)
    offset += part.length.size
    if offset + length > len(data):
        raise ValueError(f"{part.name} of {length} bytes reaches beyond the message")
    value = data[offset : offset + length]
    return (value.decode(part.charset, "replace") if part.charset else value), offset + length


@dataclass
class SbeSchema:
    """One schema. `messages` by template id; `decode` reads a message with its header."""

    schema_id: int
    version: int
    messages: dict[int, Block]
    header: struct.Struct
    types: dict[str, ElementTree.Element] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str) -> SbeSchema:
        """Raise PipelineError when the file is no SBE schema."""
        try:
            return _Loader(Path(path)).load()
        except (ElementTree.ParseError, OSError, KeyError, ValueError) as error:
            raise PipelineError(f"{path} cannot be read as an SBE schema: {error!r}") from error

    def columns(self) -> dict[str, pa.DataType]:
        """Return the Arrow type of each message, by its name."""
        return {block.name: block.arrow() for block in self.messages.values()}

    def decode(self, data: bytes) -> tuple[str, int, dict[str, Any]]:
        """(message name, version it was written with, values). Raises ValueError for what the schema does not know."""
        if len(data) < self.header.size:
            raise ValueError(f"{len(data)} bytes are no message header")
        block_length, template_id, schema_id, version = self.header.unpack_from(data)
        if schema_id != self.schema_id:
            raise ValueError(f"schema id {schema_id}, expected {self.schema_id}")
        block = self.messages.get(template_id)
        if block is None:
            raise ValueError(f"unknown template id {template_id} of version {version}")
        if self.header.size + block_length > len(data):
            raise ValueError(f"block of {block_length} bytes in a message of {len(data)}")
        try:
            values, _ = block.decode(data, self.header.size, block_length, version)
        except struct.error as error:
            raise ValueError(f"cut short: {error}") from error
        return block.name, version, values


class _Loader:
    """Builds a schema from its XML; includes are taken from the same folder."""

    def __init__(self, path: Path) -> None:
        self._root = ElementTree.parse(path).getroot()
        self._order = ">" if self._root.get("byteOrder") == "bigEndian" else "<"
        self._types: dict[str, ElementTree.Element] = {}
        self._collect(self._root, path)

    def _collect(self, root: ElementTree.Element, path: Path) -> None:
        for child in root:
            name = _local(child)
            if name == "include":
                included = path.parent / child.attrib["href"]
                tree = ElementTree.parse(included).getroot()
                self._collect_types(tree) if _local(tree) == "types" else self._collect(tree, included)
            elif name == "types":
                self._collect_types(child)

    def _collect_types(self, types: ElementTree.Element) -> None:
        for entry in types:
            self._types[entry.attrib["name"]] = entry
            if _local(entry) == "composite":  # types inside a composite may be referred to from outside
                for inner in entry:
                    if _local(inner) in ("enum", "set", "composite"):
                        self._types.setdefault(inner.attrib["name"], inner)

    def load(self) -> SbeSchema:
        if _local(self._root) != "messageSchema":
            raise ValueError("the root element is not messageSchema")
        messages = {
            int(element.attrib["id"]): self._block(element) for element in self._root if _local(element) == "message"
        }
        header = self._integers(self._root.get("headerType", "messageHeader"))
        return SbeSchema(int(self._root.attrib["id"]), int(self._root.get("version", "0")), messages, header)

    def _integers(self, composite: str) -> struct.Struct:
        """Return a composite of plain integers, such as the message header and the group dimensions."""
        parts = [_PRIMITIVES[entry.attrib["primitiveType"]][0] for entry in self._types[composite]]
        return struct.Struct(self._order + "".join(parts))

    def _block(self, element: ElementTree.Element) -> Block:
        fields: list[Field] = []
        groups: list[Group] = []
        data: list[VarData] = []
        offset = 0
        for child in element:
            since, name = int(child.get("sinceVersion", "0")), child.get("name", "")
            if _local(child) == "field":
                encoding = self._field(child)
                offset = int(child.get("offset", offset))
                fields.append(Field(name, offset, since, encoding))
                offset += encoding.length_bytes
            elif _local(child) == "group":
                dimension = self._integers(child.get("dimensionType", "groupSizeEncoding"))
                groups.append(Group(self._block(child), dimension))
            elif _local(child) == "data":
                length, content = list(self._types[child.attrib["type"]])
                form = struct.Struct(self._order + _PRIMITIVES[length.attrib["primitiveType"]][0])
                data.append(VarData(name, since, form, content.get("characterEncoding")))
        since = int(element.get("sinceVersion", "0"))
        return Block(element.attrib["name"], since, tuple(fields), tuple(groups), tuple(data))

    def _field(self, element: ElementTree.Element) -> Encoding:
        if element.get("presence") == "constant" and "valueRef" in element.attrib:
            return _constant(element.attrib["valueRef"].rpartition(".")[2], pa.string())
        return self._encoding(element.attrib["type"], element.get("presence", "required"))

    def _encoding(self, name: str, presence: str = "required") -> Encoding:
        if name in _PRIMITIVES:
            return self._primitive(name, 1, presence, None)
        return self._of(self._types[name], presence)

    def _of(self, element: ElementTree.Element, presence: str) -> Encoding:
        kind = _local(element)
        if kind == "type":
            presence = element.get("presence", presence)
            primitive, length = element.attrib["primitiveType"], int(element.get("length", "1"))
            if presence == "constant":
                text = element.text or ""
                return (
                    _constant(text, pa.string())
                    if primitive == "char"
                    else _constant(
                        float(text) if primitive in ("float", "double") else int(text), _PRIMITIVES[primitive][2]
                    )
                )
            return self._primitive(primitive, length, presence, element.get("nullValue"))
        return {"enum": self._enum, "set": self._set, "composite": self._composite}[kind](element)

    def _primitive(self, primitive: str, length: int, presence: str, null_text: str | None) -> Encoding:
        code, size, arrow, null = _PRIMITIVES[primitive]
        if primitive == "char":
            return Encoding(length, pa.string(), lambda data, at: _text(data[at : at + length]))
        form = struct.Struct(f"{self._order}{length}{code}")
        if null_text is not None:
            null = float(null_text) if primitive in ("float", "double") else int(null_text)
        absent = null if presence == "optional" else None

        def convert(value: Any) -> Any:
            if value == absent or (absent is None and presence == "optional" and value != value):
                return None
            return Decimal(value) if primitive == "uint64" else value

        if length == 1:
            return Encoding(size, arrow, lambda data, at: convert(form.unpack_from(data, at)[0]))
        return Encoding(
            size * length, pa.list_(arrow), lambda data, at: [convert(v) for v in form.unpack_from(data, at)]
        )

    def _enum(self, element: ElementTree.Element) -> Encoding:
        primitive = self._primitive_of(element.attrib["encodingType"])
        code, size, _, null = _PRIMITIVES[primitive]
        form = struct.Struct(self._order + code)
        names = {
            ((value.text or "").strip().encode() if primitive == "char" else int(value.text or "0")): value.attrib[
                "name"
            ]
            for value in element
        }

        def read(data: bytes, at: int) -> str | None:
            (value,) = form.unpack_from(data, at)
            if value in names:
                return names[value]
            return None if value == null else f"unknown({value!r})"

        return Encoding(size, pa.string(), read)

    def _set(self, element: ElementTree.Element) -> Encoding:
        code, size, _, _ = _PRIMITIVES[self._primitive_of(element.attrib["encodingType"])]
        form = struct.Struct(self._order + code)
        bits = [(int(choice.text or "0"), choice.attrib["name"]) for choice in element]

        def read(data: bytes, at: int) -> list[str]:
            (value,) = form.unpack_from(data, at)
            return [name for bit, name in bits if value >> bit & 1]

        return Encoding(size, pa.list_(pa.string()), read)

    def _composite(self, element: ElementTree.Element) -> Encoding:
        parts: list[tuple[str, int, Encoding]] = []
        offset = 0
        for child in element:
            encoding = self._encoding(child.attrib["type"]) if _local(child) == "ref" else self._of(child, "required")
            offset = int(child.get("offset", offset))
            parts.append((child.attrib["name"], offset, encoding))
            offset += encoding.length_bytes
        arrow = pa.struct([(name, encoding.arrow) for name, _, encoding in parts])

        def read(data: bytes, at: int) -> dict[str, Any]:
            return {name: encoding.read(data, at + place) for name, place, encoding in parts}

        return Encoding(offset, arrow, read)

    def _primitive_of(self, name: str) -> str:
        return name if name in _PRIMITIVES else self._types[name].attrib["primitiveType"]


def _constant(value: Any, arrow: pa.DataType) -> Encoding:
    return Encoding(0, arrow, lambda data, at: value)


def _text(value: bytes) -> str:
    return value.split(b"\0", 1)[0].decode("latin-1")


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]

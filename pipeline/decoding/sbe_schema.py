"""Messages by an SBE schema: layout and decoding (sbe-encoding.md; FIX SBE 1.0, 2.0 RC3).

A message becomes a struct: fields by their types (sbe_types.py), groups as lists of structs, var-data as string or
binary. Header, group dimensions and lengths are read as the schema lays them out, by the names that the standard gives
their parts. No length or count of a message is trusted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.sbe_types import Encoding, IntegerRecord, TypeTable
from ordo.service_api.messages import schema_file
from ordo.service_api.messages.schema_file import SchemaFile, telling

VERSION_MAX = (1 << 31) - 1
"""Headers may have more bytes for a version than the column of versions, which is an int32."""


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
    length: IntegerRecord
    charset: str | None

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of the values."""
        return pa.string() if self.charset else pa.binary()


@dataclass(frozen=True)
class Block:
    """A message's or a group's fields, then its groups, then its var-data."""

    name: str
    since: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    data: tuple[VarData, ...]

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of one message or row."""
        parts = [(entry.name, entry.encoding.arrow) for entry in self.fields]
        parts += [(group.block.name, pa.list_(group.block.arrow())) for group in self.groups]
        parts += [(entry.name, entry.arrow()) for entry in self.data]
        return pa.struct(parts)


@dataclass(frozen=True)
class Group:
    """Repeated blocks that follow a dimension: block length and count."""

    block: Block
    dimension: IntegerRecord


class _Reading:
    """One message while it is decoded: its bytes, the version it was written with, and how far it is read."""

    def __init__(self, data: bytes, offset: int, version: int) -> None:
        self._data = data
        self._offset = offset
        self._version = version
        self._empty_rows_left = len(
            data
        )  # rows without bytes: no more than bytes, for a count alone may say any number

    def block(self, block: Block, length: int) -> dict[str, Any]:
        """Read a block of `length` bytes, its groups and var-data (acting version and length: sbe-encoding.md §7)."""
        start, self._offset = self._offset, self._take(length, block.name)
        values: dict[str, Any] = {}
        for field in block.fields:
            there = field.since <= self._version and field.offset + field.encoding.length_bytes <= length
            values[field.name] = field.encoding.read(self._data, start + field.offset) if there else None
        for group in block.groups:
            values[group.block.name] = self._group(group)
        for part in block.data:
            values[part.name] = self._var_data(part)
        return values

    def _take(self, length: int, name: str) -> int:
        """Return the offset after `length` bytes. Raises ValueError for less than none, and beyond the message."""
        if length < 0:
            raise ValueError(f"{name} has {length} bytes, and none may have fewer than 0")
        if self._offset + length > len(self._data):
            raise ValueError(f"{name} of {length} bytes reaches beyond the message")
        return self._offset + length

    def _group(self, group: Group) -> list[dict[str, Any]] | None:
        if group.block.since > self._version:
            return None
        length = group.dimension.value("blockLength", self._data, self._offset)
        count = group.dimension.value("numInGroup", self._data, self._offset)
        self._offset = self._take(group.dimension.length_bytes, group.block.name)
        return [self._row(group.block, length) for _ in range(count)]

    def _row(self, block: Block, length: int) -> dict[str, Any]:
        start = self._offset
        row = self.block(block, length)
        if self._offset == start:
            self._empty_rows_left -= 1
            if self._empty_rows_left < 0:
                raise ValueError(f"{block.name} has over {len(self._data)} rows without bytes")
        return row

    def _var_data(self, part: VarData) -> str | bytes | None:
        if part.since > self._version:
            return None
        length = part.length.value("length", self._data, self._offset)
        start = self._take(part.length.length_bytes, part.name)
        self._offset = start
        self._offset = self._take(length, part.name)
        value = self._data[start : self._offset]
        return _text(value, part.charset) if part.charset else value


def _text(value: bytes, charset: str) -> str:
    """Return text that Arrow takes: some character sets, as UTF-7, give halves of characters, which no UTF-8 has."""
    text = value.decode(charset, "replace")
    return text if charset == "utf-8" else text.encode("utf-8", "replace").decode()


@dataclass
class SbeSchema:
    """One schema. `messages` by template id; `decode` reads a message with its header."""

    schema_id: int
    version: int
    messages: dict[int, Block]
    header: IntegerRecord

    @classmethod
    def load(cls, path: str) -> SbeSchema:
        """Read a schema file, and the files it includes. Raises PipelineError when it is no SBE schema."""
        with telling(Path(path), PipelineError):
            return _schema_of(SchemaFile(Path(path)))

    def columns(self) -> dict[str, pa.DataType]:
        """Return the Arrow type of each message, by its name."""
        return {block.name: block.arrow() for block in self.messages.values()}

    def decode(self, data: bytes) -> tuple[str, int, dict[str, Any]]:
        """(message name, version it was written with, values). Raises ValueError for what the schema does not know."""
        if len(data) < self.header.length_bytes:
            raise ValueError(f"{len(data)} bytes are no message header")
        try:
            block_length, template_id, schema_id, version = (
                self.header.value(name, data, 0) for name in ("blockLength", "templateId", "schemaId", "version")
            )
            if schema_id != self.schema_id:
                raise ValueError(f"schema id {schema_id}, expected {self.schema_id}")
            if not 0 <= version <= VERSION_MAX:
                raise ValueError(f"version {version}: from 0 to {VERSION_MAX} are known")
            block = self.messages.get(template_id)
            if block is None:
                raise ValueError(f"unknown template id {template_id} of version {version}")
            return block.name, version, _Reading(data, self.header.length_bytes, version).block(block, block_length)
        except struct.error as error:
            raise ValueError(f"cut short: {error}") from error


def _schema_of(file: SchemaFile) -> SbeSchema:
    table = TypeTable(file)
    messages = {message.number: _block_of(message, table) for message in file.messages}
    header = table.integers(file.header, "blockLength", "templateId", "schemaId", "version")
    return SbeSchema(file.schema_id, file.version, messages, header)


def _block_of(block: schema_file.Block, table: TypeTable) -> Block:
    fields: list[Field] = []
    end = 0
    for field in block.fields:
        encoding, offset = table.field(field), end if field.offset is None else field.offset
        fields.append(Field(field.name, offset, field.since, encoding))
        end = offset + encoding.length_bytes
    groups = [
        Group(_block_of(group.block, table), table.integers(group.dimension, "blockLength", "numInGroup"))
        for group in block.groups
    ]
    data = [VarData(part.name, part.since, *table.var_data(part.composite)) for part in block.data]
    return Block(block.name, block.since, tuple(fields), tuple(groups), tuple(data))

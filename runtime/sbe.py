"""Simple Binary Encoding from tables (sbe-encoding.md): little endian, packed root block, groups, var-data.

A `Message` is made from its table once and then encodes keyword arguments and decodes buffers:

    PING = Message("Ping", 106, 101, 14, fields=[("control_session_id", "i64", 0)])
    PING.encode(control_session_id=5)
    PING.decode(buffer).control_session_id

Fields are `(name, type)` or `(name, type, since version)`; the types `pad2` and `pad4` are filler where a schema gives
explicit offsets. Decoders trust no length: whatever a buffer holds, `decode`
returns values or raises DecodeError.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from ordo.runtime.errors import DecodeError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    RecordT = TypeVar("RecordT", covariant=True, default=Any)
else:
    from typing import TypeVar

    RecordT = TypeVar("RecordT", covariant=True)

__all__ = ["ASCII", "BYTES", "HEADER_LENGTH", "DecodeError", "Header", "Message", "NULL_VALUES", "read_header"]

HEADER_LENGTH = 8
GROUP_HEADER_LENGTH = 4
VAR_DATA_LENGTH_MAX = 1073741824
ASCII = "ascii"
BYTES = "bytes"

_HEADER = struct.Struct("<HHHH")
_GROUP_HEADER = struct.Struct("<HH")
_LENGTH = struct.Struct("<I")
_FORMATS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
_ALIASES = {
    "bool": "i32",
    "time_t": "i64",
    "version_t": "i32",
    "capacity_t": "i32",
    "length_t": "i32",
    "archiveId_t": "i64",
}
_FILLERS = {"pad2": "2x", "pad4": "4x"}
_FORMATS.update({alias: _FORMATS[of] for alias, of in _ALIASES.items()})
_LAYOUTS = {kind: struct.Struct("<" + form) for kind, form in _FORMATS.items()}

NULL_VALUES: dict[str, int] = {
    "i8": -(2**7),
    "u8": 2**8 - 1,
    "i16": -(2**15),
    "u16": 2**16 - 1,
    "i32": -(2**31),
    "u32": 2**32 - 1,
    "i64": -(2**63),
    "u64": 2**64 - 1,
    "bool": -(2**31),
    "time_t": -(2**63),
    "version_t": 0,
    "capacity_t": 0,
    "length_t": 0,
    "archiveId_t": -1,
}
"""What a field reads as when the encoder's version does not have it (sbe-encoding.md §4)."""

Buffer = bytes | bytearray | memoryview
Column = tuple[str, str] | tuple[str, str, int]
GroupTable = tuple[str, Sequence[Column]] | tuple[str, Sequence[Column], Sequence[Column]]


class Header(NamedTuple):
    """The standard message header, 8 bytes."""

    block_length: int
    template_id: int
    schema_id: int
    version: int


def read_header(buffer: Buffer, offset: int = 0) -> Header:
    """Return the header at `offset`. Raises DecodeError when the buffer is too short."""
    return Header(*_unpack_header(buffer, offset))


def _unpack_header(buffer: Buffer, offset: int) -> tuple[int, int, int, int]:
    try:
        return _HEADER.unpack_from(buffer, offset)
    except struct.error:
        raise DecodeError(f"message header is cut: length_bytes={len(buffer) - offset}, at least 8") from None


def _column(column: Column, types: Iterable[str]) -> tuple[str, str, int]:
    name, kind, since = column if len(column) == 3 else (*column, 0)
    if kind not in types:
        raise ValueError(f"field {name}: type {kind!r}, allowed {', '.join(sorted(types))}")
    return name, kind, since


class _Field(NamedTuple):
    name: str
    since: int
    null: int
    offset: int
    layout: struct.Struct


class _Block:
    """A fixed part of a message.

    The current version is one struct; older versions and shorter blocks are read field by field.
    """

    def __init__(self, fields: Sequence[Column], block_length: int | None) -> None:
        self.fields: list[_Field] = []
        form, offset = "<", 0
        for column in fields:
            if column[1] in _FILLERS:
                form += _FILLERS[column[1]]
                offset += struct.calcsize(_FILLERS[column[1]])
                continue
            name, kind, since = _column(column, _FORMATS)
            self.fields.append(_Field(name, since, NULL_VALUES[kind], offset, _LAYOUTS[kind]))
            form += _FORMATS[kind]
            offset += _LAYOUTS[kind].size
        self.names = [field.name for field in self.fields]
        self._struct = struct.Struct(form)
        self.length = self._struct.size if block_length is None else block_length
        self._padding = bytes(self.length - self._struct.size)
        self._since_max = max((field.since for field in self.fields), default=0)

    def types(self) -> dict[str, type]:
        return dict.fromkeys(self.names, int)

    def pack(self, values: Mapping[str, Any]) -> bytes:
        row = [values.get(field.name, field.null) for field in self.fields]
        try:
            return self._struct.pack(*row) + self._padding
        except struct.error as error:
            given = dict(zip(self.names, row, strict=True))
            raise ValueError(f"values do not fit their types: {given}: {error}") from None

    def unpack(self, view: memoryview, offset: int, acting_length: int, acting_version: int) -> list[Any]:
        """Return the fields of a block of `acting_length` bytes that is known to be inside `view`."""
        if acting_length >= self._struct.size and acting_version >= self._since_max:
            return list(self._struct.unpack_from(view, offset))
        values: list[Any] = []
        for field in self.fields:
            if field.since > acting_version:
                values.append(field.null)
            elif field.offset + field.layout.size > acting_length:
                raise DecodeError(
                    f"block is too short for {field.name}: block_length={acting_length} version={acting_version}"
                )
            else:
                values.append(field.layout.unpack_from(view, offset + field.offset)[0])
        return values


class _VarData:
    """The var-data fields of a message or a group entry, in order."""

    def __init__(self, data: Sequence[Column]) -> None:
        self.columns = [_column(column, (ASCII, BYTES)) for column in data]
        self.names = [name for name, _, _ in self.columns]

    def types(self) -> dict[str, type]:
        return {name: str if kind == ASCII else bytes for name, kind, _ in self.columns}

    def pack(self, values: Mapping[str, Any], parts: list[bytes]) -> None:
        for name, kind, _ in self.columns:
            value = values.get(name)
            text = b"" if value is None else value.encode("ascii") if isinstance(value, str) else bytes(value)
            if kind == ASCII and not text.isascii():
                raise ValueError(f"field {name}: not ASCII: {value!r}")
            if len(text) > VAR_DATA_LENGTH_MAX:
                raise ValueError(f"field {name}: length_bytes={len(text)}, at most {VAR_DATA_LENGTH_MAX}")
            parts += (_LENGTH.pack(len(text)), text)

    def unpack(self, view: memoryview, offset: int, acting_version: int, values: list[Any]) -> int:
        """Append the values that are read at an offset, and return the offset after them."""
        for name, kind, since in self.columns:
            if since > acting_version:
                values.append("" if kind == ASCII else b"")
                continue
            if offset + 4 > len(view):
                raise DecodeError(f"length of {name} is cut: offset={offset} length_bytes={len(view)}")
            length = _LENGTH.unpack_from(view, offset)[0]
            offset += 4
            if length > len(view) - offset:
                raise DecodeError(f"{name} is cut: needed_bytes={length} left_bytes={len(view) - offset}")
            raw = bytes(view[offset : offset + length])
            if kind == ASCII and not raw.isascii():
                raise DecodeError(f"{name} is not ASCII: {raw[:64]!r}")
            values.append(raw.decode("ascii") if kind == ASCII else raw)
            offset += length
        return offset


class _Group:
    """A repeating group: entries of a fixed part and var-data of their own."""

    def __init__(self, table: GroupTable) -> None:
        self.name = table[0]
        self.block = _Block(table[1], None)
        self.data = _VarData(table[2] if len(table) == 3 else ())
        self._allowed = frozenset([*self.block.names, *self.data.names])

    @cached_property
    def entry_type(self) -> Any:
        return namedtuple(self.name, [*self.block.names, *self.data.names])

    def pack(self, entries: Sequence[Any], parts: list[bytes]) -> None:
        if len(entries) > 65534:
            raise ValueError(f"group {self.name}: {len(entries)} entries, at most 65534")
        parts.append(_GROUP_HEADER.pack(self.block.length, len(entries)))
        for entry in entries:
            values = entry if isinstance(entry, Mapping) else entry._asdict()
            _refuse_unknown(self.name, values, self._allowed)
            parts.append(self.block.pack(values))
            self.data.pack(values, parts)

    def unpack(self, view: memoryview, offset: int, acting_version: int) -> tuple[list[Any], int]:
        if offset + GROUP_HEADER_LENGTH > len(view):
            raise DecodeError(f"group {self.name} is cut: offset={offset} length_bytes={len(view)}")
        block_length, count = _GROUP_HEADER.unpack_from(view, offset)
        offset += GROUP_HEADER_LENGTH
        entries = []
        for _ in range(count):
            if offset + block_length > len(view):
                raise DecodeError(f"group {self.name} is cut: entries={count} offset={offset} length_bytes={len(view)}")
            values = self.block.unpack(view, offset, block_length, acting_version)
            offset = self.data.unpack(view, offset + block_length, acting_version, values)
            entries.append(self.entry_type._make(values))
        return entries, offset


def _refuse_unknown(name: str, values: Mapping[str, Any], allowed: frozenset[str]) -> None:
    if not allowed.issuperset(values):
        unknown = ", ".join(sorted(set(values) - allowed))
        raise TypeError(f"{name} has no field {unknown}; allowed: {', '.join(sorted(allowed))}")


class Message(Generic[RecordT]):
    """One message template of a schema; its parameter is the type of what `decode` gives (tools/records.py).

    `fields` make the root block in order, `groups` are `(name, fields)` or `(name, fields, data)`, `data` the var-data
    at the end. `block_length` overrides the sum of the fields where the schema does. `value_type` is the named tuple
    that `decode` gives; group values in it are lists of named tuples, `ascii` data `str`, `bytes` data `bytes`.
    """

    def __init__(
        self,
        name: str,
        template_id: int,
        schema_id: int,
        version: int,
        fields: Sequence[Column] = (),
        groups: Sequence[GroupTable] = (),
        data: Sequence[Column] = (),
        block_length: int | None = None,
    ) -> None:
        self.name = name
        self.template_id = template_id
        self.schema_id = schema_id
        self.version = version
        self._block = _Block(fields, block_length)
        self._groups = [_Group(group) for group in groups]
        self._data = _VarData(data)
        self.block_length = self._block.length
        self._names = [*self._block.names, *(group.name for group in self._groups), *self._data.names]
        self._allowed = frozenset(self._names)
        self._header = _HEADER.pack(self.block_length, template_id, schema_id, version)

    @cached_property
    def value_type(self) -> Any:
        """The class of decoded values, made when the first message is decoded.

        A schema has many messages, and a command meets few of them.
        """
        return namedtuple(self.name, self._names)

    def encode(self, **values: object) -> bytes:
        """Return header and body. A field not given is its type's null, a group empty, var-data of length 0.

        Raises TypeError for a name that is not a field, ValueError for a value outside its type.
        """
        return self._header + self.encode_body(**values)

    def encode_body(self, **values: Any) -> bytes:
        """Return the body alone, for formats that store no header or one of their own."""
        _refuse_unknown(self.name, values, self._allowed)
        parts = [self._block.pack(values)]
        for group in self._groups:
            group.pack(values.get(group.name, ()), parts)
        self._data.pack(values, parts)
        return b"".join(parts)

    def value_types(self) -> dict[str, type | dict[str, type]]:
        """Return the type of each decoded value by its name; of a group, the types of its entries' values."""
        groups = {group.name: {**group.block.types(), **group.data.types()} for group in self._groups}
        return {**self._block.types(), **groups, **self._data.types()}

    def offset_of(self, name: str) -> int | None:
        """Return the offset of a field of the root block, or None without such a field.

        In bytes from the start of the header.
        """
        offsets = {field.name: HEADER_LENGTH + field.offset for field in self._block.fields}
        return offsets.get(name)

    def decode(self, buffer: Buffer, offset: int = 0) -> RecordT:
        """Return the values of the message whose header is at `offset`, as `value_type`.

        Raises DecodeError when it is another message or cut. The version is never a reason to refuse (§7).
        """
        block_length, template_id, schema_id, version = _unpack_header(buffer, offset)
        if template_id != self.template_id or schema_id != self.schema_id:
            raise DecodeError(
                f"not a {self.name}: template_id={template_id} schema_id={schema_id}, "
                f"expected template_id={self.template_id} schema_id={self.schema_id}"
            )
        return self.decode_body(buffer, offset + HEADER_LENGTH, block_length, version)

    def decode_body(
        self, buffer: Buffer, offset: int = 0, block_length: int | None = None, version: int | None = None
    ) -> RecordT:
        """Return the values of a body at `offset`.

        Acting block length and version are the header's, by default this table's.
        """
        view = memoryview(buffer).cast("B")
        acting_length = self.block_length if block_length is None else block_length
        acting_version = self.version if version is None else version
        if offset < 0 or offset + acting_length > len(view):
            raise DecodeError(f"{self.name} is cut: block_length={acting_length} left_bytes={len(view) - offset}")
        values = self._block.unpack(view, offset, acting_length, acting_version)
        offset += acting_length
        for group in self._groups:
            entries, offset = group.unpack(view, offset, acting_version)
            values.append(entries)
        self._data.unpack(view, offset, acting_version, values)
        record: RecordT = self.value_type._make(values)
        return record

    def describe(self, value: Any) -> str:
        """Return the text form of §9, with this table's field names."""
        fields = [f"{name}={_text(getattr(value, name))}" for name in value._fields]
        ids = (
            f"sbeTemplateId={self.template_id}|sbeSchemaId={self.schema_id}|"
            f"sbeSchemaVersion={self.version}|sbeBlockLength={self.block_length}"
        )
        return f"[{self.name}]({ids}):{'|'.join(fields)}"

    def __repr__(self) -> str:
        return f"Message({self.name}, template_id={self.template_id}, schema_id={self.schema_id})"


def bind(
    table: Message[RecordT], take: Callable[[RecordT, int], None]
) -> tuple[Message[Any], Callable[[Any, int], None]]:
    """Return a table with what takes its records, for a dict of handlers: mypy checks that they fit each other."""
    return table, take


def by_template_id(values: Iterable[Any]) -> dict[int, Message]:
    """Return the messages among some values, such as the globals of a module.

    Raises ValueError when two messages have one number: one of them would never be decoded. A message that stands
    there under two names is one.
    """
    messages: dict[int, Message] = {}
    for one in values:
        if isinstance(one, Message) and messages.setdefault(one.template_id, one) is not one:
            first = messages[one.template_id]
            raise ValueError(f"two messages have the template id {one.template_id}: {first.name} and {one.name}")
    return messages


def decode_one_of(schemas: Mapping[int, Mapping[int, Message]], buffer: Buffer) -> tuple[Message, Any] | None:
    """Return the message in a buffer as (its table, its values), or None for one that no schema has.

    `schemas`: by schema id, the messages by template id. Raises DecodeError when the buffer is shorter than its own
    lengths say.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < HEADER_LENGTH:
        return None
    block_length, template_id, schema_id, version = _unpack_header(view, 0)
    message = schemas.get(schema_id, {}).get(template_id)
    return None if message is None else (message, message.decode_body(view, HEADER_LENGTH, block_length, version))


def _text(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, list):
        return (
            "[" + ",".join("(" + "|".join(f"{n}={_text(getattr(e, n))}" for n in e._fields) + ")" for e in value) + "]"
        )
    return str(value)

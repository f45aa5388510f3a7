"""Payloads into columns, by the log's schemas, SBE schema, protobuf descriptor or struct format; without Spark.

The log's columns stay. `message` names what was found, `version` the schema version it was written with, and each kind
of message has a struct column of its own. A payload that the schema does not know keeps its row: `problem` says why,
the payload is still there, and a later run with a newer schema can decode it. Fields newer than the schema are passed
over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.log_decoder import FOUND_COLUMNS, LogDecoder
from ordo.pipeline.decoding.sbe_schema import SbeSchema

MESSAGE_KINDS = ("message", "request")
"""Kinds of record by which clients, services and applications send."""
_BLOCK_LENGTH = struct.Struct("<H")
SBE_HEADER_BYTES = 8
_Row: TypeAlias = tuple[str | None, int | None, str | None, Any]
"""Message, version, problem and values of a payload."""


def application_bytes(kind: str | None, payload: bytes) -> bytes | None:
    """Return what an application sent; None: a record of this kind has nothing of it.

    `kind` None: a frame without kinds.

    A request is kept whole, and the application's bytes come after its block, whose length its first two bytes say:
    48 for a client's request, 72 for an application's output, and 16 more where it has an id.
    """
    if kind in (None, "message", "data"):
        return payload
    if kind != "request" or len(payload) < SBE_HEADER_BYTES:
        return None
    return payload[SBE_HEADER_BYTES + _BLOCK_LENGTH.unpack_from(payload)[0] :]


class PayloadDecoder(Protocol):
    """Makes columns of payloads.

    `columns` gives the Arrow type of each message by name; `decode` (name, version, values) of a payload whose record
    ends at `position`, or raises ValueError. `inputs` names what `decode` needs of a row beside the payload.
    """

    @property
    def inputs(self) -> tuple[str, ...]: ...
    def columns(self) -> dict[str, pa.DataType]: ...
    def decode(self, data: bytes, position: int = 0) -> tuple[str, int, dict[str, Any]]: ...


@dataclass(frozen=True)
class StructDecoder:
    """Python struct format with a name for each value; bytes behind it do not matter."""

    format: str
    fields: tuple[str, ...]
    name: str = "record"
    inputs: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> dict[str, pa.DataType]:
        sample = self._form().unpack(bytes(self._form().size))
        if len(sample) != len(self.fields):
            raise PipelineError(f"struct {self.format!r} has {len(sample)} values for {len(self.fields)} names")
        codes = list(self._codes())
        return {
            self.name: pa.struct([(field, _STRUCT_TYPES[code]) for field, code in zip(self.fields, codes, strict=True)])
        }

    def decode(self, data: bytes, position: int = 0) -> tuple[str, int, dict[str, Any]]:
        form = self._form()
        if len(data) < form.size:
            raise ValueError(f"{len(data)} bytes, the format has {form.size}")
        return self.name, 0, dict(zip(self.fields, form.unpack_from(data), strict=True))

    def _form(self) -> struct.Struct:
        try:
            return struct.Struct(self.format)
        except struct.error as error:
            raise PipelineError(f"struct {self.format!r} is no struct format: {error}") from error

    def _codes(self) -> Iterator[str]:
        """One type code for each value that the format unpacks to."""
        count = ""
        for code in self.format.lstrip("<>=!@"):
            if code.isdigit():
                count += code
                continue
            if code not in "x ":
                repeat = 1 if code in "sp" else int(count or 1)
                yield from code * repeat
            count = ""


_STRUCT_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys("bhilqn", pa.int64()), **dict.fromkeys("BHIL", pa.int64()),
    **dict.fromkeys("QN", pa.decimal128(20, 0)),
    **dict.fromkeys("fde", pa.float64()), "?": pa.bool_(), **dict.fromkeys("csp", pa.binary()),
}  # fmt: skip


@dataclass(frozen=True)
class SbeDecoder:
    """Messages of an SBE schema file."""

    path: str
    inputs: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> dict[str, pa.DataType]:
        return _sbe(self.path).columns()

    def decode(self, data: bytes, position: int = 0) -> tuple[str, int, dict[str, Any]]:
        return _sbe(self.path).decode(data)


@cache
def _sbe(path: str) -> SbeSchema:
    return SbeSchema.load(path)


@dataclass(frozen=True)
class ProtobufDecoder:
    """One message of a file descriptor set (`protoc --include_imports --descriptor_set_out`)."""

    path: str
    message: str
    inputs: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> dict[str, pa.DataType]:
        return {self._short_name(): _protobuf_type(_protobuf(self.path, self.message).DESCRIPTOR, ())}

    def decode(self, data: bytes, position: int = 0) -> tuple[str, int, dict[str, Any]]:
        from google.protobuf.message import DecodeError

        try:
            value = _protobuf(self.path, self.message).FromString(data)
        except DecodeError as error:
            raise ValueError(f"not a {self.message}: {error}") from error
        return self._short_name(), 0, _protobuf_values(value)

    def _short_name(self) -> str:
        return self.message.rpartition(".")[2]


@cache
def _protobuf(path: str, message: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    try:
        with open(path, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
        pool = descriptor_pool.DescriptorPool()
        for entry in files.file:
            pool.Add(entry)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except (OSError, KeyError, TypeError, DecodeError) as error:
        raise PipelineError(f"no message {message!r} in {path}: {error}; give a descriptor set with imports") from error


def _protobuf_type(descriptor: Any, above: tuple[str, ...]) -> pa.DataType:
    """Struct of a message's fields. A message inside itself is kept as bytes, as a data frame has no recursion."""
    if descriptor.full_name in above:
        return pa.binary()
    inner = (*above, descriptor.full_name)
    parts = []
    for field in descriptor.fields:
        kind = _protobuf_type(field.message_type, inner) if field.message_type else _PROTOBUF_TYPES[field.cpp_type]
        kind = pa.binary() if field.type == field.TYPE_BYTES else kind
        parts.append((field.name, pa.list_(kind) if field.is_repeated else kind))
    return pa.struct(parts)


_PROTOBUF_TYPES = {
    1: pa.int32(), 2: pa.int64(), 3: pa.int64(), 4: pa.decimal128(20, 0), 5: pa.float64(), 6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(), 9: pa.string(),
}  # fmt: skip


def _protobuf_values(value: Any, above: tuple[str, ...] = ()) -> Any:
    name = value.DESCRIPTOR.full_name
    if name in above:
        return value.SerializeToString()
    convert: Callable[[Any, Any], Any] = partial(_protobuf_value, (*above, name))
    return {
        field.name: [convert(field, item) for item in getattr(value, field.name)]
        if field.is_repeated
        else (
            convert(field, getattr(value, field.name)) if not field.has_presence or value.HasField(field.name) else None
        )
        for field in value.DESCRIPTOR.fields
    }


def _protobuf_value(above: tuple[str, ...], field: Any, value: Any) -> Any:
    if field.message_type:
        return _protobuf_values(value, above)
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else f"unknown({value})"
    return value


def decoded_schema(given: pa.Schema, decoder: PayloadDecoder, column: str = "payload") -> pa.Schema:
    """Return the schema with `message`, `version`, `problem` and a struct for each message. Raises PipelineError."""
    for name in (column, *decoder.inputs):
        if name not in given.names:
            raise PipelineError(f"no column {name!r} to decode; there are {', '.join(given.names)}")
    fields = decoder_fields(decoder)
    taken = {one.name for one in fields[len(FOUND_COLUMNS) :]} & set(given.names)
    if taken:
        raise PipelineError(f"the messages {sorted(taken)} are called like columns of the frame; rename those first")
    return pa.schema([*given, *fields])


def decoder_fields(decoder: PayloadDecoder) -> list[pa.Field]:
    """Return the columns that a decoder adds. Raises PipelineError for a schema that cannot be read."""
    return [pa.field(name, kind) for name, kind in (*FOUND_COLUMNS.items(), *decoder.columns().items())]


def decode_batches(
    decoder: PayloadDecoder, column: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches of `decoded_schema`. Where the frame has `kind`, only what applications sent is decoded."""
    names = list(decoder.columns())
    has_kinds, has_positions = "kind" in schema.names, "position" in decoder.inputs
    for batch in batches:
        kinds_of = batch["kind"].to_pylist() if has_kinds else [None] * batch.num_rows
        positions = batch["position"].to_pylist() if has_positions else [0] * batch.num_rows
        rows = zip(kinds_of, batch[column].to_pylist(), positions, strict=True)
        found = [_decode_kind(decoder, *row) for row in rows]
        arrays = [pa.array([row[index] for row in found], kind) for index, kind in enumerate(FOUND_COLUMNS.values())]
        kinds = schema.types[batch.num_columns + len(arrays) :]
        arrays += _spread(found, zip(names, kinds, strict=True))
        yield pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


def _spread(found: Sequence[_Row], columns: Iterable[tuple[str, pa.DataType]]) -> Iterator[pa.Array]:
    """Yield a column for each message: its values at its rows. One that no row has costs nothing for each row."""
    rows_of: dict[str | None, list[int]] = {}
    for index, row in enumerate(found):
        rows_of.setdefault(row[0], []).append(index)
    for name, kind in columns:
        rows = rows_of.get(name)
        if rows is None:
            yield pa.nulls(len(found), kind)
            continue
        places: list[int | None] = [None] * len(found)
        for place, index in enumerate(rows):
            places[index] = place
        yield pa.array([found[index][3] for index in rows], kind).take(pa.array(places, pa.int32()))


def _decode_kind(decoder: PayloadDecoder, kind: str | None, payload: bytes | None, position: int) -> _Row:
    data = application_bytes(kind, payload or b"")
    if data is None:
        return None, None, None, None
    try:
        name, version, values = decoder.decode(data, position)
    except ValueError as error:
        return None, None, str(error), None
    return name, version, None, values


def parse_decoder(text: str) -> PayloadDecoder:
    """`log`, `sbe:<schema.xml>`, `protobuf:<set>:<message>` or `struct:<format>:<name,name,...>`.

    That of `log` has the log's schemas yet to be found. Raises PipelineError.
    """
    if text == "log":
        return LogDecoder()
    kind, _, rest = text.partition(":")
    if kind == "sbe" and rest:
        return SbeDecoder(rest)
    first, _, second = rest.rpartition(":")
    if kind == "protobuf" and first:
        return ProtobufDecoder(first, second)
    if kind == "struct" and first:
        return StructDecoder(first, tuple(second.split(",")))
    raise PipelineError(
        f"decoder {text!r}: write log, sbe:<schema.xml>, protobuf:<descriptor set>:<message>, "
        "or struct:<format>:<names>"
    )

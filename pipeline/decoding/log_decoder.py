"""Payloads into columns by the schemas that the log itself has (docs/MESSAGES.md, The schema in the log).

What a log says is not trusted: a schema that is damaged, or contradicts another one, takes away the values of its
messages, and `problem` says why. No row has values of which the log does not say how they are read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa

from ordo.follow.log_schemas import LogSchemas
from ordo.pipeline.decoding.batches import ALL_COLUMN_NAMES, ARRIVAL, SEQUENCE
from ordo.pipeline.decoding.errors import PipelineError
from ordo.runtime.errors import MessageError
from ordo.service_api.messages import layout
from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.layout import DataLayout, FieldLayout, GroupLayout
from ordo.service_api.messages.logged import VALUES_MAX, LoggedSchema, count_values
from ordo.service_api.messages.message import layout_of_message
from ordo.service_api.messages.plain import values_of

FOUND_COLUMNS: dict[str, pa.DataType] = {"message": pa.string(), "version": pa.int32(), "problem": pa.string()}
"""What a decoder says of each payload; a column for each message follows them."""
DAY = "day"
TAKEN = frozenset((*ALL_COLUMN_NAMES, SEQUENCE, ARRIVAL, DAY, *FOUND_COLUMNS))
"""Columns that no message can have for its name. Engines see no difference between `position` and `Position`."""
DIGITS_MAX = 38
"""The longest decimal of Arrow's 128 bits, and of Spark."""
NUMBERS: dict[str, pa.DataType] = {
    "int8": pa.int8(), "uint8": pa.int16(), "int16": pa.int16(), "uint16": pa.int32(), "int32": pa.int32(),
    "uint32": pa.int64(), "int64": pa.int64(), "uint64": pa.decimal128(20, 0), "float": pa.float32(),
    "double": pa.float64(),
}  # fmt: skip


MessageKey: TypeAlias = tuple[int, int]
"""The ids of a message's schema and of itself: what a name once given belongs to."""


@dataclass(frozen=True)
class LogDecoder:
    """Messages by the schemas of the log that they are in; None: these are yet to be found."""

    logged: tuple[LoggedSchema, ...] | None = None
    searched_to: int = 0
    """Up to this position of the log they were looked for."""
    newest: tuple[LoggedSchema, ...] = ()
    """All schemas, where the log got some since the columns were made: rows go by these, into the columns there are."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("position",)

    def columns(self) -> dict[str, pa.DataType]:
        return dict(self._reading.columns)

    def decode(self, data: bytes, position: int = 0) -> tuple[str, int, dict[str, object]]:
        if not self.newest:
            return self._reading.decode(data, position)
        newest = _reading_of(self.newest)
        name, version, values = newest.decode(data, position)
        if name in newest.columns and name not in self._reading.columns:
            raise ValueError(f"{name} has no column: its fields came into the log when this stream ran; start it again")
        return name, version, values

    @property
    def _reading(self) -> Reading:
        if self.logged is None:
            raise PipelineError("decoder log: the schemas of the log have not been looked for")
        return _reading_of(self.logged)

    def text(self) -> str:
        """Return the schemas as text, for `parse`."""
        listed = [
            (one.position, one.service_id, one.digest.hex(), base64.b64encode(one.packed).decode())
            for one in self.logged or ()
        ]
        return json.dumps({"searched_to": self.searched_to, "schemas": listed})

    @classmethod
    def parse(cls, text: str) -> LogDecoder:
        """Return the decoder of a `text`."""
        found = json.loads(text)
        logged = tuple(
            LoggedSchema(position, service_id, bytes.fromhex(digest), base64.b64decode(packed))
            for position, service_id, digest, packed in found["schemas"]
        )
        return cls(logged, found["searched_to"])


class Reading:
    """The schemas of one log, ready to read with, and the columns of their messages.

    Names are given in the order in which messages came into the log, so what comes later changes none of them.
    """

    def __init__(self, logged: Iterable[LoggedSchema]) -> None:
        self._schemas = LogSchemas(logged)
        self.columns: dict[str, pa.DataType] = {}
        self._names: dict[type, str] = {}
        """Class of a message -> its column."""
        self._problems: dict[type, str] = {}
        """Class of a message -> why it has no column."""
        self._renamed: set[type] = set()
        """Messages with fields that are called otherwise in their columns."""
        self._given: dict[str, tuple[MessageKey, pa.DataType | None]] = {}
        """Name in small letters -> whose it is."""
        self._counted: dict[type, int] = {}
        self._values_left = VALUES_MAX
        read_by: dict[MessageKey, list[tuple[int, type]]] = {}
        for reader in self._schemas.readers:
            for one in reader.schema.messages:
                read_by.setdefault(_key_of(one), []).append((reader.service_id, one))
        for key, name in _first_names(self._schemas.logged).items():
            for service_id, one in read_by.get(key, ()):
                self._add(one, key, [name, f"{name}_{key[0]}", f"{name}_{key[0]}_{service_id}"])

    def _add(self, of_class: type, key: MessageKey, names: list[str]) -> None:
        """Give a message a column: one of the first of these names that is not taken by something else."""
        self._values_left -= count_values(of_class, self._counted)
        if self._values_left < 0:
            self._problems[of_class] = "other messages have all the columns that there is room for"
            return
        kind = self._kind_of(of_class)
        for name in names:
            if name.lower() not in TAKEN and self._given.setdefault(name.lower(), (key, kind)) == (key, kind):
                self._names[of_class] = name
                if kind is not None and kind.num_fields:  # files have no struct without fields
                    self.columns[name] = kind
                if _has_renamed(of_class):
                    self._renamed.add(of_class)
                return
        self._problems[of_class] = "other messages have its name"

    def _kind_of(self, of_class: type) -> pa.DataType | None:
        try:
            return _struct(of_class)
        except PipelineError as error:
            self._problems[of_class] = str(error)
            return None

    def decode(self, payload: bytes, position: int) -> tuple[str, int, dict[str, object]]:
        try:
            message = self._schemas.read(payload, position)
        except MessageError as error:
            raise ValueError(error.message) from error
        of_class = type(message)
        if of_class in self._problems:
            raise ValueError(f"{of_class.__name__} has no column: {self._problems[of_class]}")
        version = int.from_bytes(payload[6:8], "big" if layout_of_message(of_class).is_big_endian else "little")
        values = values_of(message)
        return self._names[of_class], version, _rename(of_class, values) if of_class in self._renamed else values


@lru_cache(maxsize=16)
def _reading_of(logged: tuple[LoggedSchema, ...]) -> Reading:
    return Reading(logged)


def _key_of(of_class: type) -> MessageKey:
    codec = codec_of(of_class)
    return codec.schema_id, codec.template_id


def _first_names(logged: Iterable[LoggedSchema]) -> dict[MessageKey, str]:
    """Return the names that messages had when they came into the log, in the order in which they did."""
    found: dict[MessageKey, str] = {}
    for one in logged:
        for of_class in one.schema.messages:
            found.setdefault(_key_of(of_class), of_class.__name__)
    return found


def _struct(of_class: type) -> pa.DataType:
    """Return the type of a message's, a row's or a composite's column, without parts that have no fields."""
    names = _field_names(of_class)
    parts = [(names[one.name], _type(one)) for one in layout_of_message(of_class).parts]
    return pa.struct([(name, kind) for name, kind in parts if not _is_empty(kind)])


def _field_names(of_class: type) -> dict[str, str]:
    """Return how fields are called in a struct: engines see no difference between `price` and `Price`.

    A number goes behind the later of two, by the version that they came with.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for one in sorted(layout_of_message(of_class).parts, key=lambda part: part.since):
        name = one.name
        for number in count(2):
            if name.lower() not in taken:
                break
            name = f"{one.name}_{number}"
        taken.add(name.lower())
        found[one.name] = name
    return found


def _inner_classes(of_class: type) -> list[tuple[str, type]]:
    found = layout_of_message(of_class)
    composites = [(one.name, one.of) for one in found.fields if one.kind == layout.COMPOSITE]
    return composites + [(one.name, one.row_class) for one in found.groups]


def _has_renamed(of_class: type) -> bool:
    is_renamed = any(name != column for name, column in _field_names(of_class).items())
    return is_renamed or any(_has_renamed(inner) for _, inner in _inner_classes(of_class))


def _rename(of_class: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a message by the names of its column's fields."""
    for name, inner in _inner_classes(of_class):
        value = values[name]
        if value is not None:  # a composite that is not in an older message
            values[name] = [_rename(inner, row) for row in value] if isinstance(value, list) else _rename(inner, value)
    names = _field_names(of_class)
    return {names[name]: value for name, value in values.items()}


def _is_empty(kind: pa.DataType) -> bool:
    return _is_empty(kind.value_type) if pa.types.is_list(kind) else pa.types.is_struct(kind) and not kind.num_fields


def _type(part: FieldLayout | GroupLayout | DataLayout) -> pa.DataType:
    if isinstance(part, GroupLayout):
        return pa.list_(_struct(part.row_class))
    if isinstance(part, DataLayout):
        return pa.string() if part.is_text else pa.binary()
    if part.kind == layout.ARRAY:
        return pa.list_(NUMBERS[part.primitive.name])
    if part.kind == layout.COMPOSITE:
        return _struct(part.of)
    if part.kind == layout.DECIMAL:
        return _decimal(part)
    return _PLAIN.get(part.kind) or NUMBERS[part.primitive.name]


def _decimal(part: FieldLayout) -> pa.DataType:
    """Return a decimal that has all values of a field. Raises PipelineError where no column has."""
    digits = max(len(str(1 << 8 * part.primitive.length_bytes)), part.of)
    if digits > DIGITS_MAX:
        raise PipelineError(f"{part.name} has {part.of} digits after the point: columns have up to {DIGITS_MAX}")
    return pa.decimal128(digits, part.of)


_PLAIN = {
    layout.BOOLEAN: pa.bool_(),
    layout.CHARACTERS: pa.string(),
    layout.RAW: pa.binary(),
    layout.NAMED_NUMBER: pa.string(),
    layout.NAMED_CHARACTER: pa.string(),
    layout.FLAGS: pa.list_(pa.string()),
}

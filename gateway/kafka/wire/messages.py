"""Requests and responses of Kafka's protocol: which are taken, in which versions, as dictionaries of plain values.

The layouts are those of the package kio, which has a class for each request in each version. A response is made from
values by name: whatever a version does not have is left out, and what is not given has the version's default.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, get_args

import kio.index
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial.readers import read_int16, read_int32

from ordo.runtime.errors import DecodeError


class Api(IntEnum):
    """The requests that are answered."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42


VERSIONS: Mapping[Api, tuple[int, int]] = {
    Api.PRODUCE: (3, 8),
    Api.FETCH: (4, 11),
    Api.LIST_OFFSETS: (1, 5),
    Api.METADATA: (0, 8),
    Api.OFFSET_COMMIT: (2, 7),
    Api.OFFSET_FETCH: (1, 5),
    Api.FIND_COORDINATOR: (0, 4),
    Api.JOIN_GROUP: (0, 5),
    Api.HEARTBEAT: (0, 3),
    Api.LEAVE_GROUP: (0, 3),
    Api.SYNC_GROUP: (0, 3),
    Api.DESCRIBE_GROUPS: (0, 4),
    Api.LIST_GROUPS: (0, 2),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 3),
    Api.CREATE_TOPICS: (2, 4),
    Api.INIT_PRODUCER_ID: (0, 1),
    Api.DESCRIBE_CONFIGS: (1, 3),
    Api.SASL_AUTHENTICATE: (0, 1),
    Api.DELETE_GROUPS: (0, 1),
}
"""The versions of before tagged fields, of which kio's decoder refuses unknown ones. Clients of Kafka 2.1 and
later have them all. ApiVersions 3 alone has such fields, and FindCoordinator may have them from version 3 on, but no
client sends any; one that uses others of ApiVersions is asked to try version 0."""


class Request(NamedTuple):
    """A request of a known kind and version."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: Any
    """An object of kio's class for the version."""


class UnknownVersionError(DecodeError):
    """A request of a version that is not answered; an ApiVersions request gets an answer all the same."""

    def __init__(self, text: str, api: int, correlation_id: int) -> None:
        super().__init__(text)
        self.api = api
        self.correlation_id = correlation_id


def decode_request(frame: bytes | memoryview) -> Request:
    """Decode what follows the length. Raises DecodeError, UnknownVersionError."""
    try:
        api_key, version = read_int16(frame, 0)[0], read_int16(frame, 2)[0]
        correlation_id = read_int32(frame, 4)[0]
    except Exception as error:
        raise DecodeError(f"a request of {len(frame)} bytes: {error}") from None
    try:
        api = Api(api_key)
    except ValueError:
        raise UnknownVersionError(f"request {api_key} is not known here", api_key, correlation_id) from None
    lowest, highest = VERSIONS[api]
    if not lowest <= version <= highest:
        raise UnknownVersionError(f"{api.name} {version}: {lowest} to {highest} are answered", api_key, correlation_id)
    entity = _request_class(api, version)
    try:
        header, offset = entity_reader(entity.__header_schema__)(frame, 0)
        body, _ = entity_reader(entity)(frame, offset)
    except Exception as error:  # the decoder's own errors, and those of dates and numbers beyond their range
        if api is Api.API_VERSIONS:
            raise UnknownVersionError(f"ApiVersions {version} with {error}"[:200], api_key, correlation_id) from None
        raise DecodeError(f"{api.name} {version} is damaged: {type(error).__name__} {error}"[:200]) from None
    _check_sequences(body)
    return Request(api, version, correlation_id, header.client_id or "", body)


def _check_sequences(body: Any) -> None:
    """Refuse a sequence that is null where none may be, which the decoder lets pass. Raises DecodeError."""
    entity: Any = type(body)
    for name, may_be_null, is_nested in _sequences_of(entity):
        values = getattr(body, name)
        if values is None and not may_be_null:
            raise DecodeError(f"{entity.__name__}: {name} is null")
        for one in values or () if is_nested else ():
            _check_sequences(one)


@cache
def _sequences_of(entity: Any) -> Sequence[tuple[str, bool, bool]]:
    """Give each field that is a sequence: its name, whether it may be null, whether it has fields of its own."""
    return tuple(
        (field.name, type(None) in get_args(field.type), _nested_of(field.type) is not None)
        for field in dataclasses.fields(entity)
        if _is_sequence(field.type)
    )


def encode_response(api: Api, version: int, correlation_id: int, values: Mapping[str, object]) -> bytes:
    """Return a response with its length before it. Raises KeyError for a value without a default that is missing."""
    entity = _response_class(api, version)
    buffer = io.BytesIO()
    buffer.write(b"\0\0\0\0")
    header_class = entity.__header_schema__
    entity_writer(header_class)(buffer, header_class(correlation_id=correlation_id))
    entity_writer(entity)(buffer, _build(entity, values))
    frame = bytearray(buffer.getbuffer())
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)


@cache
def _request_class(api: Api, version: int) -> Any:
    return kio.index.load_request_schema(int(api), version)


@cache
def _response_class(api: Api, version: int) -> Any:
    return kio.index.load_response_schema(int(api), version)


def _build(entity: Any, values: Mapping[str, object]) -> Any:
    found = {}
    for name, convert, default in _fields_of(entity):
        if name in values:
            found[name] = convert(values[name])
        elif default is not None:
            found[name] = default()
    return entity(**found)


@cache
def _fields_of(entity: Any) -> Sequence[tuple[str, Callable[[Any], Any], Callable[[], Any] | None]]:
    """Give each field's name, what makes its value, and its default; None where the class has one."""
    found: list[tuple[str, Callable[[Any], Any], Callable[[], Any] | None]] = []
    for field in dataclasses.fields(entity):
        nested = _nested_of(field.type)
        kind = field.metadata.get("kafka_type")
        has_default = field.default is not dataclasses.MISSING
        if nested is not None:
            convert: Callable[[Any], Any] = _converter_of(nested)
        elif kind == "error_code":
            convert = ErrorCode
        elif kind in ("timedelta_i32", "timedelta_i64"):
            convert = _milliseconds
        elif _is_sequence(field.type):
            convert = _tuple
        else:
            convert = _same
        found.append((field.name, convert, None if has_default else _default_of(field.type, str(kind))))
    return tuple(found)


def _nested_of(kind: Any) -> Any:
    """Return the class of which the field has a sequence, if it has."""
    for one in (kind, *get_args(kind)):
        if dataclasses.is_dataclass(one):
            return one
        found = [inner for inner in get_args(one) if dataclasses.is_dataclass(inner)]
        if found:
            return found[0]
    return None


def _is_sequence(kind: Any) -> bool:
    return any(getattr(one, "__origin__", None) is tuple for one in (kind, *get_args(kind)))


def _converter_of(nested: Any) -> Callable[[Any], Any]:
    return lambda values: None if values is None else tuple(_build(nested, one) for one in values)


def _default_of(kind: Any, kafka_type: str) -> Callable[[], Any]:
    if type(None) in get_args(kind):
        return lambda: None
    if _is_sequence(kind):
        return tuple
    if kafka_type == "error_code":
        return lambda: ErrorCode.none
    if kafka_type.startswith("timedelta"):
        return timedelta
    return {"string": str, "bytes": bytes, "bool": bool}.get(kafka_type, int)


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)


def _same(value: Any) -> Any:
    return value

"""Requests of a log that is replayed: executed when the cluster executed them (docs/CLIENT.md, schema 901)."""

from __future__ import annotations

import struct

from ordo.cluster.wire import codecs
from ordo.cluster.wire.sessions.arrivals import split_arrival

SCHEMA_ID = 901
OPEN_IDENTITY, REQUEST, LEVEL = 40, 41, 75
REQUEST_ID_LEVEL, OUTPUT_ID_LEVEL, SEQUENCE_LEVEL = 3, 5, 6
"""The levels of a log that may have requests with ids, and outputs of applications with ids, and of one whose snapshots
hold the number of the last message."""
_DIGEST_BYTES = 16
OK, REJECTED, TOO_LONG = 0, 1, 2
_HEADER = struct.Struct("<HHHH")
_REQUEST = struct.Struct("<qqqqqq")
_LEVEL = struct.Struct("<qqi")
_ACTION = struct.Struct("<qqqii")


class OpenIdentity:
    """The record by which a client opens its identity."""

    def __init__(self, record: bytes) -> None:
        fields = struct.unpack_from("<qqqqqqq", record, 8)
        _, self.session_id, self.time, high, low, self.incarnation, self.known_position = fields
        self.identity = join_identity(high, low)


class Request:
    """The record of a message that is executed only once."""

    def __init__(self, record: bytes, arrival_ns: int | None) -> None:
        self.arrival_ns = arrival_ns
        _, self.session_id, self.time, self.open_position, self.number, self.confirmed = _REQUEST.unpack_from(record, 8)
        block_length = _HEADER.unpack_from(record)[0]
        self.payload = record[8 + block_length :]
        self.is_output = block_length >= 72
        """Whether an application asks."""
        start = _digest_offset(block_length)
        self.request_id = record[start : start + _DIGEST_BYTES] if start else b""
        """A digest of the id that the caller chose; empty without one."""


def _digest_offset(block_length: int) -> int:
    """Where a request of this length has the digest of its id; 0 where it has none."""
    if block_length >= 88:
        return 80
    return 56 if 64 <= block_length < 72 else 0


def join_identity(high: int, low: int) -> bytes:
    return high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)


def parse(record: bytes) -> OpenIdentity | Request | None:
    """Return the request that a record holds, or None for a record of another kind."""
    if len(record) < _HEADER.size:
        return None
    arrival_ns, record = split_arrival(record)
    block_length, template_id, schema_id, _ = _HEADER.unpack_from(record)
    if schema_id != SCHEMA_ID or 8 + block_length > len(record):
        return None
    if template_id == OPEN_IDENTITY and block_length >= 56:
        return OpenIdentity(record)
    return Request(record, arrival_ns) if template_id == REQUEST and block_length >= 48 else None


def is_snapshot(record: bytes) -> bool:
    """Return whether a record has the members take a snapshot."""
    if len(record) < _HEADER.size + _ACTION.size:
        return False
    block_length, template_id, schema_id, _ = _HEADER.unpack_from(record)
    _, _, _, action, flags = _ACTION.unpack_from(record, _HEADER.size)
    has_flags = block_length >= _ACTION.size
    is_action = (template_id, schema_id) == (codecs.CLUSTER_ACTION_REQUEST.template_id, codecs.SCHEMA_ID)
    return bool(is_action and action == codecs.ClusterAction.SNAPSHOT and (not has_flags or flags in (0, -(2**31))))


def parse_level(record: bytes) -> int:
    """Return the protocol level that a record puts in force, or -1 for a record of another kind."""
    if len(record) < _HEADER.size + _LEVEL.size:
        return -1
    _, template_id, schema_id, _ = _HEADER.unpack_from(record)
    return int(_LEVEL.unpack_from(record, _HEADER.size)[2]) if (template_id, schema_id) == (LEVEL, SCHEMA_ID) else -1

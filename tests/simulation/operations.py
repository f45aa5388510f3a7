"""What simulated clients ask of the test service, as bytes: each request proves by itself that it arrived whole."""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from ordo.service_api.service import Cluster

_REQUEST = struct.Struct("<IIqBqqq")
_REPLY = struct.Struct("<IqBq")
NONE_VALUE = -1
DECODED_KEPT = 256
_PADDING = bytes(range(256))


class Kind(IntEnum):
    """The arguments of each are in brackets."""

    READ = 1
    """(register)"""
    WRITE = 2
    """(register, value)"""
    CAS = 3
    """(register, value, expected)"""
    TIMER = 4
    """(correlation id, delay in ms)"""
    CANCEL = 5
    """(correlation id)"""
    MESSAGE = 6
    """(): the service sends a message to itself through the log"""
    CLOSE = 7
    """(): the service closes the session"""
    POISON = 8
    """(): the service raises, when it has changed a part of its state"""


class Request(NamedTuple):
    """`number` rises with every request of one client, over all its sessions."""

    client: int
    number: int
    kind: Kind
    first: int = 0
    second: int = 0
    third: int = 0

    def encode(self, padding: int = 0) -> bytes:
        body = _REQUEST.pack(0, self.client, self.number, self.kind, self.first, self.second, self.third)[4:]
        start = self.number & 0xFF
        body += (_PADDING * ((start + padding) // len(_PADDING) + 1))[start : start + padding]
        return struct.pack("<I", zlib.crc32(body)) + body


@lru_cache(DECODED_KEPT)
def decode_request(payload: bytes) -> Request | None:
    """None for a payload that is not what a client sent. Every member decodes the same, so it is kept for a while."""
    if len(payload) < _REQUEST.size or zlib.crc32(payload[4:]) != int.from_bytes(payload[:4], "little"):
        return None
    _, client, number, kind, first, second, third = _REQUEST.unpack_from(payload)
    return Request(client, number, Kind(kind), first, second, third)


class Reply(NamedTuple):
    """`ok`: whether it took effect; `value`: what a read found."""

    client: int
    number: int
    ok: bool
    value: int


def encode_reply(request: Request, ok: bool, value: int) -> bytes:
    """The bytes of a reply, which `decode_reply` reads."""
    return _REPLY.pack(request.client, request.number, ok, value)


def decode_reply(payload: bytes) -> Reply:
    client, number, ok, value = _REPLY.unpack(payload)
    return Reply(client, number, bool(ok), value)


def later(cluster: Cluster, timestamp: int, delay_ms: int) -> int:
    """Return the deadline of a timer in the unit of the cluster's time."""
    assert cluster.time_unit is not None
    return timestamp + cluster.time_unit.duration(milliseconds=delay_ms)

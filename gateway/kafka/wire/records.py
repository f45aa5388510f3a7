"""Batches of records, Kafka's format 2, into payloads of a topic and back.

A record that has a value and nothing else is its value. One with a key, with headers, or without a value becomes an
envelope: ENVELOPE, then key, value and headers as in Kafka's record. So whatever reads a topic sees plain values where
producers send plain values, and a service's own messages are records without a key for Kafka's consumers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ordo.gateway.kafka.wire.compression import TooLongError, unpack
from ordo.gateway.kafka.wire.record_walk import ENVELOPE, read_records, varint, write_records
from ordo.runtime.errors import DecodeError

_HEAD = struct.Struct(">qiibI")
"""base_offset, batch_length, partition_leader_epoch, magic, crc."""
_BODY = struct.Struct(">hiqqqhii")
"""attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count."""
_AFTER_LENGTH = 12
_CRC_END = _HEAD.size
MAGIC = 2
COMPRESSION_MASK, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
RECORDS_MAX = 65_536
"""So many records a batch may have: a few kilobytes of it may be unpacked into ten times as many empty ones."""

PART_BYTES_MAX = 64 << 10
"""So much of a batch goes into the log as one request, which is far below what a message may have by default."""


class Batch(NamedTuple):
    """What a producer sends."""

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    parts: Sequence[tuple[int, bytes]]
    """Its payloads as orders have them: how many, and these with their lengths before them."""
    longest: int
    """Bytes of the longest payload."""


class Stored(NamedTuple):
    """A message of a topic, as a consumer is sent it."""

    number: int
    timestamp: int
    payload: bytes


def decode_batch(data: bytes, part_bytes_max: int = PART_BYTES_MAX) -> Batch:
    """Decode the one batch of a produce request. Raises DecodeError, CompressionError, TooLongError."""
    if len(data) < _HEAD.size + _BODY.size:
        raise DecodeError(f"a batch of {len(data)} bytes")
    _, batch_length, _, magic, crc = _HEAD.unpack_from(data)
    if magic != MAGIC or batch_length != len(data) - _AFTER_LENGTH:
        raise DecodeError(f"one batch of format 2 is wanted: {magic=} {batch_length=} length={len(data)}")
    if crc != crc32c(memoryview(data)[_CRC_END:]):
        raise DecodeError("the checksum of a batch is wrong")
    attributes, _, _, _, producer_id, epoch, sequence, count = _BODY.unpack_from(data, _CRC_END)
    body, start = _uncompressed(attributes, data), _HEAD.size + _BODY.size
    if body is not data:
        start = 0
    if attributes & CONTROL or count < 1 or count > (len(body) - start) // 7:  # a record has at least 7 bytes
        raise DecodeError(f"a batch of {count} records: {attributes=} length={len(body)}")
    if count > RECORDS_MAX:
        raise TooLongError(f"a batch of {count} records: at most {RECORDS_MAX}")
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise DecodeError(f"a batch of a producer without a sequence: {producer_id=} {epoch=} {sequence=}")
    parts, longest = read_records(body, start, count, part_bytes_max)
    return Batch(producer_id, epoch, sequence, bool(attributes & TRANSACTIONAL), parts, longest)


def is_compressed(data: bytes) -> bool:
    """Return whether a batch, which need not be whole, is compressed."""
    return len(data) > _CRC_END + 1 and bool(data[_CRC_END + 1] & COMPRESSION_MASK)


def _uncompressed(attributes: int, data: bytes) -> bytes:
    """Return `data` itself where it is not compressed, else the records alone."""
    kind = attributes & COMPRESSION_MASK
    if kind == 0:
        return data
    return unpack(kind, memoryview(data)[_HEAD.size + _BODY.size :])


def enclose(value: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the payload for a value with headers, and without a key."""
    pieces = [b"\x01", varint(len(value)), value, varint(len(headers))]
    for name, text in headers.items():
        for part in (name.encode(), text.encode()):
            pieces += [varint(len(part)), part]
    return ENVELOPE + b"".join(pieces)


def encode_batch(messages: Sequence[Stored]) -> bytes:
    """Return messages with consecutive numbers as a batch."""
    first = messages[0]
    count = len(messages)
    max_timestamp = max(one.timestamp for one in messages)
    content = _BODY.pack(0, count - 1, first.timestamp, max_timestamp, -1, -1, -1, count) + write_records(messages)
    head = _HEAD.pack(first.number, len(content) + _HEAD.size - _AFTER_LENGTH, -1, MAGIC, crc32c(content))
    return head + content

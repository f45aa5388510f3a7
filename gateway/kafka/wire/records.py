"""Batches of records, Kafka's format 2, into payloads of a topic and back.

A record that has a value and nothing else is its value. One with a key, with headers, or without a value becomes an
envelope: ENVELOPE, then key, value and headers as in Kafka's record. So whatever reads a topic sees plain values where
producers send plain values, and a service's own messages are records without a key for Kafka's consumers.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from ordo.gateway.kafka.wire.compression import TooLongError, unpack
from ordo.runtime.errors import DecodeError

ENVELOPE = b"\xf0ordo.record\x01"
_HEAD = struct.Struct(">qiibI")
"""base_offset, batch_length, partition_leader_epoch, magic, crc."""
_BODY = struct.Struct(">hiqqqhii")
"""attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count."""
_AFTER_LENGTH = 12
_CRC_END = _HEAD.size
MAGIC = 2
COMPRESSION_MASK, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
VARINT_BYTES_MAX = 5
RECORDS_MAX = 65_536
"""So many records a batch may have: a few kilobytes of it may be unpacked into ten times as many empty ones."""
RECORDS_PER_STEP = 1_024


class Batch(NamedTuple):
    """What a producer sends."""

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    payloads: list[bytes]


class Stored(NamedTuple):
    """A message of a topic, as a consumer is sent it."""

    number: int
    timestamp: int
    payload: bytes


def decode_batch(data: bytes) -> Batch:
    """Decode the one batch of a produce request. Raises DecodeError, CompressionError, TooLongError."""
    steps = decode_in_steps(data)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def decode_in_steps(data: bytes) -> Generator[None, None, Batch]:
    """`decode_batch`, which yields after each RECORDS_PER_STEP records, so that others have a turn."""
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
    try:
        payloads = yield from _payloads_of(body, start, count)
    except IndexError:
        raise DecodeError("a batch ends within a record") from None
    return Batch(producer_id, epoch, sequence, bool(attributes & TRANSACTIONAL), payloads)


def is_compressed(data: bytes) -> bool:
    """Return whether a batch, which need not be whole, is compressed."""
    return len(data) > _CRC_END + 1 and bool(data[_CRC_END + 1] & COMPRESSION_MASK)


def _uncompressed(attributes: int, data: bytes) -> bytes:
    """Return `data` itself where it is not compressed, else the records alone."""
    kind = attributes & COMPRESSION_MASK
    if kind == 0:
        return data
    return unpack(kind, memoryview(data)[_HEAD.size + _BODY.size :])


def _payloads_of(body: bytes, offset: int, count: int) -> Generator[None, None, list[bytes]]:
    payloads = []
    for index in range(count):
        if index % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
            yield
        length, offset = _varint(body, offset)
        end = offset + length
        if length < 6 or end > len(body):
            raise DecodeError(f"a record of {length} bytes")
        _, offset = _varint(body, offset + 1, 10)  # attributes, timestamp
        delta, offset = _varint(body, offset)
        if delta != index:
            raise DecodeError(f"record {index} of a batch says that it is record {delta}")
        payloads.append(_payload_of(body, offset, end))
        offset = end
    if offset != len(body):
        raise DecodeError("bytes follow the last record of a batch")
    return payloads


def _payload_of(body: bytes, start: int, end: int) -> bytes:
    """Return the payload for key, value and headers from `start` to `end`, which are checked."""
    key_length, offset = _varint(body, start)
    offset += max(key_length, 0)
    value_length, value = _varint(body, offset)
    offset = value + max(value_length, 0)
    header_count, offset = _varint(body, offset)
    if header_count < 0:
        raise DecodeError(f"a record with {header_count} headers")
    for _ in range(header_count):
        if offset >= end:
            raise DecodeError(f"a record with fewer headers than {header_count}")
        name_length, offset = _varint(body, offset)
        if name_length < 0:
            raise DecodeError("a header without a name")
        content_length, offset = _varint(body, offset + name_length)
        offset += max(content_length, 0)
    if offset != end or min(key_length, value_length) < -1:
        raise DecodeError("the parts of a record do not add up to its length")
    if key_length < 0 <= value_length and header_count == 0:
        plain = body[value : value + value_length]
        if not plain.startswith(ENVELOPE):
            return plain
    return ENVELOPE + body[start:end]


def _varint(data: bytes, offset: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Return a zigzag number and the place behind it. Raises IndexError, DecodeError."""
    byte = data[offset]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), offset + 1
    result, shift = byte & 0x7F, 7
    for place in range(offset + 1, offset + bytes_max):
        byte = data[place]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), place + 1
        shift += 7
    raise DecodeError("a number of a record is too long")


def _write_varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    if value < 0x80:
        return bytes((value,))
    pieces = bytearray()
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def content_of(payload: bytes) -> bytes:
    """Return key, value and headers of a message, as they stand in Kafka's record.

    Whatever may publish wrote it, so an envelope whose parts do not add up is a value: a consumer that cannot read a
    record cannot go past it.
    """
    if payload.startswith(ENVELOPE):
        with suppress(DecodeError, IndexError):
            _payload_of(payload, len(ENVELOPE), len(payload))
            return payload[len(ENVELOPE) :]
    return b"\x01" + _write_varint(len(payload)) + payload + b"\x00"


def enclose(value: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the payload for a value with headers, and without a key."""
    pieces = [b"\x01", _write_varint(len(value)), value, _write_varint(len(headers))]
    for name, text in headers.items():
        for part in (name.encode(), text.encode()):
            pieces += [_write_varint(len(part)), part]
    return ENVELOPE + b"".join(pieces)


def encode_batch(messages: Sequence[Stored]) -> bytes:
    """Return messages with consecutive numbers as a batch."""
    first = messages[0]
    records = []
    for index, (_, timestamp, payload) in enumerate(messages):
        body = b"\x00" + _write_varint(timestamp - first.timestamp) + _write_varint(index) + content_of(payload)
        records.append(_write_varint(len(body)))
        records.append(body)
    count = len(messages)
    max_timestamp = max(one.timestamp for one in messages)
    content = _BODY.pack(0, count - 1, first.timestamp, max_timestamp, -1, -1, -1, count) + b"".join(records)
    head = _HEAD.pack(first.number, len(content) + _HEAD.size - _AFTER_LENGTH, -1, MAGIC, crc32c(content))
    return head + content

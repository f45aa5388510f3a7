"""Batches as producers send them, and requests as clients do, made by kio: a codec that is not the door's."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Sequence
from typing import Any

import kio.index
from crc32c import crc32c
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_new_batch
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

TIME = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
TIME_MS = round(TIME.timestamp() * 1000)
Content = tuple[bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]


def batch_of(contents: Sequence[Content], producer: tuple[int, int, int] = (-1, -1, -1), attributes: int = 0) -> bytes:
    """Return a batch of (key, value, headers) of a producer (id, epoch, first sequence)."""
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=TZAwareMicros(TIME + datetime.timedelta(seconds=index)),
            offset=i64(index),
            key=key,
            value=value,
            headers=tuple(RecordHeader(key=name, value=content) for name, content in headers),
        )
        for index, (key, value, headers) in enumerate(contents)
    )
    producer_id, epoch, sequence = producer
    batch = NewRecordBatch(
        producer_id=i64(producer_id),
        producer_epoch=i16(epoch),
        base_sequence=i32(sequence),
        records=records,
        attributes=i16(attributes),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, batch)
    return buffer.getvalue()


def damaged(batch: bytes, at: int, value: bytes) -> bytes:
    """Return a batch with other bytes and the checksum that fits."""
    changed = batch[:at] + value + batch[at + len(value) :]
    return changed[:17] + struct.pack(">I", crc32c(changed[21:])) + changed[21:]


def compressed(kind: int, body: bytes) -> bytes:
    """Return a batch of one record whose records are `body`."""
    batch = damaged(batch_of([(None, b"x", [])]), 21, struct.pack(">h", kind))[:61] + body
    return damaged(batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:], 21, struct.pack(">h", kind))


def request_of(api: int, version: int, correlation_id: int, **values: object) -> bytes:
    """Return a request, without its length."""
    entity: Any = kio.index.load_request_schema(api, version)
    header = entity.__header_schema__(
        request_api_key=i16(api), request_api_version=i16(version), correlation_id=i32(correlation_id), client_id="test"
    )
    buffer = io.BytesIO()
    entity_writer(entity.__header_schema__)(buffer, header)
    entity_writer(entity)(buffer, entity(**values))
    return buffer.getvalue()


def response_of(api: int, version: int, frame: bytes) -> tuple[int, Any]:
    """Return the correlation id and the body of a response with its length."""
    entity: Any = kio.index.load_response_schema(api, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(entity.__header_schema__)(frame, 4)
    body, _ = entity_reader(entity)(frame, 4 + size)
    return header.correlation_id, body


def codes_of(found: object) -> set[int]:
    """Return the error codes of a response and of all that it consists of."""
    names = getattr(type(found), "__slots__", ())
    nested = [one for name in names if isinstance(value := getattr(found, name), tuple) for one in value]
    own = {getattr(found, one) for one in names if one == "error_code"}
    return own.union(*(codes_of(one) for one in nested))

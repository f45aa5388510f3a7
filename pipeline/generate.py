"""Archive folders with a generated log, for sizing a Spark cluster, for benchmarks and for tests."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from ordo.archive.segments.catalog import NULL_TIMESTAMP, Catalog, RecordingDescriptor
from ordo.archive.segments.segments import segment_base_position, segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.pipeline.decoding.synthetic import RecordingWriter
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_POSITION

SCHEMA_ID, SCHEMA_VERSION = 111, 17
_HEADER = struct.Struct("<HHHH")


def encode_record(template_id: int, block: bytes, tail: bytes = b"") -> bytes:
    """One log or snapshot record with its SBE header (sbe-encoding.md §2)."""
    return _HEADER.pack(len(block), template_id, SCHEMA_ID, SCHEMA_VERSION) + block + tail


def var_data(value: bytes) -> bytes:
    """Return an SBE var-data field."""
    return struct.pack("<I", len(value)) + value


def session_message(term: int, session_id: int, timestamp: int, payload: bytes) -> bytes:
    return encode_record(1, struct.pack("<qqq", term, session_id, timestamp), payload)


def session_open(
    term: int, correlation_id: int, session_id: int, timestamp: int, channel: bytes, principal: bytes
) -> bytes:
    block = struct.pack("<qqqqi", term, correlation_id, session_id, timestamp, 102)
    return encode_record(21, block, var_data(channel) + var_data(principal))


def session_close(term: int, session_id: int, timestamp: int, reason: int) -> bytes:
    return encode_record(22, struct.pack("<qqqi", term, session_id, timestamp, reason))


def timer_event(term: int, correlation_id: int, timestamp: int) -> bytes:
    return encode_record(20, struct.pack("<qqq", term, correlation_id, timestamp))


def cluster_action(term: int, position: int, timestamp: int, action: int, flags: int = 0) -> bytes:
    """Encode a cluster action. `position`: where its record begins."""
    return encode_record(23, struct.pack("<qqqii", term, position + 96, timestamp, action, flags))


def new_term(term: int, position: int, timestamp: int, leader: int, log_session_id: int, unit: int = 0) -> bytes:
    """Encode the first record of a term. `position`: where it begins, which is the term's base."""
    block = struct.pack("<qqqqiiii", term, position + 96, timestamp, position, leader, log_session_id, unit, 1)
    return encode_record(24, block)


class RecordingBuilder:
    """Writes one recording of an archive folder: `writer` takes messages, the catalog has it when the block is left."""

    def __init__(
        self,
        directory: str,
        *,
        stream_id: int = 100,
        term_length: int = 1 << 20,
        segment_length: int = 1 << 22,
        initial_term_id: int = 7,
        mtu: int = 1408,
        stopped: bool = True,
        channel: str = "aeron:ipc?alias=log",
    ) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self._stopped = stopped
        now_ms = time.time_ns() // 1_000_000
        template = RecordingDescriptor(
            -1, 0, NULL_POSITION, now_ms, NULL_TIMESTAMP, initial_term_id, segment_length, term_length, mtu, 1,
            stream_id, "aeron:ipc", channel, "aeron:ipc",
        )  # fmt: skip
        self.descriptor = self._in_catalog(lambda catalog: catalog.add(template))
        self.writer = RecordingWriter(self._write, term_length, initial_term_id, stream_id, 1, mtu)

    def __enter__(self) -> RecordingBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()

    def append(self, message: bytes) -> int:
        """Append a message and return the position after it."""
        return self.writer.append(message)

    def begin_position(self, length_bytes: int) -> int:
        """Where a record of this aligned length, frame header included, will begin; pads the term when it must."""
        offset = self.writer.position % self.writer.term_length_bytes
        if offset + length_bytes > self.writer.term_length_bytes:
            self.writer.end_term()
        return self.writer.position

    def finish(self) -> RecordingDescriptor:
        """Write what is left, and the stop position unless the recording is to look live."""
        self.writer.flush()
        if self._stopped:
            position, now_ms = self.writer.position, time.time_ns() // 1_000_000
            update = {"stop_position": position, "stop_timestamp": now_ms}
            self.descriptor = self._in_catalog(lambda catalog: catalog.update(self.descriptor.recording_id, **update))
        return self.descriptor

    def _in_catalog(self, action: Callable[[Catalog], RecordingDescriptor]) -> RecordingDescriptor:
        catalog = Catalog.open(FileStorage(open_lmdb), self.directory)
        try:
            return action(catalog)
        finally:
            catalog.close()

    def _write(self, position: int, data: memoryview) -> None:
        entry = self.descriptor
        base = segment_base_position(entry.start_position, position, entry.term_length, entry.segment_length)
        path = os.path.join(self.directory, segment_name(entry.recording_id, base))
        with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
            file.truncate(entry.segment_length)
            file.seek(position - base)
            file.write(data)


@dataclass(frozen=True)
class LogShape:
    """What a generated log looks like. Times in ms; `messages_per_ms` gives the clock its pace."""

    messages: int = 1_000_000
    sessions: int = 100
    terms: int = 4
    payload_min: int = 32
    payload_max: int = 288
    first_time: int = 1_700_000_000_000
    messages_per_ms: int = 100
    seed: int = 1
    term_length: int = 64 << 20
    segment_length: int = 128 << 20


def generate_log(directory: str, shape: LogShape) -> RecordingDescriptor:
    """Write a log of `terms` leadership terms. In each, sessions open, send in turn and close, and one timer fires.

    The same shape gives the same bytes.
    """
    with RecordingBuilder(
        directory, term_length=shape.term_length, segment_length=shape.segment_length, initial_term_id=0
    ) as builder:
        clock, session_id, done = shape.first_time, 1, 0
        for term in range(shape.terms):
            until = shape.messages * (term + 1) // shape.terms
            clock, session_id = _generate_term(builder, shape, term, until - done, clock, session_id)
            done = until
    return builder.descriptor


def _generate_term(
    builder: RecordingBuilder, shape: LogShape, term: int, count: int, clock: int, session_id: int
) -> tuple[int, int]:
    """One term; the clock and the next session id after it."""
    writer = builder.writer
    builder.append(new_term(term, builder.begin_position(96), clock, term % 3, 100 + term))
    for session in range(session_id, session_id + shape.sessions):
        channel = b"aeron:udp?endpoint=localhost:%d" % (20000 + session % 10000)
        builder.append(session_open(term, 5000 + session, session, clock, channel, b"client-%d" % session))
    writer.append_messages(
        count, term, session_id, shape.sessions, clock, 1, shape.messages_per_ms, shape.payload_min, shape.payload_max,
        shape.seed + term,
    )  # fmt: skip
    clock += count // shape.messages_per_ms + 1
    builder.append(timer_event(term, 9000 + term, clock))
    for session in range(session_id, session_id + shape.sessions):
        builder.append(session_close(term, session, clock, session % 3))
    return clock + 1, session_id + shape.sessions

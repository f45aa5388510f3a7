"""Numbered messages of a named write, so that a repeated write continues exactly, or is refused.

     0        4      5      8        16        24          28      32          40
    +--------+------+------+--------+---------+-----------+-------+-----------+------
    | "OSQ2" | kind | zero | write  | attempt | partition | batch | sequence  | body      little endian, unsigned
    +--------+------+------+--------+---------+-----------+-------+-----------+------

    OPEN      how far is this partition?                                       no body
    CONFIRM   what I write begins with what is there: `sequence` messages      body: u64 rolling hash of them
    ASK       how far is it now?                                               no body
    DATA      one message, number `sequence` of its partition                  body: the payload
    STATE     answer: sequence = last applied, attempt = who may write         body: u64 hash, u32 waiting, u32 batch

Each is a request, which a client sends until it is answered and the cluster executes once (docs/CLIENT.md); that does
not outlive the client, and an attempt has a client for each task. DATA that was applied is answered by the service,
everything else with STATE.

A write is a frame, or one batch of a stream, in partitions; an attempt is one run of it. The service keeps, for each
partition, how many messages it applied and the rolling hash of them. Nothing tells an attempt how many partitions an
earlier one had, so this is what makes it safe:

- a partition may write only after it has confirmed that its rows begin with those that are there, by their hash;
- nobody of an attempt may write anything new before it has confirmed every partition that has anything written.

Then what was written is exactly the beginnings of this attempt's partitions, and as those hold every row once, going on
loses and doubles nothing, however the earlier attempt was cut. Where it was cut otherwise, some partition is not
confirmed, and nothing is written. Messages of an earlier attempt that still arrive are not applied.

One partition more, MARK, has no messages and tells that a task is at work (pipeline/spark/pulse.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

HEADER = struct.Struct("<4sB3xQQIIQ")
MAGIC = b"OSQ2"
OPEN, CONFIRM, ASK, DATA, STATE = 1, 2, 3, 4, 6
STATE_BODY = struct.Struct("<QII")
HASH = struct.Struct("<Q")
WRITES_MAX = 4096
PARTITIONS_MAX = 1 << 16
"""Partitions of a write that the filter keeps."""
MARK = 1 << 31
WRITTEN_MAX = PARTITIONS_MAX - 1
"""Partitions that a write may have: the mark takes the place of one."""
_WRITE = struct.Struct("<QII")
_PARTITION = struct.Struct("<IQQQ")


class Envelope(NamedTuple):
    """One message, taken apart."""

    kind: int
    write: int
    attempt: int
    partition: int
    batch: int
    sequence: int
    body: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(MAGIC, *self[:6]) + self.body


def parse(message: bytes) -> Envelope | None:
    """Return the envelope of a message, or None when it has no such header."""
    if len(message) < HEADER.size or message[:4] != MAGIC:
        return None
    return Envelope._make([*HEADER.unpack_from(message)[1:], bytes(message[HEADER.size :])])


def roll(before: int, payload: bytes) -> int:
    """Return the rolling hash extended by one message; the hash of no messages is 0."""
    return int.from_bytes(blake2b(HASH.pack(before) + payload, digest_size=8).digest(), "little")


def roll_all(payloads: Iterable[bytes]) -> int:
    """Return the rolling hash after these messages."""
    value = 0
    for payload in payloads:
        value = roll(value, payload)
    return value


def write_id(name: str) -> int:
    """Return the number of a named write: the same whenever it is tried again."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


class Accepted(NamedTuple):
    """`payload` to apply, None when there is nothing to apply: then `answer` is what to answer the request with."""

    payload: bytes | None
    answer: bytes | None


@dataclass
class Partition:
    """What was applied of one partition, and the attempt that has confirmed it."""

    attempt: int = 0
    last: int = 0
    hash: int = 0


@dataclass
class Write:
    """What is known of the newest batch of a named write."""

    batch: int = 0
    partitions: dict[int, Partition] = field(default_factory=dict)
    clear_for: int | None = None
    """The attempt for which `waiting` was found to be 0; forgotten with every confirmation."""

    def waiting(self, attempt: int) -> int:
        """How many partitions have something written that this attempt has not confirmed."""
        return sum(entry.last > 0 and entry.attempt != attempt for entry in self.partitions.values())


class SequenceFilter:
    """For a service: what was applied of each write. Part of its state: `dump` it into snapshots.

    accepted = self.filter.accept(payload)
    if accepted.payload is None:
        return accepted.answer
    ...apply accepted.payload, and return your own answer to it, or none...

    It keeps the `writes_max` writes that began last; one that began before them is forgotten, and would be written
    again.
    """

    def __init__(self, dumped: bytes = b"", *, writes_max: int = WRITES_MAX) -> None:
        self._writes_max = writes_max
        self._writes: dict[int, Write] = {}
        offset = 0
        while offset < len(dumped):
            number, batch, count = _WRITE.unpack_from(dumped, offset)
            offset += _WRITE.size
            write = self._writes[number] = Write(batch)
            for _ in range(count):
                partition, *entry = _PARTITION.unpack_from(dumped, offset)
                write.partitions[partition] = Partition(*entry)
                offset += _PARTITION.size

    def accept(self, payload: bytes) -> Accepted:
        """Messages without a header pass as they are."""
        message = parse(payload)
        if message is None:
            return Accepted(payload, None)
        write = self._write_of(message)
        if write.batch == message.batch:
            if message.kind == CONFIRM:
                self._confirm(write, message)
            elif message.kind == DATA and self._is_next(write, message):
                entry = write.partitions[message.partition]
                entry.last, entry.hash = message.sequence, roll(entry.hash, message.body)
                return Accepted(message.body, None)
        return Accepted(None, self._state(write, message))

    def _write_of(self, message: Envelope) -> Write:
        write = self._writes.get(message.write)
        if write is None:
            write = Write(message.batch)
            if message.kind in (OPEN, CONFIRM):
                self._writes[message.write] = write
            if len(self._writes) > self._writes_max:
                del self._writes[next(iter(self._writes))]
        if message.kind == OPEN and message.batch > write.batch:  # a stream begins a batch when the one before is done
            write.batch, write.partitions, write.clear_for = message.batch, {}, None
        return write

    @staticmethod
    def _confirm(write: Write, message: Envelope) -> None:
        entry = write.partitions.get(message.partition, Partition())
        is_same = (entry.last, HASH.pack(entry.hash)) == (message.sequence, message.body)
        if is_same and (message.partition in write.partitions or len(write.partitions) < PARTITIONS_MAX):
            entry.attempt, write.clear_for = message.attempt, None
            write.partitions[message.partition] = entry

    @staticmethod
    def _is_next(write: Write, message: Envelope) -> bool:
        entry = write.partitions.get(message.partition)
        if entry is None or entry.attempt != message.attempt or message.sequence != entry.last + 1:
            return False
        if write.clear_for != message.attempt and not write.waiting(message.attempt):
            write.clear_for = message.attempt
        return write.clear_for == message.attempt

    @staticmethod
    def _state(write: Write, message: Envelope) -> bytes:
        entry = write.partitions.get(message.partition, Partition())
        body = STATE_BODY.pack(entry.hash, write.waiting(message.attempt), write.batch)
        state = Envelope(STATE, message.write, entry.attempt, message.partition, message.batch, entry.last, body)
        return state.encode()

    def dump(self) -> bytes:
        """Return the state, the same on every member; the constructor takes it back."""
        parts = []
        for number, write in self._writes.items():
            parts.append(_WRITE.pack(number, write.batch, len(write.partitions)))
            for partition, entry in sorted(write.partitions.items()):
                parts.append(_PARTITION.pack(partition, entry.attempt, entry.last, entry.hash))
        return b"".join(parts)

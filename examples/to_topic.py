"""Appends every message and request of a cluster to a topic, each exactly once, whoever is killed.

    python -m examples.to_topic 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 topic

A topic takes records at its end and no position beside them, as one of Kafka does. So each record carries the position
of the log that it comes from; a program that begins to write reads the last one first and goes on after it. Of two
programs only one may write, as with a transactional id of Kafka: here the folder is locked, and a record that was cut
when its program was killed is taken off before the next one.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from ordo import ClientSettings, Consumer, LogEntry
from ordo.errors import ClusterError

HEAD = struct.Struct("<IIq")
"""The payload's length, the checksum of position and payload, the position."""
BATCH_MAX = 10_000


class TopicRecord(NamedTuple):
    """One record of the topic."""

    position: int
    payload: bytes


def read_topic(folder: Path) -> Iterator[TopicRecord]:
    """Yields the whole records, the oldest first."""
    path = folder / "records"
    if path.exists():
        with path.open("rb") as file:
            yield from read_records(file)


def read_records(file: BinaryIO) -> Iterator[TopicRecord]:
    """Yields the whole records; the file stands behind the last one then."""
    while True:
        begin = file.tell()
        head = file.read(HEAD.size)
        length_bytes, checksum, position = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0, 0)
        payload = file.read(length_bytes)
        if not head or len(payload) != length_bytes or checksum != checksum_of(position, payload):
            file.seek(begin)
            return
        yield TopicRecord(position, payload)


def checksum_of(position: int, payload: bytes) -> int:
    """Tells a whole record from a cut one."""
    return crc32(payload, crc32(b"%d" % position))


class TopicWriter:
    """The only writer of a folder, from where the last whole record ends."""

    def __init__(self, folder: Path) -> None:
        """Waits until no other program writes."""
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        path = folder / "records"
        path.touch()
        self._file = path.open("rb+")
        self.position = max((one.position for one in read_records(self._file)), default=0)
        self._file.truncate()

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Appends what the topic does not have yet; it is on disk then."""
        for entry in entries:
            if entry.position > self.position:
                self.position = entry.position
                checksum = checksum_of(entry.position, entry.payload)
                self._file.write(HEAD.pack(len(entry.payload), checksum, entry.position) + entry.payload)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Lets another program write."""
        self._file.close()
        self._lock.close()


def run(endpoints: Sequence[str], folder: Path, name: str = "to-topic", egress: str = "127.0.0.1:0") -> None:
    """Appends messages until it is ended."""
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    writer: TopicWriter | None = None
    epoch = -1
    with Consumer(endpoints, name, settings=settings) as consumer:
        for first in consumer:
            entries = [first]
            consumer.take(entries.append, BATCH_MAX)
            if writer is not None and consumer.epoch != epoch:
                writer.close()  # another one may have written meanwhile
                writer = None
            if writer is None:
                writer, epoch = TopicWriter(folder), consumer.epoch
            writer.append(entries)
            try:
                consumer.commit(wait=False)
            except ClusterError:
                writer.close()  # another one is active now
                writer = None


if __name__ == "__main__":
    run(sys.argv[1].split(","), Path(sys.argv[2]))

"""Writes every message and request of a cluster into a folder of Parquet files, each exactly once, whoever is killed.

    python -m examples.to_parquet 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 messages

Several of these may run beside each other: one is active, the others stand by. A file is named after the log position
at which the one before it ends, and says where it ends itself. It gets its name when it is whole and on disk, and only
if there is no file of that name: so a program that was replaced, and does not know it yet, cannot write the same
messages into a second file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ordo import ClientSettings, Consumer, LogEntry
from ordo.errors import ClusterError

END_POSITION = b"end_position"
SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("session", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("identity", pa.binary(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
    ]
)
MESSAGES_PER_FILE = 10_000
SECONDS_PER_FILE = 1.0


def find_end(folder: Path) -> int:
    """The position up to which the folder has everything."""
    files = sorted(folder.glob("from-*.parquet"))
    return int(pq.read_schema(files[-1]).metadata[END_POSITION]) if files else 0


def write_file(folder: Path, start: int, entries: Sequence[LogEntry]) -> None:
    """One more file, whole or not at all. Raises FileExistsError when another program was first."""
    end = entries[-1].position
    rows = [
        (one.position, one.timestamp, one.session_id, one.payload, one.identity, one.request_number) for one in entries
    ]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    table = pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata({END_POSITION: str(end)}))
    unfinished = folder / f".{os.getpid()}-{start}.unfinished"
    try:
        pq.write_table(table, unfinished)
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        os.link(unfinished, folder / f"from-{start:020d}.parquet")
    finally:
        unfinished.unlink(missing_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store(folder: Path, entries: Sequence[LogEntry]) -> None:
    """Writes what the folder does not have yet."""
    while True:
        start = find_end(folder)
        new: list[LogEntry] = []
        for entry in entries:  # what a take-over handed out again may be among them twice
            if entry.position > (new[-1].position if new else start):
                new.append(entry)
        if not new:
            return
        try:
            write_file(folder, start, new)
        except FileExistsError:
            continue  # by a program that was replaced meanwhile, or has replaced this one


def run(endpoints: Sequence[str], folder: Path, name: str = "to-parquet", egress: str = "127.0.0.1:0") -> None:
    """Writes messages until it is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    with Consumer(endpoints, name, settings=settings) as consumer:
        while True:
            entries = gather(consumer)
            store(folder, entries)
            try:
                consumer.commit(wait=False)
            except ClusterError:
                continue  # another one is active now: it goes on where the folder ends


def gather(consumer: Consumer) -> list[LogEntry]:
    """Messages for one file: as many as fit, or as come within its time; at least one."""
    entries = [next(iter(consumer))]
    deadline_s = time.monotonic() + SECONDS_PER_FILE
    while len(entries) < MESSAGES_PER_FILE and time.monotonic() < deadline_s:
        if consumer.poll(entries.append, MESSAGES_PER_FILE - len(entries)) == 0:
            consumer.park()
    return entries


if __name__ == "__main__":
    run(sys.argv[1].split(","), Path(sys.argv[2]))

"""Writes every message and request of a cluster into an SQLite table, each exactly once, whoever is killed.

    python -m examples.to_sqlite 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 messages.db

Several of these may run beside each other: one is active, the others stand by. What has come is stored together, in
one transaction with the position after it: what is handed out again after a failure is not stored again. A request that
its client sent again is handed out once (`LogEntry.is_repeat`), so it is a row once.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

from ordo import ClientSettings, Consumer, LogEntry
from ordo.errors import ClusterError

TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS messages
    (position INTEGER PRIMARY KEY, session INTEGER, payload BLOB, identity BLOB, number INTEGER);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, position INTEGER);
"""
BATCH_MAX = 10_000
"""Rows of one transaction: it costs a sync of the disk, however many they are."""


def open_database(path: str, name: str) -> sqlite3.Connection:
    """The database, with the tables that are needed."""
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    database.executescript(TABLES)
    database.execute("INSERT OR IGNORE INTO progress VALUES (?, 0)", (name,))
    return database


def store(database: sqlite3.Connection, name: str, entries: Sequence[LogEntry]) -> None:
    """The effects of messages, and how far they are: all or nothing."""
    database.execute("BEGIN IMMEDIATE")  # nobody else writes until the end, such as a program that was replaced
    try:
        (stored,) = database.execute("SELECT position FROM progress WHERE name = ?", (name,)).fetchone()
        new = []
        for entry in entries:
            if entry.position > stored:  # none of what was stored before, nor twice in this batch after a take-over
                new.append(entry)
                stored = entry.position
        rows = ((one.position, one.session_id, one.payload, one.identity, one.request_number) for one in new)
        database.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", rows)
        if new:
            database.execute("UPDATE progress SET position = ? WHERE name = ?", (new[-1].position, name))
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def run(endpoints: Sequence[str], path: str, name: str = "to-sqlite", egress: str = "127.0.0.1:0") -> None:
    """Stores messages until it is ended."""
    database = open_database(path, name)
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    with Consumer(endpoints, name, settings=settings) as consumer:
        for first in consumer:
            entries = [first]
            while len(entries) < BATCH_MAX and consumer.poll(entries.append, BATCH_MAX - len(entries)):
                pass  # what has come meanwhile goes with it
            store(database, name, entries)
            try:
                consumer.commit(wait=False)
            except ClusterError:
                continue  # another one is active now: it goes on where it was told to, and stores what is new


if __name__ == "__main__":
    run(sys.argv[1].split(","), sys.argv[2])

"""Writes every message of a cluster into an SQLite table, each exactly once, whoever is killed.

    python -m examples.to_sqlite 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 messages.db

Several of these may run beside each other: one is active, the others stand by. The effect of a message and the position
behind it are stored in one transaction, so a message that is handed out again after a failure is not stored again.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

from ordo import ClientSettings, Consumer, LogEntry

TABLES = """
CREATE TABLE IF NOT EXISTS messages (position INTEGER PRIMARY KEY, session INTEGER, payload BLOB);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, position INTEGER);
"""


def open_database(path: str, name: str) -> sqlite3.Connection:
    """The database, with the tables that are needed."""
    database = sqlite3.connect(path, timeout=30)
    database.executescript(TABLES)
    database.execute("INSERT OR IGNORE INTO progress VALUES (?, 0)", (name,))
    database.commit()
    return database


def store(database: sqlite3.Connection, name: str, entry: LogEntry) -> None:
    """The effect of one message, and how far it is: both or neither."""
    with database:
        moved = database.execute(
            "UPDATE progress SET position = ? WHERE name = ? AND position < ?", (entry.position, name, entry.position)
        )
        if moved.rowcount:
            database.execute("INSERT INTO messages VALUES (?, ?, ?)", (entry.position, entry.session_id, entry.payload))


def run(endpoints: Sequence[str], path: str, name: str = "to-sqlite", egress: str = "127.0.0.1:0") -> None:
    """Stores messages until it is ended."""
    database = open_database(path, name)
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    with Consumer(endpoints, name, settings=settings) as consumer:
        for entry in consumer:
            store(database, name, entry)
            consumer.commit(wait=False)


if __name__ == "__main__":
    run(sys.argv[1].split(","), sys.argv[2])

"""Writes every message and request of a cluster into a PostgreSQL table, each exactly once, whoever is killed.

    python -m examples.to_postgres 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 "dbname=orders"

Several of these may run beside each other: one is active, the others stand by. Messages and the position behind them
are stored in one transaction, and the row with the position is locked meanwhile: what is there already, because this
program or one that was replaced has stored it, is not stored again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import psycopg

from ordo import ClientSettings, Consumer, LogEntry
from ordo.errors import ClusterError

TABLES = """
CREATE TABLE IF NOT EXISTS messages (position bigint PRIMARY KEY, session bigint NOT NULL, payload bytea NOT NULL,
    identity bytea NOT NULL, number bigint NOT NULL);
CREATE TABLE IF NOT EXISTS progress (name text PRIMARY KEY, position bigint NOT NULL);
"""
BATCH_MAX = 10_000
LOCK_OF_TABLES = 7_301_544
"""Two programs that create the same table at once disturb each other: they take turns."""


def open_database(conninfo: str, name: str) -> psycopg.Connection:
    """The database, with the tables that are needed."""
    database = psycopg.connect(conninfo)
    with database.transaction():
        database.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_OF_TABLES,))
        database.execute(TABLES)
        database.execute("INSERT INTO progress VALUES (%s, 0) ON CONFLICT DO NOTHING", (name,))
    return database


def store(database: psycopg.Connection, name: str, entries: Sequence[LogEntry]) -> None:
    """Messages, and how far they go: all or nothing."""
    with database.transaction(), database.cursor() as cursor:
        row = cursor.execute("SELECT position FROM progress WHERE name = %s FOR UPDATE", (name,)).fetchone()
        assert row is not None
        new = [
            (one.position, one.session_id, one.payload, one.identity, one.request_number)
            for one in entries
            if one.position > row[0]
        ]
        with cursor.copy("COPY messages FROM STDIN") as copy:
            for values in new:
                copy.write_row(values)
        if new:
            cursor.execute("UPDATE progress SET position = %s WHERE name = %s", (new[-1][0], name))


def run(endpoints: Sequence[str], conninfo: str, name: str = "to-postgres", egress: str = "127.0.0.1:0") -> None:
    """Stores messages until it is ended."""
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    with open_database(conninfo, name) as database, Consumer(endpoints, name, settings=settings) as consumer:
        for first in consumer:
            entries = [first]
            consumer.take(entries.append, BATCH_MAX)
            store(database, name, entries)
            try:
                consumer.commit(wait=False)
            except ClusterError:
                continue  # another one is active now


if __name__ == "__main__":
    run(sys.argv[1].split(","), sys.argv[2])

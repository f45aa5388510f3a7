"""Every sink has each executed request once, whoever is killed: the client, the sinks, the leader."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples import to_sqlite
from ordo import ClusterClient, EntryKind, LogEntry, LogReader
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from tests.clusters import STEADY, ready_cluster
from tests.examples.test_sinks import postgres as postgres
from tests.patience import factor, patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
ROUNDS = 3
Rows = list[tuple[int, bytes]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    options = {"session_timeout": f"{round(2 * min(3.0, factor()))}s"}
    with ready_cluster("ordo:Ordering", root=tmp_path / "cluster", cluster=options, heartbeat=STEADY) as cluster:
        yield cluster


def start(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-m", *words], env={**os.environ, "PYTHONPATH": str(ROOT)})


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def read_log(cluster: LocalCluster, repeats: bool, until_position: int) -> list[LogEntry]:
    """All requests of the log up to a position."""
    archives = [load_config(cluster.config_path(one)).own_member.archive for one in cluster.member_ids]
    with LogReader(archives, kinds=[EntryKind.REQUEST], repeats=repeats) as reader:
        return list(reader.entries(until_position=until_position))


def read_sqlite(path: Path) -> Rows:
    with sqlite3.connect(path, timeout=30) as database:
        return database.execute("SELECT position, payload FROM messages ORDER BY rowid").fetchall()


def read_parquet(folder: Path) -> Rows:
    pq = pytest.importorskip("pyarrow.parquet")
    found = [pq.ParquetFile(one).read(["position", "payload"]) for one in sorted(folder.glob("from-*.parquet"))]
    return [(row["position"], row["payload"]) for one in found for row in one.to_pylist()]


def read_topic(folder: Path) -> Rows:
    from examples import to_topic

    return [(one.position, one.payload) for one in to_topic.read_topic(folder)]


def read_postgres(conninfo: str) -> Rows:
    import psycopg

    with psycopg.connect(conninfo) as database:
        found = database.execute("SELECT position, payload FROM messages ORDER BY position").fetchall()
        return [(position, bytes(payload)) for position, payload in found]


@pytest.mark.thorough
def test_each_executed_request_is_in_each_sink_once(cluster: LocalCluster, tmp_path: Path, postgres: str) -> None:
    pytest.importorskip("psycopg")
    sinks: dict[str, tuple[str, Callable[[], Rows]]] = {
        "examples.to_sqlite": (str(tmp_path / "messages.db"), lambda: read_sqlite(tmp_path / "messages.db")),
        "examples.to_parquet": (str(tmp_path / "parquet"), lambda: read_parquet(tmp_path / "parquet")),
        "examples.to_topic": (str(tmp_path / "topic"), lambda: read_topic(tmp_path / "topic")),
        "examples.to_postgres": (postgres, lambda: read_postgres(postgres)),
    }
    members = ",".join(cluster.ingress_endpoints.values())
    answers = tmp_path / "answers.txt"
    client_words = ["tests.examples.retrying_client", members, str(tmp_path / "client.journal"), str(answers), "pay"]
    running = {name: start(name, members, place) for name, (place, _) in sinks.items()}
    client = start(*client_words)
    try:
        for round_number in range(ROUNDS):
            await_more_answers(answers, 600)
            leader = cluster.await_leader(60)
            cluster.send_signal(leader, signal.SIGSTOP)
            time.sleep(0.4)  # shorter than an election, longer than the client waits before it sends again
            cluster.send_signal(leader, signal.SIGCONT)
            await_more_answers(answers, 200)
            killed = cluster.await_leader(60)
            cluster.kill(killed)
            cluster.await_leader(60)
            await_more_answers(answers, 600)
            end(client)
            client = start(*client_words)
            name = list(sinks)[round_number % len(sinks)]
            for one in {name, list(sinks)[-1 - round_number % len(sinks)]}:
                end(running[one])
                running[one] = start(one, members, sinks[one][0])
            cluster.restart(killed)
        await_more_answers(answers, 400)
        end(client)
        with ClusterClient(members.split(",")) as last:
            last_position = last.request(b"the last one", timeout_s=patient(30)).log_position
        executed = [(one.position, one.payload) for one in read_log(cluster, False, last_position)]
        copies = [one for one in read_log(cluster, True, last_position) if one.is_repeat]
        assert copies, "nothing was sent again: this shows nothing"
        assert len({payload for _, payload in executed}) == len(executed)
        assert {int(line) for line in answers.read_text().split()} <= {position for position, _ in executed}
        for name, (_, read) in sinks.items():
            await_row(running[name], read, last_position)
            found = [row for row in read() if row[0] <= last_position]
            assert found == executed, f"{name}: of what the killed client had sent more may come after the last one"
    finally:
        for process in (client, *running.values()):
            end(process)


def await_row(sink: subprocess.Popen[bytes], read: Callable[[], Rows], position: int) -> None:
    """Returns once a sink has what is executed at a position."""
    deadline_s = time.monotonic() + patient(60)
    while max((row[0] for row in read()), default=0) < position:
        assert sink.poll() is None and time.monotonic() < deadline_s, sink.args
        time.sleep(0.2)


def await_more_answers(path: Path, count: int) -> None:
    def answered() -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    before, deadline_s = answered(), time.monotonic() + patient(90)
    while answered() < before + count:
        assert time.monotonic() < deadline_s, f"{answered() - before} of {count} are answered"
        time.sleep(0.05)


def test_sqlite_takes_over_20_000_rows_a_second(tmp_path: Path) -> None:
    """What has come goes into one transaction. Measured with what the consumer hands out at once when it is behind."""
    database = to_sqlite.open_database(str(tmp_path / "messages.db"), "rate")
    entries = [LogEntry(64 * one, EntryKind.MESSAGE, 1, 0, 7, b"x" * 64) for one in range(1, 100_001)]
    began_s = time.process_time()
    for first in range(0, len(entries), 1000):
        to_sqlite.store(database, "rate", entries[first : first + 1000])
    lasted_s = time.process_time() - began_s
    assert database.execute("SELECT count(*) FROM messages").fetchone() == (100_000,)
    assert lasted_s < 5, f"{100_000 / lasted_s:.0f} rows a second"
    to_sqlite.store(database, "rate", entries[-500:])
    to_sqlite.store(database, "rate", [*entries[-2:], LogEntry(7_000_000, EntryKind.MESSAGE, 1, 0, 7, b"y")] * 2)
    assert database.execute("SELECT count(*), max(position) FROM messages").fetchone() == (100_001, 7_000_000)
    database.close()

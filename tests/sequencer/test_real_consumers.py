"""Durable consumers in processes of their own, killed while they read."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ordo.cli import main
from ordo.cluster.client.session import ClusterClient
from ordo.consumers.consumer import Consumer
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, NotSequencedError
from tests.clusters import STEADY, ready_cluster
from tests.patience import factor, patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    options = {"session_timeout": f"{round(2 * min(3.0, factor()))}s"}
    with ready_cluster("ordo:Ordering", root=tmp_path / "cluster", cluster=options, heartbeat=STEADY) as cluster:
        yield cluster


def endpoints(cluster: LocalCluster) -> list[str]:
    return list(cluster.ingress_endpoints.values())


def await_until(is_true: Callable[[], object], client: ClusterClient, timeout_s: float = 60) -> bool:
    deadline_s = time.monotonic() + patient(timeout_s)
    while not is_true() and time.monotonic() < deadline_s:
        client.poll()
        time.sleep(0.01)
    return bool(is_true())


def test_a_killed_consumer_is_followed_by_another_and_each_message_has_its_effect_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path = tmp_path / "messages.db"
    arguments = [sys.executable, "-P", "-m", "examples.to_sqlite", ",".join(endpoints(cluster)), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes: list[subprocess.Popen[bytes]] = []
    database = sqlite3.connect(path, timeout=30)
    try:
        with ClusterClient(cluster.ingress_endpoints) as client:
            processes.append(subprocess.Popen(arguments, env=environment))
            sent: list[bytes] = []
            for _ in range(3):
                for _ in range(100):
                    sent.append(b"message %d" % len(sent))
                    send_surely(client, sent[-1])
                wanted = len(sent) - 80
                assert await_until(partial(has_more, database, wanted), client)
                processes.append(subprocess.Popen(arguments, env=environment))  # stands by, or is active when killed
                processes[0].kill()
                processes.pop(0).wait()
            assert await_until(lambda: count(database) >= len(sent), client)
        rows = database.execute("SELECT payload FROM messages ORDER BY position").fetchall()
        assert [bytes(row[0]) for row in rows] == sent
    finally:
        database.close()
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.thorough
def test_killed_workers_are_replaced_and_every_job_is_done(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "done.txt"
    path.touch()
    arguments = [sys.executable, "-P", "-m", "examples.work_queue", ",".join(endpoints(cluster)), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)

    def done() -> set[bytes]:
        return {line.split(b" ", 2)[2] for line in path.read_bytes().splitlines()}

    workers = [start(), start(), start()]
    sent: list[bytes] = []
    try:
        with ClusterClient(cluster.ingress_endpoints) as client:
            for round_number in range(4):
                for _ in range(60):
                    sent.append(b"job %d" % len(sent))
                    send_surely(client, sent[-1])
                send_surely(client, b"fail %d" % round_number)
                assert await_until(lambda: len(done()) > len(sent) - 50, client)
                if round_number == 2:
                    leader = cluster.await_leader(60)
                    cluster.kill(leader)
                    cluster.start_member(leader)
                else:
                    workers[0].kill()
                    workers.pop(0).wait()
                    workers.append(start())
            assert await_until(lambda: len(done()) == len(sent), client)
        assert done() == set(sent)
        with ConsumerOrders(endpoints(cluster)) as orders:
            deadline_s = time.monotonic() + patient(60)
            while (found := orders.describe("jobs"))["dead"] < 4 or found["in_flight"] or found["waiting"]:
                assert time.monotonic() < deadline_s, found
                time.sleep(0.2)
        assert found["dead"] == 4, "the jobs that fail, and no other"
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def send_surely(client: ClusterClient, payload: bytes) -> None:
    """Again, where it is certain that the message went down with its leader."""
    while True:
        try:
            client.send(payload, until="sequenced")
            return
        except NotSequencedError:
            continue


def has_more(database: sqlite3.Connection, wanted: int) -> bool:
    return count(database) > wanted


def count(database: sqlite3.Connection) -> int:
    try:
        return int(database.execute("SELECT count(*) FROM messages").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the table is not there yet


def test_it_goes_on_after_all_nodes_were_killed_and_a_standby_takes_over(cluster: LocalCluster) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        for number in range(10):
            send_surely(client, b"%d" % number)
    with Consumer(endpoints(cluster), "risk") as first:
        assert [entry.payload for _, entry in zip(range(4), first, strict=False)] == [b"0", b"1", b"2", b"3"]
        first.commit()
        with Consumer(endpoints(cluster), "risk") as second:
            assert list(second.entries(timeout_s=1)) == []
            assert (first.is_active, second.is_active) == (True, False)
            first.close()
            assert next(iter(second)).payload == b"4"
            with pytest.raises(ClusterError, match="was not handed out in this epoch"):
                second.commit(second.position - 32)
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    for member_id in cluster.member_ids:
        cluster.start_member(member_id)
    cluster.await_leader(60)
    with Consumer(endpoints(cluster), "risk") as third:
        assert next(iter(third)).payload == b"4"


def test_operators_look_and_move(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    def ordo(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["consumers", *words, "--endpoints", ",".join(endpoints(cluster))])
        found = capsys.readouterr()
        return found.out if ended.value.code == 0 else f"{ended.value.code}: {found.err}"

    with ClusterClient(cluster.ingress_endpoints) as client, Consumer(endpoints(cluster), "risk") as consumer:
        for number in range(10):
            send_surely(client, b"%d" % number)
        entries = [entry for _, entry in zip(range(5), consumer, strict=False)]
        consumer.commit()
        (row,) = json.loads(ordo("list", "--json"))
        assert (row["name"], row["mode"], row["members"], row["paused"]) == ("risk", "exclusive", 1, False)
        assert (row["position"], row["lag"] > 0) == (entries[-1].position, True)
        assert "risk" in ordo("list")
        assert json.loads(ordo("describe", "risk", "--json"))["sessions"][0]["active"]
        assert ordo("pause", "risk") == ""
        consumer_is_told(consumer, lambda: consumer.is_paused)
        assert list(consumer.entries(timeout_s=0.3)) == []
        assert ordo("seek", "risk", "--to", "first") == "risk goes on at position 0\n"
        assert json.loads(ordo("seek", "risk", "--to", "0", "--json")) == {"name": "risk", "position": 0}
        assert json.loads(ordo("resume", "risk", "--json")) == {"name": "risk", "paused": False}
        assert next(iter(consumer)).payload == b"0", "its member goes on at the new position"
        assert ordo("pause", "nobody").startswith("1: ") and "ordo consumers list" in ordo("pause", "nobody")
        assert ordo("seek", "risk", "--to", "yesterday").startswith("2: ")
        assert "allowed is 0 to" in ordo("seek", "risk", "--to", str(1 << 40))
        before, inside = entries[1].position, entries[1].position + 32
        refused = ordo("seek", "risk", "--to", str(inside))
        said = re.search(r"records begin at position=(\d+) and position=(\d+)", refused)
        assert said is not None and int(said[1]) == before and before < int(said[2]) <= entries[2].position
        assert next(iter(consumer)).payload == b"1", "nothing was moved"
        assert ordo("seek", "risk", "--to", said[2]) == f"risk goes on at position {said[2]}\n"
        assert json.loads(ordo("describe", "risk", "--json"))["position"] == int(said[2])
        assert json.loads(ordo("remove", "risk", "--json")) == {"name": "risk", "removed": True}
        assert json.loads(ordo("list", "--json")) == []
        with pytest.raises(ClusterError, match="nothing is left of its position"):  # told at once, or when it asks next
            list(consumer.entries(timeout_s=patient(20)))


def consumer_is_told(consumer: Consumer, is_true: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + patient(20)
    while not is_true():
        assert time.monotonic() < deadline_s
        assert consumer.poll(lambda entry: None, 0) == 0


def test_live_and_positions_and_what_is_refused(cluster: LocalCluster) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.send(b"before", until="sequenced")
        with Consumer(endpoints(cluster), "live", start="live") as live:
            consumer_is_told(live, lambda: live.position >= 0)
            client.send(b"after", until="sequenced")
            entry = next(iter(live))
            assert entry.payload == b"after"
        with Consumer(endpoints(cluster), "from", start=entry.position) as behind:
            client.send(b"last", until="sequenced")
            assert next(iter(behind)).payload == b"last"
    with (
        Consumer(endpoints(cluster), "future", start=1 << 40) as future,
        pytest.raises(ConfigurationError, match="ends"),
    ):
        next(iter(future))
    inside = entry.position + 32
    with (
        Consumer(endpoints(cluster), "inside", start=inside) as wrong,
        pytest.raises(ArchiveError, match=f"consumer inside: start: position={inside} is inside a record"),
    ):
        next(iter(wrong))
    with ConsumerOrders(endpoints(cluster)) as orders:
        assert "inside" not in [one["name"] for one in orders.list_all()], "none was begun there"
    with Consumer(endpoints(cluster), "from", start=inside) as again:
        assert next(iter(again)).payload == b"last", "one that is there goes on where it stands"
    with pytest.raises(ConfigurationError, match="allowed are 1 to 64 letters"):
        Consumer(endpoints(cluster), "a name")

"""Applications in processes of their own: every output once in the log, whoever is killed or stopped."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.follow.reader import LogReader
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, RequestIdError
from tests.archive.served import Served
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.sequencer.instances import Instances, Outputs, await_outputs, executed, expected, look, look_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with ready_cluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        yield cluster


def check_reply(cluster: LocalCluster) -> None:
    """What an application answers comes to the client, once, though two instances write it."""
    heard: list[bytes] = []
    with ClusterClient(cluster.ingress_endpoints, on_message=lambda _, __, payload: heard.append(payload)) as client:
        client.send(b"how many?", timeout_s=patient(30))
        deadline_s = time.monotonic() + patient(30)
        while not heard and time.monotonic() < deadline_s:
            client.poll()
        client.request(b"how many?", timeout_s=patient(30))
        while len(heard) < 2 and time.monotonic() < deadline_s:
            client.poll()
    assert heard == [b"v2 7", b"v2 7"]


def check_queries(cluster: LocalCluster, expected_payload: bytes, position: int) -> None:
    """Instances answer queries of any client, out of a state that has all that was answered before."""
    with ClusterClient(cluster.ingress_endpoints) as client:
        for consistency in ("linearizable", "stale"):
            reply = client.query(
                b"", group="tested", consistency=consistency, min_position=position, timeout_s=patient(30)
            )
            assert reply.payload == expected_payload and reply.log_position >= position
        with pytest.raises(ClusterTimeoutError, match=r"group=nobody .* no instance of group 'nobody' answers queries"):
            client.query(b"", group="nobody", timeout_s=patient(1))


def check_upgrade(cluster: LocalCluster, instances: Instances, capsys: pytest.CaptureFixture[str]) -> None:
    """The instance `b` has executed five messages of two bytes. All go on with other code while one runs at least."""
    order = ["app", "upgrade", "--group", "tested", "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--to"]
    assert run([*order, "2.0.0"]) == 1
    assert "2.0.0 is not the newest code of b: start each" in capsys.readouterr().err
    both = ("--service", "2.0.0=tests.sequencer.applications:Renumbered")
    outputs = Outputs(cluster)
    try:
        instances.start("a", *both, service="1.2.0=tests.sequencer.applications:Numbered")
        assert instances.end("b") == 0
        instances.start("b", *both, service="1.2.0=tests.sequencer.applications:Numbered")
        look_until(lambda rows: [row["newest_version"] for row in rows] == ["2.0.0"] * 2, cluster, capsys)
        with ClusterClient(cluster.ingress_endpoints) as client:
            before = client.request(b"xx", timeout_s=patient(30)).log_position
            assert run([*order, "2.0.0", "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            position = told.pop("position")
            assert told == {"group": "tested", "version": "2.0.0"}
            assert before < position < client.request(b"xx", timeout_s=patient(30)).log_position
            await_outputs(client, outputs, instances, 14)
        old, new = expected([2] * 7)[:12], expected([2] * 7)[12:]
        assert outputs.payloads == [*old, *(b"v2 " + one for one in new)] and not outputs.different
        look_until(lambda rows: [row["version"] for row in rows] == ["2.0.0"] * 2, cluster, capsys)
        check_reply(cluster)
        assert run([*order, "2.0.0"]) == 1
        assert "execute version 2.0.0 already" in capsys.readouterr().err
    finally:
        outputs.close()


@pytest.mark.thorough
def test_everybody_can_see_the_instances(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path)
    endpoints = ["--endpoints", ",".join(cluster.ingress_endpoints.values())]
    try:
        assert look(cluster, capsys) == []
        instances.start("a")
        instances.start("b")
        with ClusterClient(cluster.ingress_endpoints) as client:
            for _ in range(5):
                written = client.request(b"xx", timeout_s=patient(30)).log_position
        found = look_until(
            lambda rows: len(rows) == 2 and all(row["outputs_executed"] == 10 for row in rows), cluster, capsys
        )
        assert {(row["group"], row["instance"], row["version"], row["active"]) for row in found} == {
            ("tested", "a", "1.2.0", True),
            ("tested", "b", "1.2.0", True),
        }
        assert all(written <= row["position"] == row["log_position"] - row["lag"] for row in found)
        check_queries(cluster, b"5", written)
        cluster.kill(cluster.await_leader())
        cluster.await_leader()
        check_queries(cluster, b"5", written)
        look_until(
            lambda rows: {row["instance"] for row in rows} == {"a", "b"}, cluster, capsys
        )  # others know them too
        assert instances.end("a") == 0
        look_until(lambda rows: [row["instance"] for row in rows] == ["b"], cluster, capsys)
        assert run(["apps", *endpoints]) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("tested", "1.2.0", "writes"))
        check_upgrade(cluster, instances, capsys)
    finally:
        instances.close()
    assert run(["apps", "--endpoints", "localhost"]) == 2
    assert "--endpoints" in capsys.readouterr().err


def test_outputs_that_the_service_refuses_are_counted_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were counted among the others, and nobody heard of it."""
    with ready_cluster("tests.sequencer.applications:Strict", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path)
        try:
            instances.start("a")
            with ClusterClient(cluster.ingress_endpoints) as client:
                client.request_many([b"xx"] * 20, timeout_s=patient(30))
            (found,) = look_until(lambda rows: [refusals_of(row) for row in rows] == [(40, 20)], cluster, capsys)
            assert found["outputs_made"] == 40 and found["refused_exact"], "beyond 15, too"
            assert run(["apps", "--endpoints", ",".join(cluster.ingress_endpoints.values())]) == 0
            head, row = capsys.readouterr().out.splitlines()
            assert row[head.index("refused") :].split()[0] == "20" and "writes" in row
            assert instances.end("a") == 0
        finally:
            instances.close()
        lines = [json.loads(line) for line in instances.log("a").splitlines() if line.startswith("{")]
        refused = [(one["output"], one["reason"]) for one in lines if one["event"] == "app.refused"]
        assert refused == [(number, "no second ones") for number in range(2, 41, 2)]
        assert [one["refused"] for one in lines if one["event"] == "app.ended"] == [20]


def test_an_id_is_executed_once_whether_a_client_or_an_application_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ready_cluster("ordo:Ordering", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        instances = Instances(cluster, "tests.sequencer.applications:Settling", tmp_path)
        try:
            with ClusterClient(cluster.ingress_endpoints) as client:
                await_that(lambda: takes_ids(client), "the level of ids")
                client.request(b"settle 1", id=b"settlement 1", timeout_s=patient(30))
                instances.start("a")
                for name in (b"1", b"2", b"2", b"3"):
                    client.request(b"order " + name, timeout_s=patient(30))
                look_until(lambda rows: [row["outputs_executed"] for row in rows] == [4], cluster, capsys)
                answer = client.request(b"settle 3", id=b"settlement 3", timeout_s=patient(30))
                again = client.request(b"settle 3", id=b"settlement 3", timeout_s=patient(30))
                assert answer == again
                with pytest.raises(RequestIdError, match="used for another payload"):
                    client.request(b"settle 4", id=b"settlement 3", timeout_s=patient(30))
                end = client.request(b"end", timeout_s=patient(30)).log_position
            with LogReader([load_config(cluster.config_path(0)).own_member.archive], repeats=True) as reader:
                settled = [one for one in reader.entries(until_position=end) if one.payload.startswith(b"settle ")]
            executed = [(one.payload, one.kind.value) for one in settled if not one.is_repeat]
            assert executed == [(b"settle 1", "request"), (b"settle 2", "output"), (b"settle 3", "output")]
            assert len(settled) > len(executed)
            assert instances.end("a") == 0
        finally:
            instances.close()
        lines = [json.loads(line) for line in instances.log("a").splitlines() if line.startswith("{")]
        assert [(one["refused"], one["repeated"]) for one in lines if one["event"] == "app.ended"] == [(0, 2)]


def takes_ids(client: ClusterClient) -> bool:
    """Whether the log has come to the level of requests with ids."""
    try:
        client.request(b"ready?", id=b"ready?", timeout_s=patient(30))
    except ClusterError as error:
        assert "need protocol level" in error.message
        return False
    return True


def refusals_of(row: dict[str, int]) -> tuple[int, int]:
    return row["outputs_executed"], row["outputs_refused"]


def positions_of(event: str, log: str) -> list[int]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [int(one["position"]) for one in lines if one["event"] == event]


def has_left_some(log: str) -> bool:
    """Whether an instance has left a snapshot of more than the beginning."""
    return any(positions_of("app.snapshot_left", log))


def start_position(log: str) -> int:
    """Where the instance began that has logged this."""
    return positions_of("app.started", log)[0]


@pytest.fixture
def archive(tmp_path: Path, shm_path: Path, free_port: Callable[[], int]) -> Iterator[Served]:
    with Served(free_port(), tmp_path / "archive", shm_path / "driver") as one:
        yield one


def test_three_instances_one_killed_one_stopped(cluster: LocalCluster, archive: Served, tmp_path: Path) -> None:
    """In place of the one that is killed comes one without a checkpoint, which begins with a snapshot of the group."""
    options = ("--archive", archive.address, "--archive-every", "0.3")
    instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path, *options)
    outputs = Outputs(cluster)
    try:
        for name in ("a", "b", "c"):
            instances.start(name)
        lengths = [number * 7 % 90 for number in range(600)]
        with ClusterClient(cluster.ingress_endpoints) as client:
            for number, length_bytes in enumerate(lengths):
                client.request(b"x" * length_bytes, timeout_s=patient(30))
                outputs.poll()
                if number == 150:
                    instances.kill("a")
                elif number == 200:
                    instances.send("b", signal.SIGSTOP)
                elif number == 350:
                    await_that(lambda: has_left_some(instances.log("c")), "a snapshot of more than nothing")
                    instances.start("d")
                    assert start_position(instances.log("d")) > 0
                    killed = cluster.await_leader()
                    cluster.kill(killed)
                elif number == 400:
                    instances.send("b", signal.SIGCONT)
            await_outputs(client, outputs, instances, 1200)
            by_member = [executed(client, one, 1200) for one in cluster.member_ids if one != killed]
        assert outputs.payloads == expected(lengths)
        assert by_member == [expected(lengths)] * 2
        assert not outputs.different
        assert [instances.end(name) for name in ("b", "c", "d")] == [0, 0, 0]
    finally:
        instances.close()
        outputs.close()

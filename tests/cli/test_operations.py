"""What somebody who runs a cluster goes by: exit statuses, JSON and the log of a member, on real nodes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.bench.node_cost import family
from ordo.cli import run
from ordo.cluster.node.life_log import exposed_endpoints
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.version import VERSION
from tests.cluster.integration.command import ordo
from tests.clusters import STEADY, ready_cluster

pytestmark = pytest.mark.slow
NO_QUORUM = 3


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with ready_cluster("ordo.bench.loads.echo:Echo", sync="none") as started:
        yield started


@pytest.fixture
def falling_cluster() -> Iterator[LocalCluster]:
    with ready_cluster("ordo.bench.loads.echo:Echo", sync="none", heartbeat=STEADY) as started:
        yield started


def config_of(cluster: LocalCluster, member_id: int) -> list[str]:
    return ["--config", str(cluster.config_path(member_id))]


def status_of(cluster: LocalCluster, member_id: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    """The exit status, what was printed as JSON, and the lines beside it."""
    status = run(["cluster", "status", "--json", *config_of(cluster, member_id)])
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def test_a_member_that_is_left_alone_says_that_there_is_no_quorum(
    falling_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = falling_cluster
    survivor, *others = cluster.member_ids

    def answered(status: int) -> tuple[Any, str] | None:
        found, shown, errors = status_of(cluster, survivor, capsys)
        return (shown, errors) if found == status else None

    shown, errors = cluster.await_value(lambda: answered(0), "a member with a quorum")
    assert shown["has_quorum"] is True
    assert errors == ""
    for other in others:
        cluster.kill(other)
    shown, errors = cluster.await_value(lambda: answered(NO_QUORUM), "a member without a quorum")
    assert shown["has_quorum"] is False
    assert shown["election"] != "CLOSED"
    assert errors.startswith(f"ordo: no quorum: member {survivor} neither leads nor follows")
    assert errors.count("\n") == 1
    assert run(["cluster", "status", *config_of(cluster, survivor)]) == NO_QUORUM
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if "has quorum" in line) == ["has", "quorum", "NO"]
    cluster.start_member(others[0])
    cluster.await_value(lambda: answered(0), "a quorum of two")
    cluster.kill(survivor)
    alone = ["cluster", "status", *config_of(cluster, survivor)]
    cluster.await_value(lambda: run(alone) == 1 or None, "its death, which shows when its heartbeat is 0.3 s old")


def test_members_and_list_as_json(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    leader = cluster.await_leader()
    assert run(["cluster", "members", "--json", *config_of(cluster, leader)]) == 0
    members = json.loads(capsys.readouterr().out)
    assert [member["id"] for member in members] == list(cluster.member_ids)
    assert [member["id"] for member in members if member["is_this_node"]] == [leader]
    assert {member["id"]: member["ingress"] for member in members} == cluster.ingress_endpoints
    assert run(["cluster", "list", "--json", *config_of(cluster, leader)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["role"] for one in listed] == ["voter"] * 3
    assert [one["member_id"] for one in listed if one["is_leader"]] == [leader]
    follower = next(one for one in cluster.member_ids if one != leader)
    assert run(["cluster", "list", "--json", *config_of(cluster, follower)]) == 0
    positions = {one["member_id"]: one["log_position"] for one in json.loads(capsys.readouterr().out)}
    assert positions[leader] is None, "a follower knows its own position only"
    assert isinstance(positions[follower], int)


def events(cluster: LocalCluster, member_id: int, name: str) -> list[dict[str, object]]:
    return list(cluster.log_events(member_id, name))


def test_the_log_of_a_member_tells_its_life(cluster: LocalCluster) -> None:
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    config = load_config(cluster.config_path(follower))
    (start,) = events(cluster, follower, "node.start")
    assert (start["version"], start["member_id"], start["sync"]) == (VERSION, follower, "none")
    assert start["members"] == list(cluster.member_ids)
    assert (start["ingress"], start["archive"]) == (config.own_member.ingress, config.own_member.archive)
    assert (start["data_dir"], start["aeron_dir"]) == (str(config.node.data_dir), str(config.aeron_dir))
    assert (start["max_sessions"], start["max_replays"]) == (4096, 4)
    assert events(cluster, follower, "node.exposed") == [], "all of it is on loopback"
    term = cluster.leader_term(leader)
    for member_id, role in ((leader, f"term {term} is on a quorum"), (follower, f"follows member {leader}")):
        ready = cluster.await_value(
            lambda: [one for one in events(cluster, member_id, "cluster.election") if one["state"] == "CLOSED"] or None,  # noqa: B023
            "the end of the election",
        )
        assert (ready[-1]["reason"], ready[-1]["leadership_term_id"]) == (role, term)

    assert run(["cluster", "snapshot", *config_of(cluster, leader)]) == 0
    for member_id in cluster.member_ids:
        taken = cluster.await_value(lambda: events(cluster, member_id, "cluster.snapshot") or None, "a line")  # noqa: B023
        assert len(taken) == 1
        assert str(taken[0]["text"]).startswith("snapshot taken at log position ")

    assert cluster.stop(follower) == 0
    assert [stop["reason"] for stop in events(cluster, follower, "node.stop")] == ["SIGTERM"]
    cluster.start_member(follower)
    cluster.await_value(lambda: len(events(cluster, follower, "node.start")) == 2 or None, "a second start")
    assert cluster.kill(follower, signal.SIGKILL) == -signal.SIGKILL
    assert len(events(cluster, follower, "node.stop")) == 1, "who is killed says nothing"
    assert run(["cluster", "shutdown", *config_of(cluster, cluster.await_leader())]) == 0
    others = [one for one in cluster.member_ids if one != follower]
    for member_id in others:
        assert cluster.wait(member_id) == 0
        (stop,) = events(cluster, member_id, "node.stop")
        assert (stop["reason"], stop["level"]) == ("shutdown of the cluster", "info")


def test_a_node_that_fails_says_why_it_stops() -> None:
    json_only = {"log_format": "json"}
    with ready_cluster("ordo.bench.loads.echo:Echo", member_count=1, sync="none", node=json_only) as cluster:
        second = ordo("node", *config_of(cluster, 0), "--service", cluster.service)
        said = [json.loads(line) for line in second.stderr.splitlines()]
        assert (second.returncode, said[-1]["event"], said[-1]["exit_status"]) == (1, "ordo.failed", 1)
        assert "in use" in said[-1]["text"]

        (container,) = set(family(cluster.pid(0))) - {cluster.pid(0)}
        os.kill(container, signal.SIGKILL)
        assert cluster.wait(0) == 1
        (stop_line,) = events(cluster, 0, "node.stop")
        assert stop_line["level"] == "error"
        assert f"the service container (pid={container}) was killed by signal 9" in str(stop_line["reason"])
        assert all(json.loads(line)["event"] for line in cluster.logs(0).splitlines())


def test_a_node_beyond_loopback_warns_at_every_start() -> None:
    with ready_cluster("ordo.bench.loads.echo:Echo", member_count=1, sync="none", hosts={0: "0.0.0.0"}) as cluster:
        cluster.restart(0)
        cluster.await_leader()
        warnings = events(cluster, 0, "node.exposed")
        assert [warning["level"] for warning in warnings] == ["warning"] * 2
        assert "neither encrypted nor authenticated" in str(warnings[0]["text"])
        assert len(warnings[0]["endpoints"]) == 5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "is_exposed"),
    [
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("localhost", False),
        ("[::1]", False),
        ("0.0.0.0", True),
        ("10.0.0.1", True),
        ("[2001:db8::1]", True),
        ("no-such-host.invalid", True),
    ],
)
def test_what_is_beyond_loopback(tmp_path: Path, host: str, is_exposed: bool) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        f'[node]\nmember_id = 0\ndata_dir = "{tmp_path}"\n[[members]]\nid = 0\nhost = "{host}"\nport = 20000\n'
    )
    assert len(exposed_endpoints(load_config(path))) == (5 if is_exposed else 0)

"""A real cluster of three, ordered about by a process that knows endpoints only: with authentication and without."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.counter_types import ControlToggle, CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import NotPermittedError, OutcomeUnknownError
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_that, counter_of
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import LendCluster, lend_cluster
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.shared_clusters import suspended_in

__all__ = ["lend_cluster"]
pytestmark = pytest.mark.slow
OPERATOR, CLIENT, READER = new_token(), new_token(), new_token()
TOKENS: list[dict[str, object]] = [
    {"principal": "root", "hash": hash_token(OPERATOR), "roles": ["operator"]},
    {"principal": "desk", "hash": hash_token(CLIENT), "roles": ["ingress", "queries", "administration"]},
    {"principal": "tape", "hash": hash_token(READER), "roles": ["log"]},
]
SERVICE = "ordo.bench.loads.echo:Echo"


class Desk:
    """Runs `ordo cluster` as a process of its own, from endpoints."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.tokens = {name: folder / f"{name}.token" for name in ("operator", "client", "reader")}
        for path, token in zip(self.tokens.values(), (OPERATOR, CLIENT, READER), strict=True):
            path.write_text(token + "\n")

    def run(
        self, *words: str, who: str | None = "operator", members: tuple[int, ...] | None = None
    ) -> CompletedProcess[str]:
        known = self.cluster.ingress_endpoints
        endpoints = ",".join(known[one] for one in members or tuple(known))
        token = [] if who is None else ["--token-file", str(self.tokens[who])]
        return ordo("cluster", *words, "--endpoints", endpoints, *token)

    def json(self, *words: str, **more: Any) -> Any:
        done = self.run(*words, "--json", **more)
        assert done.returncode == 0, done
        return json.loads(done.stdout)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Desk]:
    """With [[tokens]]."""
    with ready_cluster(SERVICE, sync="none", root=tmp_path / "cluster", tables={"tokens": TOKENS}) as cluster:
        yield Desk(cluster, tmp_path)


@pytest.fixture
def shared_guarded(lend_cluster: LendCluster, tmp_path: Path) -> Desk:
    """With [[tokens]], for tests whose orders are all refused."""
    return Desk(lend_cluster(SERVICE, sync="none", tables={"tokens": TOKENS}), tmp_path)


@pytest.fixture
def shared_open(lend_cluster: LendCluster, tmp_path: Path) -> Desk:
    """Without authentication, for tests whose orders are all refused."""
    return Desk(lend_cluster(SERVICE, sync="none"), tmp_path)


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[Desk]:
    """Without authentication."""
    with ready_cluster(SERVICE, sync="none", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        yield Desk(cluster, tmp_path)


def test_every_order_from_elsewhere(guarded: Desk) -> None:
    cluster = guarded.cluster
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    found = guarded.json("status", members=(follower,))
    assert (found["leader_member_id"], found["leader_ingress"]) == (leader, cluster.ingress_endpoints[leader])
    assert {one["member_id"]: one["role"] for one in found["members"]} == {
        one: "LEADER" if one == leader else "FOLLOWER" for one in cluster.member_ids
    }, "the others were found, too"
    assert {one["id"]: one["ingress"] for one in guarded.json("members")} == cluster.ingress_endpoints
    assert [one["role"] for one in guarded.json("list")] == ["voter"] * 3

    done = guarded.json("snapshot", members=(follower,))
    assert done == {"done": "snapshot taken", "by_member_id": leader}
    assert counter_of(cluster, leader, CounterType.SNAPSHOT_COUNT) == 1
    held = {one["member_id"]: one for one in guarded.json("snapshots", members=(follower,))}
    assert held[leader]["log_position"] > 0 and held[leader]["is_valid"], "the others may be a moment later"
    assert guarded.run("suspend").returncode == 0
    demand_one_line(guarded.run("snapshot"), 1, "is suspended", "resume")
    assert guarded.run("resume").returncode == 0
    demand_one_line(guarded.run("resume"), 1, "not suspended")

    demand_one_line(guarded.run("transfer", "--to", str(leader)), 2, "another member")
    assert guarded.run("transfer", "--to", str(follower)).returncode == 0
    cluster.await_value(lambda: cluster.await_leader() == follower or None, "the new leader")
    demand_one_line(guarded.run("skip", "4096"), 1, "does not stand still")
    assert guarded.json("skipped") == {"skipped": [], "asked_for": []}

    lines = [str(one["text"]) for one in cluster.log_events(leader, "cluster.order")]
    assert lines[0] == "operator 'root' at 127.0.0.1: SNAPSHOT"
    assert guarded.run("shutdown").returncode == 0
    assert [cluster.wait(one) for one in cluster.member_ids] == [0, 0, 0]


def test_members_change_from_elsewhere(guarded: Desk) -> None:
    cluster = guarded.cluster
    learner = cluster.add_member()
    old = tuple(one for one in cluster.member_ids if one != learner)
    demand_one_line(guarded.run("promote", "9", members=old), 1, "member 9 is not in the cluster")
    added = guarded.json("add-learner", cluster.new_member(learner), members=old)
    assert added["log_position"] > 0
    cluster.start_member(learner)

    def promoted() -> bool | None:
        return guarded.run("promote", str(learner), members=old).returncode == 0 or None

    cluster.await_value(promoted, "a learner that has caught up")
    assert [one["role"] for one in guarded.json("list", members=(0,))] == ["voter"] * 4
    assert guarded.run("demote", str(learner), members=(0,)).returncode == 0
    assert guarded.run("remove", str(learner), members=(0,)).returncode == 0
    assert cluster.wait(learner) == 0


def test_whose_credentials_do_not_suffice_is_told_so(shared_guarded: Desk) -> None:
    cluster = shared_guarded.cluster
    for order in ("status", "list", "snapshot", "shutdown"):
        demand_one_line(shared_guarded.run(order, who=None), 4, "rejected the credentials")
        demand_one_line(shared_guarded.run(order, who="client"), 4, "role operator")
    assert all(counter_of(cluster, one, CounterType.INVALID_REQUESTS) > 0 for one in cluster.member_ids)
    assert counter_of(cluster, cluster.await_leader(), CounterType.SNAPSHOT_COUNT) == 0


def test_a_reader_of_the_log_finds_the_members_and_gives_no_orders(shared_guarded: Desk) -> None:
    cluster = shared_guarded.cluster
    assert shared_guarded.json("status", who="reader")["leader_member_id"] == cluster.await_leader()
    assert {one["id"] for one in shared_guarded.json("members", who="reader")} == set(cluster.member_ids)
    assert [one["role"] for one in shared_guarded.json("list", who="reader")] == ["voter"] * 3
    for order in ("snapshot", "skipped", "versions", "snapshots"):
        demand_one_line(shared_guarded.run(order, who="reader"), 4, "role operator")
    assert counter_of(cluster, cluster.await_leader(), CounterType.SNAPSHOT_COUNT) == 0


def test_without_authentication_members_are_looked_at_and_not_ordered_about(shared_open: Desk) -> None:
    cluster = shared_open.cluster
    leader = cluster.await_leader()
    assert shared_open.json("status", who=None)["leader_member_id"] == leader
    assert len(shared_open.json("list", who=None)) == 3
    for words in (["snapshot"], ["suspend"], ["shutdown"], ["transfer"], ["remove", "0"], ["skip", "96"]):
        demand_one_line(shared_open.run(*words, who=None), 4, "authenticates nobody")
    assert counter_of(cluster, leader, CounterType.SNAPSHOT_COUNT) == 0
    assert [one["role"] for one in shared_open.json("list", who=None)] == ["voter"] * 3


def test_without_a_quorum_members_say_where_they_stand(open_to_all: Desk) -> None:
    cluster = open_to_all.cluster
    first, *others = cluster.member_ids
    for other in others:
        cluster.kill(other)

    def alone() -> bool | None:
        done = open_to_all.run("status", "--timeout", "0.5", "--json", who=None)
        shown = json.loads(done.stdout)
        answers = [one["member_id"] for one in shown["members"] if one["error"] is None]
        return (done.returncode, shown["leader_member_id"], answers) == (3, None, [first]) or None

    cluster.await_value(alone, "a member that knows that it is alone")
    refused = open_to_all.run("snapshot", "--timeout", f"{patient(1):g}", who=None)
    demand_one_line(refused, 3, "no quorum", "does not lead")
    assert len(open_to_all.json("list", who=None)) == 3, "who is in the cluster is known without a leader"
    cluster.kill(first)
    demand_one_line(open_to_all.run("status", "--timeout", "1", who=None), 3, "does not accept a connection")


@pytest.mark.parametrize("command", ["snapshots", "evidence"])
def test_what_every_member_is_asked_for_and_none_answers(command: str) -> None:
    demand_one_line(ordo("cluster", command, "--endpoints", "127.0.0.1:9"), 3, "no member answers", "127.0.0.1:9")


def test_an_answer_that_does_not_come_leaves_the_outcome_open(guarded: Desk) -> None:
    cluster = guarded.cluster
    with RemoteCluster(cluster.ingress_endpoints[0], credentials=OPERATOR.encode()) as remote:
        leader = remote.find_leader()
        assert leader.member_id == cluster.await_leader()
        os.kill(cluster.pid(leader.member_id), signal.SIGSTOP)
        try:
            await_that(lambda: any(suspended_in(cluster.pid(leader.member_id))), "the leader that stands still")
            with pytest.raises(OutcomeUnknownError, match="did not answer within"):
                leader.ask(ordo_codecs.SKIP_REQUEST, {"log_position": 32}, ordo_codecs.SKIP_RESPONSE, 0.5)
        finally:
            os.kill(cluster.pid(leader.member_id), signal.SIGCONT)


def test_a_stranger_who_speaks_the_protocol_gets_no_further(shared_open: Desk) -> None:
    """The refusal is the member's, not the command's."""
    with RemoteCluster(",".join(shared_open.cluster.ingress_endpoints.values())) as remote:
        leader = remote.find_leader()
        with pytest.raises(NotPermittedError):
            leader.counters.set_toggle(ControlToggle.ABORT, ControlToggle.NEUTRAL)
        with pytest.raises(NotPermittedError):
            leader.ask(ordo_codecs.SKIP_REQUEST, {"log_position": 32}, ordo_codecs.SKIP_RESPONSE, 5.0)


def test_a_cluster_that_encrypts(tmp_path: Path) -> None:
    with ready_cluster(SERVICE, sync="none", root=tmp_path / "cluster", encrypted=True) as cluster:
        leader = cluster.await_leader()
        keys = {f"ORDO_{name.upper()}": path for name, path in cluster.client_keys.items()}
        endpoints = ",".join(cluster.ingress_endpoints.values())
        with pytest.MonkeyPatch.context() as patch:
            done = ordo("cluster", "status", "--endpoints", endpoints, "--timeout", f"{patient(1):g}")
            assert done.returncode == 3
            assert "sends encrypted datagrams" in done.stderr
            for name, path in keys.items():
                patch.setenv(name, path)
            done = ordo("cluster", "status", "--endpoints", endpoints, "--json")
            assert json.loads(done.stdout)["leader_member_id"] == leader


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["snapshot"], ["--config", "--endpoints"]),
        (["snapshot", "--endpoints", "10.0.0.1"], ["10.0.0.1:20000,10.0.0.2:20000"]),
        (["shutdown", "--endpoints", ",".join(["10.0.0.1:1"] * 17)], ["17 endpoints", "at most 16"]),
        (
            ["transfer", "--endpoints", "127.0.0.1:9", "--token-file", "/nowhere/token"],
            ["/nowhere/token", "cannot be read"],
        ),
        (["transfer", "--endpoints", "127.0.0.1:9", "--egress", "here"], ["--egress here", "10.0.0.9:20099"]),
        (["suspend", "--config", "x", "--token-file", "y"], ["--token-file", "--endpoints only"]),
        (["suspend", "--config", "x", "--endpoints", "127.0.0.1:9"], ["either"]),
        (["new-token", "a", "--role", "king"], ["role 'king'", "operator"]),
    ],
)
def test_misuse_is_one_line(words: list[str], expected: list[str]) -> None:
    demand_one_line(ordo("cluster", *words), 2, *expected)

"""Members that come and go, on real processes (Raft dissertation, chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess
from typing import TypeVar

import pytest

from ordo.cluster.admin import orders
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that, await_value, counter_of, demand_agreement
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.writer import Writer
from tests.clusters import await_level

T = TypeVar("T")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def command(cluster: LocalCluster, member_id: int, *words: str) -> CompletedProcess[str]:
    return ordo("cluster", *words, "--config", str(cluster.config_path(member_id)))


def roles(cluster: LocalCluster, member_id: int) -> dict[int, str]:
    """By the log of one member."""
    return {
        one.member_id: one.role for one in orders.list_members(LocalMember(load_config(cluster.config_path(member_id))))
    }


def meanwhile(writer: Writer, action: Callable[[], T]) -> T:
    """Something that takes its time; the client lives on. Nodes end with the thread that started them: not here."""
    with ThreadPoolExecutor(1) as pool:
        order = pool.submit(action)
        writer.run(order.done)
        return order.result()


def join(cluster: LocalCluster, writer: Writer) -> int:
    """Adds a node, waits until it has caught up, and gives it a vote; its member id."""
    member_id = cluster.add_member()

    def add() -> None:
        done = order(cluster, "add-learner", cluster.new_member(member_id))
        assert done.returncode == 0 and done.stdout.startswith(f"member {member_id} is a learner now"), done
        assert roles(cluster, cluster.await_leader())[member_id] == "learner"
        demand_one_line(order(cluster, "promote", str(member_id)), 1, f"learner {member_id}")

    def promoted() -> bool | None:
        return order(cluster, "promote", str(member_id)).returncode == 0 or None

    meanwhile(writer, add)
    cluster.start_member(member_id)
    what = f"the vote of member {member_id}"
    meanwhile(writer, lambda: await_value(promoted, what, explain=lambda: cluster.logs(member_id)))
    return member_id


def test_a_dead_member_is_replaced(start_cluster: StartCluster) -> None:
    """Three nodes; a fourth joins and gets a vote, an old one is killed and taken out, then its leader is killed."""
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(2000)
        new = join(cluster, writer)
        leader = cluster.await_leader()
        assert roles(cluster, leader) == dict.fromkeys(range(4), "voter")
        dead = next(one for one in range(3) if one != leader)
        cluster.kill(dead)
        assert meanwhile(writer, lambda: order(cluster, "remove", str(dead))).returncode == 0
        writer.write(2000)
        left = [one for one in range(4) if one != dead]
        leader = cluster.await_leader()
        assert roles(cluster, leader) == dict.fromkeys(left, "voter")
        demand_agreement(cluster, [writer], left)
        cluster.kill(leader)
        cluster.await_leader(other_than=leader)
        writer.write(2000)
        demand_agreement(cluster, [writer], [one for one in left if one != leader])
    assert new in left


def test_a_restart_from_a_snapshot_keeps_the_configuration(start_cluster: StartCluster) -> None:
    """The files still name the three members of the beginning."""
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        new = join(cluster, writer)
        leader = cluster.await_leader()
        gone = next(one for one in range(3) if one != leader)
        assert meanwhile(writer, lambda: command(cluster, leader, "remove", str(gone))).returncode == 0
        assert meanwhile(writer, lambda: cluster.wait(gone)) == 0, (
            "the node of a member that was removed ends by itself"
        )
        assert f"member {gone} was removed from the cluster" in cluster.logs(gone)
        writer.write(500)
        left = [one for one in range(4) if one != gone]
        demand_agreement(cluster, [writer], left)
    assert command(cluster, leader, "snapshot").returncode == 0
    for member_id in left:
        await_that(
            lambda one=member_id: counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) > 0,  # type: ignore[misc]
            f"the snapshot of member {member_id}",
        )
    for member_id in left:
        cluster.kill(member_id)
    for member_id in left:
        cluster.start_member(member_id)
    leader = cluster.await_leader()
    assert roles(cluster, leader) == dict.fromkeys(left, "voter")
    told = [str(event["text"]) for event in cluster.log_events(leader, "cluster.members_differ")]
    assert len(told) == 1 and "the log holds" in told[0], told
    endpoints = {one: endpoint for one, endpoint in cluster.ingress_endpoints.items() if one in left}
    with Writer(endpoints, writer_id=2) as second:
        second.write(500)
        demand_agreement(cluster, [second, writer], left)
    assert new in left


def test_what_is_refused(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    leader = cluster.await_leader()
    follower = next(one for one in range(3) if one != leader)
    demand_one_line(command(cluster, follower, "remove", "2"), 1, "does not lead", f"member {leader} does")
    demand_one_line(command(cluster, leader, "remove", str(leader)), 1, "transfer the leadership first")
    demand_one_line(command(cluster, leader, "remove", "9"), 1, "member 9 is not in the cluster")
    demand_one_line(command(cluster, leader, "promote", str(follower)), 1, "that is how it is")
    taken = cluster.new_member(follower).partition("=")[2]
    demand_one_line(command(cluster, leader, "add-learner", f"7={taken}"), 1, "consensus endpoint of member")
    demand_one_line(command(cluster, leader, "add-learner", "7=nonsense"), 2, "ID=HOST:PORT")
    nowhere = command(cluster, leader, "add-learner", "7=nowhere.invalid:20000")
    demand_one_line(nowhere, 1, "cannot be reached; see `ordo errors`")
    assert roles(cluster, leader).keys() == set(cluster.member_ids), "whom no stream leads to is no member"
    assert command(cluster, leader, "demote", str(follower)).returncode == 0
    assert roles(cluster, leader)[follower] == "learner"
    demand_one_line(
        command(cluster, leader, "transfer", "--to", str(follower)), 1, "no member that was asked could take over"
    )
    listed = command(cluster, leader, "list").stdout
    assert listed.count("voter") == 2 and listed.count("learner") == 1 and "leads" in listed
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(100)
        assert writer.client.query(b"", member_id=follower).member_id == follower, "learners answer as any member"


def test_learners_are_none_of_the_seven(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    await_level(cluster)
    added = [cluster.add_member() for _ in range(8)]
    for member_id in added:
        done = order(cluster, "add-learner", cluster.new_member(member_id))
        assert done.returncode == 0 and done.stdout.startswith(f"member {member_id} is a learner now"), done
    refused = command(cluster, cluster.await_leader(), "add-learner", cluster.new_member(cluster.add_member()))
    demand_one_line(refused, 1, "learner_ids=", "allowed are at most 8")
    last = added[-1]
    cluster.start_member(last)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(100)
        assert writer.client.query(b"", member_id=last, timeout_s=60).member_id == last
    assert list(roles(cluster, last).values()).count("learner") == len(added)
    assert order(cluster, "remove", str(added[0])).returncode == 0

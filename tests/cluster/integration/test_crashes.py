"""Nodes are killed and come back: nothing that was answered is lost, doubled or changes its place."""

from __future__ import annotations

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.writer import Writer
from tests.patience import factor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def follower_of(cluster: LocalCluster) -> int:
    """A member that does not lead."""
    leader = cluster.await_leader()
    return next(member_id for member_id in cluster.member_ids if member_id != leader)


def test_a_killed_leader_is_replaced_while_a_client_writes(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster={"leader_heartbeat_timeout": f"{round(500 * min(3.0, factor()))}ms"})
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(2000)
        before = writer.acked
        writer.longest_gap_s = 0.0
        writer.run(lambda: writer.acked > before + 500)
        killed, known_count = cluster.await_leader(), len(writer.new_leaders)
        cluster.kill(killed)
        writer.run(lambda: writer.acked > before + 4000)
        print(f"\ngap seen by the client after kill -9 of the leader: {writer.longest_gap_s * 1000:.0f} ms")
        assert writer.sessions == 1
        next_leaders = writer.new_leaders[known_count:]
        assert next_leaders and killed != next_leaders[-1]
        cluster.start_member(killed)
        demand_agreement(cluster, [writer])


def test_leaders_killed_one_after_another(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        for _ in range(4):
            target = writer.acked + 1000
            writer.run(lambda target=target: writer.acked > target)  # type: ignore[misc]
            killed = cluster.await_leader()
            cluster.kill(killed)
            writer.run(lambda target=target: writer.acked > target + 500)  # type: ignore[misc]
            cluster.start_member(killed)
            demand_agreement(cluster, [writer])


def test_all_members_killed_at_once(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints, reopens=True, message_timeout_s=30) as writer:
        for _ in range(2):
            target = writer.acked + 2000
            writer.run(lambda target=target: writer.acked > target)  # type: ignore[misc]
            for member_id in cluster.member_ids:
                cluster.kill(member_id)
            cluster.start()
            cluster.await_leader(60)
            writer.run(lambda target=target: writer.acked > target + 1000, timeout_s=90)  # type: ignore[misc]
        demand_agreement(cluster, [writer])


def test_a_killed_follower_comes_back(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        follower = follower_of(cluster)
        cluster.kill(follower)
        writer.run(lambda: writer.acked > 4000)
        cluster.start_member(follower)
        writer.run(lambda: writer.acked > 8000)
        demand_agreement(cluster, [writer])
        assert writer.new_leaders == []


@pytest.mark.parametrize("goes_on", [False, True], ids=["quiet", "under load"])
def test_a_wiped_follower_catches_up(start_cluster: StartCluster, goes_on: bool) -> None:
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(4000)
        follower = follower_of(cluster)
        cluster.kill(follower)
        cluster.wipe(follower)
        cluster.start_member(follower)
        if goes_on:
            writer.write(10_000)
        demand_agreement(cluster, [writer])
        assert writer.new_leaders == []

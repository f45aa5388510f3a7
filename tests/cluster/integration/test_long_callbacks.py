"""A service that takes its time costs its member nothing; one that stands still costs it the leadership."""

from __future__ import annotations

import os
import signal

import pytest

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.consensus.state.states import ElectionState
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_value, counter_of, demand_agreement, hold
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.test_snapshots import restart_all, take_snapshot
from tests.cluster.integration.writer import Writer
from tests.clusters import container_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
PAUSE_S = 2.0


def places(cluster: LocalCluster) -> dict[int, tuple[int, int, int]]:
    """By member: elections held, leadership term, role."""
    kinds = (CounterType.ELECTION_COUNT, CounterType.LEADERSHIP_TERM_ID, CounterType.NODE_ROLE)
    return {
        member_id: (
            counter_of(cluster, member_id, kinds[0]),
            counter_of(cluster, member_id, kinds[1]),
            counter_of(cluster, member_id, kinds[2]),
        )
        for member_id in cluster.member_ids
    }


def settled_places(cluster: LocalCluster) -> dict[int, tuple[int, int, int]]:
    """The same, once every member serves or follows: a quorum does not wait for the last."""

    def is_settled(member_id: int) -> bool:
        return counter_of(cluster, member_id, CounterType.ELECTION_STATE) == ElectionState.CLOSED

    await_value(lambda: all(map(is_settled, cluster.member_ids)) or None, "every member in its place")
    return places(cluster)


@pytest.mark.parametrize("action", ["SLEEP", "COMPUTE"])
def test_a_callback_of_two_seconds(start_cluster: StartCluster, action: str) -> None:
    environment = {f"LEDGER_{action}_AT": "1500", "LEDGER_PAUSE_S": str(PAUSE_S)}
    cluster = start_cluster(environment=environment, cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        before = settled_places(cluster)
        writer.longest_gap_s = 0.0
        writer.write(3000)
        assert writer.longest_gap_s > PAUSE_S - 0.5, "the callback did not pause"
        demand_agreement(cluster, [writer])
        assert places(cluster) == before


def test_a_follower_whose_service_stands_still_does_not_hold_up_the_others(start_cluster: StartCluster) -> None:
    """All is answered while it stands still."""
    cluster = start_cluster(cluster={**PATIENT, "appointed_leader_id": 0})
    assert cluster.await_leader() == 0
    container = container_of(cluster, 1)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        before = settled_places(cluster)
        hold(container)
        try:
            writer.write(3000)
        finally:
            os.kill(container, signal.SIGCONT)
        demand_agreement(cluster, [writer])
        assert places(cluster) == before


def test_a_container_that_stands_still_costs_its_member_the_leadership(start_cluster: StartCluster) -> None:
    """Clients are answered by another leader; the member does not lead again before its service is level."""
    cluster = start_cluster(cluster={"service_timeout": "2s", "session_timeout": "60s", **PATIENT})
    leader = cluster.await_leader()
    container = container_of(cluster, leader)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        hold(container)
        try:
            writer.write(2000, timeout_s=60)
            assert cluster.await_leader() != leader
            config = str(cluster.config_path(cluster.await_leader()))
            refused = ordo("cluster", "transfer", "--to", str(leader), "--config", config)
            assert refused.returncode != 0, "it lags"
        finally:
            os.kill(container, signal.SIGCONT)
        errors = ordo("errors", "--config", str(cluster.config_path(leader))).stdout
        assert "service_timeout" in errors and "hands over" in errors, errors
        writer.write(500)
        demand_agreement(cluster, [writer])


def test_a_snapshot_that_loads_for_two_seconds(start_cluster: StartCluster) -> None:
    cluster = start_cluster(environment={"LEDGER_LOAD_S": str(PAUSE_S)}, cluster=PATIENT)
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        writer.write(1000)
        take_snapshot(cluster)
        restart_all(cluster)
        before = settled_places(cluster)
        writer.write(1000, timeout_s=90)
        demand_agreement(cluster, [writer])
        assert places(cluster) == before
        follower = next(member_id for member_id in cluster.member_ids if member_id != cluster.await_leader())
        cluster.kill(follower)
        cluster.start_member(follower)
        writer.write(1000)
        demand_agreement(cluster, [writer])
        after = places(cluster)
        del before[follower], after[follower]
        assert after == before

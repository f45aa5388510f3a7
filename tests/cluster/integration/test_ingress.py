"""Clients that come in by shared memory or by a multicast group, and what becomes of them when the leader goes."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.monitoring.counters import counter_value
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ClusterTimeoutError, SessionRejectedError
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import PATIENT, LendCluster, StartCluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
COUNTER = "ordo.starter.counter:Counter"
IPC = "aeron:ipc?term-length=1m"
ROUNDS = 500


def group() -> str:
    """A group of this test process, on loopback."""
    number = os.getpid()
    address = f"239.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255 | 1}"
    return f"aeron:udp?endpoint={address}:40456|interface=127.0.0.1"


def connect(channel: str, aeron_dir: str | None = None, **more: Any) -> ClusterClient:
    return ClusterClient(aeron_dir=aeron_dir, settings=ClientSettings(ingress_channel=channel, **more))


def local_client(cluster: LocalCluster, member_id: int, **more: Any) -> ClusterClient:
    return connect(IPC, str(cluster.aeron_dir(member_id)), **more)


def leaders_client(cluster: LocalCluster, **more: Any) -> tuple[int, ClusterClient]:
    """The leader, and a client of its machine; on a busy machine another member may lead before that has connected."""
    deadline_s = time.monotonic() + patient(60)
    while True:
        leader = cluster.await_leader()
        try:
            return leader, local_client(cluster, leader, **more)
        except ClusterTimeoutError:
            assert time.monotonic() < deadline_s, f"member {leader} takes no session"


def total(client: ClusterClient, count: int = ROUNDS) -> int:
    """Adds 1 so many times; returns what the counter is then."""
    return int(client.request_many([b"1"] * count, timeout_s=patient(60))[-1].payload)


def transfer(cluster: LocalCluster, leader: int, to: int) -> None:
    """Have another member lead, as soon as it has caught up."""

    def done() -> bool:
        return (
            ordo("cluster", "transfer", "--config", str(cluster.config_path(leader)), "--to", str(to)).returncode == 0
        )

    await_that(lambda: done() or cluster.leader() == to, f"the transfer from {leader} to {to}")


@pytest.mark.parametrize("egress", ["aeron:ipc", "aeron:udp?endpoint=127.0.0.1:0"])
def test_a_client_through_shared_memory(lend_cluster: LendCluster, egress: str) -> None:
    cluster = lend_cluster(COUNTER, cluster={"ipc_ingress": True})
    leader, client = leaders_client(cluster, egress_channel=egress)
    with client, ClusterClient(cluster.ingress_endpoints) as other:
        before = int(client.query(b"").payload)
        assert total(client) == before + ROUNDS
        assert total(other) == before + 2 * ROUNDS, "others come in by the members' endpoints as before"
        with local_client(cluster, leader, egress_channel=egress) as third:
            assert total(third) == before + 3 * ROUNDS, "clients of one machine may share the stream of their answers"
        assert total(client) == before + 4 * ROUNDS
        assert int(client.query(b"").payload) == before + 4 * ROUNDS


def test_only_the_leader_takes_what_comes_through_shared_memory(start_cluster: StartCluster) -> None:
    """A session waits until the member of its machine leads again."""
    cluster = start_cluster(COUNTER, cluster={**PATIENT, "ipc_ingress": True})
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    with pytest.raises(ClusterTimeoutError, match="no leader takes messages there"):
        local_client(cluster, follower, connect_timeout_s=1.0)
    leader, client = leaders_client(cluster, egress_channel="aeron:ipc", message_timeout_s=60.0)
    follower = next(one for one in cluster.member_ids if one != leader)
    with client:
        assert total(client, 10) == 10
        transfer(cluster, leader, follower)
        assert cluster.await_leader() == follower
        pending = client.submit(b"1")
        with local_client(cluster, follower) as other:
            assert total(other, 10) == 20
        transfer(cluster, follower, leader)
        assert pending.result(60).payload == b"21"
        assert total(client, 10) == 31


def test_shared_memory_is_no_way_in_unless_it_is_allowed(start_cluster: StartCluster) -> None:
    cluster = start_cluster(COUNTER, member_count=1)
    with pytest.raises(ClusterTimeoutError, match="no leader takes messages there"):
        local_client(cluster, 0, connect_timeout_s=1.0)


def test_clients_of_shared_memory_authenticate_and_count(start_cluster: StartCluster) -> None:
    """What bounds and credentials demand of others is demanded of them; the cluster's own streams are not theirs."""
    token = new_token()
    cluster = start_cluster(
        COUNTER,
        member_count=1,
        cluster={"ipc_ingress": True, "max_sessions": 1},
        tables={"tokens": [{"principal": "desk", "hash": hash_token(token)}]},
    )
    with pytest.raises(SessionRejectedError, match="rejected the credentials"):
        local_client(cluster, 0, credentials=b"x" * 43)
    with local_client(cluster, 0, credentials=token.encode(), egress_channel="aeron:ipc") as client:
        assert total(client, 10) == 10
        with pytest.raises(SessionRejectedError, match="concurrent session limit"):
            local_client(cluster, 0, credentials=token.encode())
    before = counter_value(cluster.aeron_dir(0), CounterType.INVALID_REQUESTS)
    with pytest.raises(ClusterTimeoutError, match="did not answer the connect request"):
        local_client(
            cluster,
            0,
            credentials=token.encode(),
            egress_channel="aeron:ipc",
            egress_stream_id=105,
            connect_timeout_s=patient(1.5),
        )
    assert counter_value(cluster.aeron_dir(0), CounterType.INVALID_REQUESTS) > before


def test_clients_of_a_group_stay_when_leaders_die(start_cluster: StartCluster) -> None:
    cluster = start_cluster(COUNTER, cluster={"ingress_channel": group()})
    with connect(group()) as client, ClusterClient(cluster.ingress_endpoints) as other:
        assert total(client) == ROUNDS
        first = cluster.await_leader()
        cluster.kill(first)
        assert total(client) == 2 * ROUNDS
        cluster.start_member(first)
        second = cluster.await_leader(other_than=first)
        cluster.kill(second)
        assert total(client) == 3 * ROUNDS
        assert total(other) == 4 * ROUNDS

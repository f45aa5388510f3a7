"""Clusters of other sizes and modes, and messages of every size."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.command import order
from tests.cluster.integration.conftest import LEDGER, LendCluster, StartCluster
from tests.cluster.integration.test_snapshots import restart_all, take_snapshot
from tests.cluster.integration.writer import Writer
from tests.clusters import STEADY, await_ready
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
MTU = 1408
FRAME_HEADER, SESSION_HEADER = 32, 32
ONE_FRAME = MTU - FRAME_HEADER - SESSION_HEADER
TWO_FRAMES = ONE_FRAME + MTU - FRAME_HEADER
SIZES = [0, 1, 31, 32, 33]
SIZES += [edge + offset for edge in (ONE_FRAME, TWO_FRAMES) for offset in (-1, 0, 1)]
SIZES += [100 * 1024, 1024 * 1024 - 1, 1024 * 1024]


def content(size: int, seed: int) -> bytes:
    """Bytes that no other size or seed has."""
    return hashlib.shake_128(f"{size}-{seed}".encode()).digest(size)


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_messages_of_every_size_come_back_as_they_went(lend_cluster: LendCluster, mode: str) -> None:
    cluster = lend_cluster("ordo.bench.loads.echo:Echo", service_mode=mode)
    received: list[bytes] = []
    with ClusterClient(
        cluster.ingress_endpoints,
        on_message=lambda session_id, timestamp, payload: received.append(bytes(payload)),
        settings=ClientSettings(
            ingress_channel="aeron:udp?term-length=16m",
            egress_term_length_bytes=16 * 1024 * 1024,
            message_timeout_s=20,
        ),
    ) as client:
        sent = [content(size, seed) for seed in range(3) for size in SIZES]
        deadline_s = time.monotonic() + patient(60)
        for index, payload in enumerate(sent):
            client.send(payload)
            while len(received) <= index and time.monotonic() < deadline_s:
                if client.poll() == 0:
                    client.park(0.001)
        assert [len(payload) for payload in received] == [len(payload) for payload in sent]
        assert received == sent


@pytest.mark.thorough
def test_long_messages_survive_the_death_of_the_leader(start_cluster: StartCluster) -> None:
    """Whatever piece of a message the leader had sent when it died: none of it is taken for a message."""
    cluster = start_cluster()
    with Writer(
        cluster.ingress_endpoints, window=32, padding=40_000, ingress_channel="aeron:udp?term-length=16m"
    ) as writer:
        for _ in range(3):
            target = writer.acked + 300
            writer.run(lambda target=target: writer.acked > target)  # type: ignore[misc]
            killed = cluster.await_leader()
            cluster.kill(killed)
            writer.run(lambda target=target: writer.acked > target + 100)  # type: ignore[misc]
            cluster.start_member(killed)
            demand_agreement(cluster, [writer])


def test_one_node(start_cluster: StartCluster) -> None:
    cluster = start_cluster(member_count=1)
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        writer.write(2000)
        take_snapshot(cluster)
        writer.write(500)
        restart_all(cluster)
        writer.write(500, timeout_s=90)
        demand_agreement(cluster, [writer])


def test_five_nodes_live_through_the_death_of_two(start_cluster: StartCluster) -> None:
    cluster = start_cluster(member_count=5)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        leader = cluster.await_leader()
        follower = next(one for one in cluster.member_ids if one != leader)
        cluster.kill(leader)
        cluster.kill(follower)
        writer.write(1000, timeout_s=90)
        cluster.start()
        writer.write(1000)
        demand_agreement(cluster, [writer], timeout_s=90)


def test_inline_services(start_cluster: StartCluster) -> None:
    cluster = start_cluster(service_mode="inline")
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(2000)
        killed = cluster.await_leader()
        cluster.kill(killed)
        writer.write(1000)
        take_snapshot_of_two(cluster)
        cluster.start_member(killed)
        writer.write(1000)
        demand_agreement(cluster, [writer])


def test_each_role_on_a_network_of_its_own(tmp_path: Path) -> None:
    """Ingress, consensus, log, catch-up and archive each have an address of their own."""
    cluster = LocalCluster(LEDGER, root=tmp_path / "cluster", cluster=STEADY)
    for path in map(cluster.config_path, cluster.member_ids):
        path.write_text(re.sub(r'host = "127.0.0.1"\nport = (\d+)', endpoints_of_roles, path.read_text()))
    with cluster:
        await_ready(cluster)
        with Writer(cluster.ingress_endpoints) as writer:
            demand_a_death_and_return(cluster, writer)


def demand_a_death_and_return(cluster: LocalCluster, writer: Writer) -> None:
    writer.write(1000)
    killed = cluster.await_leader()
    cluster.kill(killed)
    writer.write(1000)
    cluster.start_member(killed)
    demand_agreement(cluster, [writer])


def endpoints_of_roles(found: re.Match[str]) -> str:
    """In place of one host and its first port."""
    roles = ("ingress", "consensus", "log", "catchup", "archive")
    return "\n".join(f'{role} = "127.0.{index}.1:{found[1]}"' for index, role in enumerate(roles))


def take_snapshot_of_two(cluster: LocalCluster) -> None:
    done = order(cluster, "snapshot")
    assert done.returncode == 0, done


def test_two_writers_share_one_order(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster={"session_timeout": "60s"})  # one writer is silent while the other writes
    with (
        Writer(cluster.ingress_endpoints, writer_id=1, window=32) as first,
        Writer(cluster.ingress_endpoints, writer_id=2, window=32) as second,
    ):
        for turn in range(20):
            if turn == 10:
                cluster.kill(cluster.await_leader())
            first.write(100)
            second.write(100)
        cluster.start()
        demand_agreement(cluster, [first, second])

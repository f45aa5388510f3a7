"""An unmodified AeronCluster client in Java as a client of three Ordo nodes (cluster-client.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.launcher import LocalCluster
from tests.peers.java_peer import JavaPeer, JavaPeers

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
MESSAGES = 10_000
ECHO_TIMEOUT_S = 120.0
EGRESS = "aeron:udp?endpoint=127.0.0.1:0"


@pytest.fixture
def cluster(java: JavaPeers, tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster("examples.echo:Echo", root=tmp_path / "cluster") as cluster:
        cluster.await_leader(60)
        yield cluster


def endpoints(cluster: LocalCluster, *, first: int | None = None) -> str:
    """As the Java client takes them, optionally beginning with one member."""
    members = sorted(cluster.ingress_endpoints.items(), key=lambda member: (member[0] != first, member[0]))
    return ",".join(f"{member_id}={endpoint}" for member_id, endpoint in members)


def start_client(java: JavaPeers, directory: Path, members: str) -> tuple[JavaPeer, int]:
    """A connected client and the leader it is connected to."""
    peer = java.start("ClusterEcho", directory, "launch", members, EGRESS)
    _, leader = peer.await_line("connected")
    return peer, int(leader)


def test_session_from_connect_to_close(java: JavaPeers, cluster: LocalCluster, shm_path: Path) -> None:
    """10,000 messages of 1 B to 100 KiB; the leader dies; the session goes on with the next one."""
    leader = cluster.await_leader()
    follower = next(member_id for member_id in cluster.member_ids if member_id != leader)
    peer, connected_to = start_client(java, shm_path / "java", endpoints(cluster, first=follower))
    assert connected_to == leader
    peer.tell(f"send {MESSAGES}")
    assert peer.await_line("echoed", ECHO_TIMEOUT_S) == [str(MESSAGES)]
    cluster.kill(leader)
    new_leader, _ = peer.await_line("new-leader")
    assert int(new_leader) == cluster.await_leader(other_than=leader)
    peer.tell(f"send {MESSAGES // 10}")
    assert peer.await_line("echoed", ECHO_TIMEOUT_S) == [str(MESSAGES * 11 // 10)]
    peer.tell("close")
    assert peer.await_line("end") == ["open", "0"]
    peer.finish()

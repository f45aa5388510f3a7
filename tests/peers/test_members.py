"""Clusters of Aeron's own nodes: Ordo's clients use them; Ordo's nodes and theirs are not members of one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.runtime.errors import StorageError
from tests.cluster.integration.agreement import errors_of
from tests.cluster.integration.conftest import PATIENT
from tests.peers.java_peer import JavaPeers
from tests.peers.peer_process import PeerProcess

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
COUNT = 500
LEADER_TIMEOUT_S = 60.0
SIZES = (1, 31, 32, 288, 1344, 1376, 4000, 60_000)


def members_text(ports: Sequence[int]) -> str:
    """As Aeron writes them; five ports in a row each, as `LocalCluster` gives them."""
    rows = [[str(member_id), *(f"127.0.0.1:{base + n}" for n in range(5))] for member_id, base in enumerate(ports)]
    return "|".join(map(",".join, rows))


@contextmanager
def hosts(java: JavaPeers, folder: Path, ports: Sequence[int], *member_ids: int) -> Iterator[dict[int, PeerProcess]]:
    """Aeron's nodes with these ids; they are killed at the end."""
    with ExitStack() as stack:
        started: dict[int, PeerProcess] = {}
        for member_id in member_ids:
            peer = java.start("ClusterHost", folder / str(member_id), member_id, members_text(ports))
            started[member_id] = stack.enter_context(peer)
        yield started


class Echoes:
    """Counts what comes back, and that it is in order."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.count = 0
        self.leaders: list[int] = []

    def on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        assert bytes(payload) == self.sent[self.count]
        self.count += 1

    def on_new_leader(self, term_id: int, member_id: int, endpoints: dict[int, str]) -> None:
        self.leaders.append(member_id)

    def exchange(self, client: ClusterClient, count: int) -> None:
        """Sends so many, one window at a time, and waits for each back."""
        for number in range(count):
            payload = bytes([number & 255]) * SIZES[number % len(SIZES)]
            self.sent.append(payload)
            client.send(payload, timeout_s=30)
            while len(self.sent) - self.count > 16:
                client.poll()
        while self.count < len(self.sent):
            client.poll()


def tells_of(cluster: LocalCluster, member_id: int, other: int) -> bool | None:
    try:
        return f"member {other} does not prove who it is" in errors_of(cluster, member_id) or None
    except StorageError:
        return None  # it has just begun


@pytest.mark.thorough
def test_ordos_client_uses_a_cluster_of_aeron(java: JavaPeers, shm_path: Path) -> None:
    """Over UDP, through the death of the leader; then through the shared memory of the next leader's driver."""
    ports = find_ports(3)
    endpoints = {member_id: f"127.0.0.1:{port}" for member_id, port in enumerate(ports)}
    settings = ClientSettings(
        connect_timeout_s=LEADER_TIMEOUT_S, new_leader_timeout_s=LEADER_TIMEOUT_S, egress_term_length_bytes=1 << 20
    )
    echoes, local = Echoes(), Echoes()
    with hosts(java, shm_path, ports, 0, 1, 2) as started:
        for peer in started.values():
            peer.await_line("ready")
        with ClusterClient(
            endpoints, settings=settings, on_message=echoes.on_message, on_new_leader=echoes.on_new_leader
        ) as client:
            echoes.exchange(client, COUNT)
            started[client.leader_member_id].kill()
            while not echoes.leaders:
                client.poll()
            echoes.exchange(client, COUNT)
            leader = client.leader_member_id
        through = ClientSettings(
            ingress_channel="aeron:ipc", egress_channel="aeron:ipc", egress_term_length_bytes=1 << 20
        )
        folder = str(shm_path / str(leader) / "aeron")
        with ClusterClient(settings=through, aeron_dir=folder, on_message=local.on_message) as client:
            local.exchange(client, COUNT)


@pytest.mark.parametrize("aerons", [(2,), (0, 1)])
def test_nodes_of_both_makes_are_no_cluster_and_say_so(
    java: JavaPeers, shm_path: Path, tmp_path: Path, aerons: tuple[int, ...]
) -> None:
    """Ordo's nodes have one line for each of Aeron's that they hear; where they are the majority, they serve."""
    ports = find_ports(3)
    own = [member_id for member_id in range(3) if member_id not in aerons]
    cluster = LocalCluster("ordo.bench.loads.echo:Echo", root=tmp_path / "cluster", ports=ports, cluster=PATIENT)
    with ExitStack() as stack:
        stack.enter_context(closing(cluster))
        for member_id in own:
            cluster.start_member(member_id)
        started = stack.enter_context(hosts(java, shm_path, ports, aerons[0]))
        for member_id in own:
            cluster.await_value(partial(tells_of, cluster, member_id, aerons[0]), "the line", 60)
        for other in aerons[1:]:  # with it Aeron's nodes may elect, and then only their leader is heard
            started |= stack.enter_context(hosts(java, shm_path, ports, other))
        if len(own) == 1:  # Aeron's nodes elect nobody while one sends them messages that they do not know
            started[0].await_line("note")
            assert "expected schemaId=111, actual=901" in started[0].said[-1]
            return
        echoes = Echoes()
        endpoints = {member_id: f"127.0.0.1:{ports[member_id]}" for member_id in own}
        settings = ClientSettings(connect_timeout_s=LEADER_TIMEOUT_S, egress_term_length_bytes=1 << 20)
        with ClusterClient(endpoints, settings=settings, on_message=echoes.on_message) as client:
            echoes.exchange(client, COUNT // 5)
            assert client.leader_member_id in own

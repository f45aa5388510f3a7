"""An unmodified ClusterBackup in Java keeps a backup of three Ordo nodes (cluster-consensus.md §22)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from tests.attacks.gate import ANSWER, CHALLENGE, PASSWORD
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.clusters import PATIENT, STEADY, ready_cluster
from tests.peers.java_peer import JavaPeers
from tests.peers.peer_process import PeerProcess

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
StartCluster = Callable[..., LocalCluster]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts three nodes, with these settings, and waits for their leader."""
    with ExitStack() as stack:

        def start(
            service: str = "examples.counter:Counter",
            tables: Mapping[str, Any] | None = None,
            heartbeat: Mapping[str, str] = PATIENT,
        ) -> LocalCluster:
            nodes = ready_cluster(service, heartbeat=heartbeat, root=tmp_path / "cluster", tables=tables)
            return stack.enter_context(nodes)

        yield start


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Backup:
    """A ClusterBackup and where its archive is."""

    def __init__(
        self, java: JavaPeers, cluster: LocalCluster, folder: Path, *credentials: str, source: str = "ANY"
    ) -> None:
        control, replication, consensus, catchup = free_ports(4)
        self.archive = f"127.0.0.1:{control}"
        members = [load_config(cluster.config_path(one)).own_member.consensus for one in cluster.member_ids]
        udp = "aeron:udp?endpoint=127.0.0.1"
        self.peer: PeerProcess = java.start(
            "BackupHost",
            folder,
            f"{udp}:{control}",
            f"{udp}:{replication}",
            f"{udp}:{consensus}",
            f"127.0.0.1:{catchup}",
            ",".join(members),
            source,
            *credentials,
        )
        self.peer.await_line("ready")

    def await_log(self, position: int) -> int:
        """Waits until the log is there up to a position; the id of its recording."""
        told = [line.split(" ")[1:] for line in self.peer.said if line.startswith("live ")]
        while not told or int(told[-1][1]) < position:
            told.append(self.peer.await_line("live"))
        return int(told[-1][0])

    def updated(self) -> list[str]:
        """The snapshots that its recording log has after the next change."""
        return self.peer.await_line("updated")

    def payloads(self, recording_id: int) -> list[bytes]:
        return payloads(self.archive, recording_id)


def payloads(address: str, recording_id: int, until: int | None = None) -> list[bytes]:
    """What an archive has of a recording now."""
    with ArchiveClient.connect(address) as archive:
        end = archive.max_recorded_position(recording_id) if until is None else until
        start = archive.start_position(recording_id)
        return [message.payload for message in archive.replay(recording_id, position=start, length=end - start)]


def committed(cluster: LocalCluster, member_id: int) -> tuple[str, int, int]:
    """A member's archive, the recording of its log, and how far that is committed."""
    address = load_config(cluster.config_path(member_id)).own_member.archive
    with ArchiveClient.connect(address) as archive:
        (log,) = archive.list_recordings(stream_id=LOG_STREAM_ID)
        return address, log.recording_id, archive.max_recorded_position(log.recording_id)


def send(cluster: LocalCluster, count: int, **settings: Any) -> None:
    with ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(**settings)) as client:
        for number in range(count):
            client.send(b"%d" % number, timeout_s=30)


def test_log_and_snapshots_are_copied_and_followed(
    java: JavaPeers, start_cluster: StartCluster, shm_path: Path
) -> None:
    cluster = start_cluster()
    send(cluster, 200)
    take_snapshot(cluster)
    send(cluster, 100)
    backup = Backup(java, cluster, shm_path / "backup")
    offered = 0
    while not offered:  # a snapshot is offered up to a second after all have it
        member_id, members, offered = map(int, backup.peer.await_line("response"))
    assert (members, offered) == (3, 2)
    while not (rows := backup.updated()):  # the term, where the log came first
        pass
    updated = {name: recording_id for recording_id, _, name in (one.partition("@") for one in rows)}
    address, log_id, end = committed(cluster, member_id)
    copied = backup.await_log(end)
    assert backup.payloads(copied)[: len(payloads(address, log_id, end))] == payloads(address, log_id, end)
    assert sorted(one.rpartition("/")[2] for one in updated) == ["-1", "0"]
    kept = {tuple(backup.payloads(int(recording_id))) for recording_id in updated.values()}
    with ArchiveClient.connect(address) as archive:
        snapshots = [one.recording_id for one in archive.list_recordings() if one.stream_id != LOG_STREAM_ID]
    assert kept == {tuple(payloads(address, one)) for one in snapshots}
    send(cluster, 100)
    backup.await_log(committed(cluster, member_id)[2])
    backup.peer.finish()


def test_it_goes_on_with_another_member(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    cluster = start_cluster(heartbeat=STEADY)
    send(cluster, 50)
    backup = Backup(java, cluster, shm_path / "backup")
    source = int(backup.peer.await_line("response")[0])
    backup.await_log(committed(cluster, source)[2])
    cluster.kill(source)
    left = next(one for one in cluster.member_ids if one != source)
    cluster.await_leader(60)
    send(cluster, 50)
    backup.await_log(committed(cluster, left)[2])


@pytest.mark.parametrize("source", ["LEADER", "FOLLOWER"])
def test_it_chooses_its_source(java: JavaPeers, start_cluster: StartCluster, shm_path: Path, source: str) -> None:
    cluster = start_cluster()
    send(cluster, 10)
    leader = cluster.await_leader()
    backup = Backup(java, cluster, shm_path / "backup", source=source)
    backup.await_log(1)
    chosen = [int(line.split(" ")[1]) for line in backup.peer.said if line.startswith("response ")][-1]
    assert (chosen == leader) == (source == "LEADER")


def test_credentials_and_a_challenge(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    cluster = start_cluster("tests.attacks.gate:Whoami", {"authentication": {"class": "tests.attacks.gate:Gate"}})
    backup = Backup(java, cluster, shm_path / "backup", PASSWORD.decode(), ANSWER.decode())
    assert backup.peer.await_line("challenged") == [str(len(CHALLENGE))]
    backup.await_log(1)


def test_wrong_credentials(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    cluster = start_cluster("tests.attacks.gate:Whoami", {"authentication": {"class": "tests.attacks.gate:Gate"}})
    backup = Backup(java, cluster, shm_path / "backup", "wrong", "wrong")
    assert "AUTHENTICATION_REJECTED" in " ".join(backup.peer.await_line("failure"))
    assert not any(line.startswith("response") for line in backup.peer.said)

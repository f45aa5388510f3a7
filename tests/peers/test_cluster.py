"""An unmodified AeronCluster client in Java as a client of three Ordo nodes (cluster-client.md)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.monitoring.counters import counter_value, read_counters
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.security.tokens import hash_token, new_token
from tests.attacks.gate import ANSWER, CHALLENGE, PASSWORD
from tests.clusters import PATIENT, ready_cluster
from tests.patience import factor
from tests.peers.java_peer import JavaPeers
from tests.peers.ordo_peer import OrdoDriver
from tests.peers.peer_process import PeerFailedError, PeerProcess
from tests.peers.relay import LossyRelay
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
MESSAGES = 10_000
ECHO_TIMEOUT_S = 120.0
EGRESS = "aeron:udp?endpoint=127.0.0.1:0"
EGRESS_STREAM_ID = 102
GROUP = "aeron:udp?endpoint=239.20.30.41:40458|interface=127.0.0.1"
PUBLISHER_LIMIT_TYPE_ID = 1
StartCluster = Callable[..., LocalCluster]
HEARTBEAT = {"leader_heartbeat_timeout": f"{round(2 * min(3.0, factor()))}s"}
"""For a leader that is killed: time enough to stay the leader beside Java's machines."""
SESSION_TIMEOUT_S = round(2 * min(3.0, factor()))


@pytest.fixture
def start_cluster(java: JavaPeers, tmp_path: Path) -> Iterator[StartCluster]:
    """Starts three nodes of the echo service, with these settings, and waits for their leader.

    It is given time enough to stay the leader beside Java's machines.
    """
    with ExitStack() as stack:

        def start(tables: Mapping[str, Any] | None = None, **settings: str | int | bool) -> LocalCluster:
            nodes = ready_cluster(
                "ordo.bench.loads.echo:Echo",
                heartbeat=HEARTBEAT,
                root=tmp_path / "cluster",
                cluster=settings,
                tables=tables,
            )
            return stack.enter_context(nodes)

        yield start


def endpoints(cluster: LocalCluster, *member_ids: int) -> str:
    """The ingress endpoints of these members (of all if none is given), as the Java client takes them."""
    chosen = member_ids or cluster.member_ids
    return ",".join(f"{member_id}={cluster.ingress_endpoints[member_id]}" for member_id in chosen)


def follower_of(cluster: LocalCluster) -> int:
    leader = cluster.await_leader()
    return next(member_id for member_id in cluster.member_ids if member_id != leader)


def start_client(java: JavaPeers, folder: Path, members: str, *credentials: str) -> tuple[PeerProcess, int]:
    """A client with a driver of its own, connected, and the leader it is connected to."""
    peer = java.start("ClusterEcho", folder, "launch", members, EGRESS, *credentials)
    _, leader = peer.await_line("connected")
    return peer, int(leader)


def await_echoes(peer: PeerProcess, count: int) -> None:
    assert peer.await_line("echoed", ECHO_TIMEOUT_S) == [str(count)]


def close(peer: PeerProcess) -> int:
    """Ends the session; the number of messages that were sent again to a new leader."""
    peer.tell("close")
    state, resent = peer.await_line("end")
    assert state == "open"
    peer.finish()
    return int(resent)


def await_sessions(cluster: LocalCluster, count: int) -> None:
    """Waits until every running member knows this many open sessions."""

    def known() -> bool | None:
        ends = [
            len([one for one in read_counters(cluster.aeron_dir(member_id)) if one.type_id == CounterType.SESSION])
            for member_id in cluster.member_ids
            if cluster.is_running(member_id)
        ]
        return ends == [count] * len(ends) or None

    cluster.await_value(known, f"{count} sessions on every member")


@pytest.mark.parametrize("unit", few_of([TimeUnit.MILLIS, TimeUnit.NANOS], [TimeUnit.NANOS]))
def test_messages_have_the_time_of_the_cluster(
    java: JavaPeers, start_cluster: StartCluster, shm_path: Path, unit: TimeUnit
) -> None:
    cluster = start_cluster(time_unit=unit.symbol)
    peer, _ = start_client(java, shm_path / "java", endpoints(cluster))
    peer.tell("send 10")
    await_echoes(peer, 10)
    peer.tell("time")
    (timestamp,) = peer.await_line("time")
    assert TimeUnit.of_timestamp(int(timestamp)) is unit
    assert abs(time.time_ns() - unit.to_ns(int(timestamp))) < 600_000_000_000
    close(peer)


def test_session_from_connect_to_close(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """10,000 messages of 1 B to 100 KiB; the leader dies; the session goes on with the next one, and closes."""
    cluster = start_cluster()
    leader = cluster.await_leader()
    peer, connected_to = start_client(java, shm_path / "java", endpoints(cluster))
    assert connected_to == leader
    peer.tell(f"send {MESSAGES}")
    await_echoes(peer, MESSAGES)
    cluster.kill(leader)
    new_leader, _ = peer.await_line("new-leader")
    assert int(new_leader) == cluster.await_leader(other_than=leader)
    peer.tell(f"send {MESSAGES // 10}")
    await_echoes(peer, MESSAGES * 11 // 10)
    assert close(peer) == 0
    await_sessions(cluster, 0)


def test_redirect(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """A follower is asked, because the leader cannot be reached before the follower has answered.

    The client lists all members: it does not go where it is sent when that member is not in its list.
    """
    cluster = start_cluster(**PATIENT)
    leader, follower = cluster.await_leader(), follower_of(cluster)
    leader_port = int(cluster.ingress_endpoints[leader].rpartition(":")[2])
    with LossyRelay(leader_port, loss=1.0) as way_to_leader:
        members = f"{leader}=127.0.0.1:{way_to_leader.port},{endpoints(cluster, follower)}"
        peer = java.start("ClusterEcho", shm_path / "java", "launch", members, EGRESS)
        cluster.await_value(lambda: egress_count(cluster, follower) or None, "the follower's answer")
        cluster.await_value(lambda: egress_count(cluster, follower) == 0 or None, "the end of the follower's answer")
        way_to_leader.loss = 0.0
        assert peer.await_line("connected")[1] == str(leader)
        peer.tell("send 1000")
        await_echoes(peer, 1000)
        close(peer)


def egress_count(cluster: LocalCluster, member_id: int) -> int:
    """Publications to clients that a member has."""
    counters = read_counters(cluster.aeron_dir(member_id))
    return sum(one.type_id == PUBLISHER_LIMIT_TYPE_ID and f" {EGRESS_STREAM_ID} " in one.label for one in counters)


@pytest.mark.thorough
def test_leaders_killed_while_messages_are_under_way(
    java: JavaPeers, start_cluster: StartCluster, shm_path: Path
) -> None:
    """Twice: what was not echoed is sent again to the next leader; the echoes stay in order."""
    cluster = start_cluster()
    peer, _ = start_client(java, shm_path / "java", endpoints(cluster))
    for repetition in (1, 2):
        killed = cluster.await_leader()
        position = counter_value(cluster.aeron_dir(killed), CounterType.COMMIT_POSITION)
        peer.tell(f"send {MESSAGES}")
        cluster.await_value(
            lambda killed=killed, position=position: (  # type: ignore[misc]
                counter_value(cluster.aeron_dir(killed), CounterType.COMMIT_POSITION) > position + (1 << 20) or None
            ),
            "the first mebibyte",
        )
        cluster.kill(killed)
        peer.await_line("new-leader")
        await_echoes(peer, MESSAGES * repetition)
        cluster.start_member(killed)
    assert close(peer) > 0


def test_leader_that_stands_still(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """A stopped leader is replaced; when it goes on, the session stays where it is."""
    cluster = start_cluster()
    peer, leader = start_client(java, shm_path / "java", endpoints(cluster))
    cluster.send_signal(leader, signal.SIGSTOP)
    new_leader, _ = peer.await_line("new-leader")
    assert int(new_leader) != leader
    peer.tell("send 500")
    cluster.send_signal(leader, signal.SIGCONT)
    await_echoes(peer, 500)
    close(peer)


def test_silent_session_times_out(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """A session that is kept alive lives through three timeouts; one that falls silent is told why it was closed."""
    cluster = start_cluster(**PATIENT, session_timeout=f"{SESSION_TIMEOUT_S}s")
    peer, _ = start_client(java, shm_path / "java", endpoints(cluster))
    peer.demand_none("event", 3 * SESSION_TIMEOUT_S)
    peer.tell("quiet")
    assert peer.await_line("event") == ["CLOSED", str(cluster.await_leader()), "TIMEOUT"]
    state, _ = peer.await_line("end")
    assert state == "closed"
    peer.finish()
    await_sessions(cluster, 0)


@pytest.mark.parametrize(("allowed", "answer"), [(True, "OK"), (False, "UNAUTHORISED_ACCESS")])
def test_admin_request(
    java: JavaPeers, start_cluster: StartCluster, shm_path: Path, allowed: bool, answer: str
) -> None:
    cluster = start_cluster(**PATIENT, admin_requests=allowed)
    peer, leader = start_client(java, shm_path / "java", endpoints(cluster))
    peer.tell("snapshot")
    assert peer.await_line("admin")[:3] == ["4711", "SNAPSHOT", answer]
    if allowed:
        folder = cluster.aeron_dir(leader)
        cluster.await_value(lambda: counter_value(folder, CounterType.SNAPSHOT_COUNT) == 1 or None, "the snapshot")
    peer.tell("send 100")
    await_echoes(peer, 100)
    close(peer)


def test_one_session_too_many(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    cluster = start_cluster(**PATIENT, max_sessions=1)
    peer, _ = start_client(java, shm_path / "first", endpoints(cluster))
    with pytest.raises(PeerFailedError, match="concurrent session limit"):
        start_client(java, shm_path / "second", endpoints(cluster))
    close(peer)
    await_sessions(cluster, 0)
    peer, _ = start_client(java, shm_path / "third", endpoints(cluster))
    close(peer)


def test_client_that_dies(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """Killed with its driver, it says nothing: its session times out."""
    cluster = start_cluster(**PATIENT, session_timeout=f"{SESSION_TIMEOUT_S}s")
    peer, _ = start_client(java, shm_path / "java", endpoints(cluster))
    await_sessions(cluster, 1)
    peer.kill()
    await_sessions(cluster, 0)


def test_java_client_with_an_ordo_driver(
    java: JavaPeers, start_cluster: StartCluster, start_driver: Callable[..., OrdoDriver]
) -> None:
    cluster = start_cluster()
    driver = start_driver()
    peer = java.start("ClusterEcho", driver.directory, "attach", endpoints(cluster), EGRESS)
    peer.await_line("connected")
    peer.tell("send 2000")
    await_echoes(peer, 2000)
    cluster.kill(cluster.await_leader())
    peer.await_line("new-leader")
    peer.tell("send 500")
    await_echoes(peer, 2500)
    close(peer)
    assert not driver.errors


@pytest.mark.parametrize("egress", few_of(["aeron:ipc", EGRESS], ["aeron:ipc"]))
def test_java_client_through_shared_memory(java: JavaPeers, start_cluster: StartCluster, egress: str) -> None:
    cluster = start_cluster(**PATIENT, ipc_ingress=True)
    leader = cluster.await_leader()
    peer = java.start("ClusterEcho", cluster.aeron_dir(leader), "attach", "aeron:ipc", egress)
    assert peer.await_line("connected")[1] == str(leader)
    peer.tell("send 2000")
    await_echoes(peer, 2000)
    assert close(peer) == 0
    await_sessions(cluster, 0)


def test_java_client_of_a_multicast_group(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    """The new leader listens to the group as soon as it serves."""
    cluster = start_cluster(ingress_channel=GROUP)
    peer, leader = start_client(java, shm_path / "java", GROUP)
    peer.tell("send 2000")
    await_echoes(peer, 2000)
    cluster.kill(leader)
    peer.await_line("new-leader")
    peer.tell("send 500")
    await_echoes(peer, 2500)
    close(peer)


def test_credentials_of_a_token(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    token = new_token()
    cluster = start_cluster({"tokens": [{"principal": "java", "hash": hash_token(token)}]}, **PATIENT)
    peer, _ = start_client(java, shm_path / "java", endpoints(cluster), token, "never asked")
    peer.tell("send 500")
    await_echoes(peer, 500)
    assert close(peer) == 0
    with pytest.raises(PeerFailedError, match=r"(?i)authentication"):
        start_client(java, shm_path / "other", endpoints(cluster), "x" * 43, "never asked")


def test_a_challenge_is_answered(java: JavaPeers, start_cluster: StartCluster, shm_path: Path) -> None:
    cluster = start_cluster({"authentication": {"class": "tests.attacks.gate:Gate"}}, **PATIENT)
    peer = java.start(
        "ClusterEcho", shm_path / "java", "launch", endpoints(cluster), EGRESS, PASSWORD.decode(), ANSWER.decode()
    )
    assert peer.await_line("challenged") == [str(len(CHALLENGE))]
    peer.await_line("connected")
    peer.tell("send 500")
    await_echoes(peer, 500)
    assert close(peer) == 0

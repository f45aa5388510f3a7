"""The command line and the launcher on three real nodes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.bench.loads.echo_session import EchoSession
from ordo.bench.node_cost import family, measure_idle_cpu_percent, measure_pss_mb, measure_rss_mb
from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.monitoring.counters import counter_value
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ClusterTimeoutError
from tests.cluster.integration.agreement import await_members, counter_of
from tests.clusters import STEADY, ready_cluster

MESSAGES = 1_000
MESSAGES_BYTES_MIN = MESSAGES * 64
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with ready_cluster("ordo.bench.loads.echo:Echo", sync="none") as started:
        leader = started.await_leader()
        with EchoSession(started.ingress_endpoints, 64) as session:
            session.pipelined(MESSAGES, 100)
        assert started.leader() == leader
        await_members(started)
        started.await_value(lambda: all_have_it(started) or None, "all members with the messages")
        yield started


def all_have_it(cluster: LocalCluster) -> bool:
    """Whether the slowest member, too, has committed the messages: answers need a quorum."""
    positions = {counter_of(cluster, member_id, CounterType.COMMIT_POSITION) for member_id in cluster.member_ids}
    return len(positions) == 1 and min(positions) > MESSAGES_BYTES_MIN


def config_of(cluster: LocalCluster, member_id: int) -> list[str]:
    return ["--config", str(cluster.config_path(member_id))]


def test_status_of_leader_and_follower(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    leader = cluster.await_leader()
    for member_id in cluster.member_ids:
        assert run(["cluster", "status", *config_of(cluster, member_id)]) == 0
        shown = dict(line.strip().rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        assert shown["state"] == "ACTIVE"
        assert shown["role"] == ("LEADER" if member_id == leader else "FOLLOWER")
        assert shown["election"] == "CLOSED"
        assert int(shown["commit position"].replace(",", "")) > MESSAGES_BYTES_MIN


def test_a_snapshot_is_taken_by_the_leader_only(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    leader = cluster.await_leader()
    follower = next(member_id for member_id in cluster.member_ids if member_id != leader)
    assert run(["cluster", "snapshot", *config_of(cluster, follower)]) == 1
    assert f"member {follower} does not lead" in capsys.readouterr().err
    assert run(["cluster", "snapshot", *config_of(cluster, leader)]) == 0
    assert capsys.readouterr().out == "snapshot taken\n"

    def taken() -> bool | None:
        counts = [counter_value(cluster.aeron_dir(one), CounterType.SNAPSHOT_COUNT) for one in cluster.member_ids]
        return min(counts) >= 1 or None

    cluster.await_value(taken, "a snapshot of every member")


def test_a_suspended_cluster_takes_nothing_until_it_goes_on(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = cluster.await_leader()
    folder = cluster.aeron_dir(leader)
    echoes: list[bytes] = []
    with ClusterClient(
        cluster.ingress_endpoints, on_message=lambda session_id, timestamp, payload: echoes.append(bytes(payload))
    ) as client:
        client.send(b"before")
        assert run(["cluster", "suspend", *config_of(cluster, leader)]) == 0

        def committed() -> bool | None:
            states = [counter_value(cluster.aeron_dir(one), CounterType.MODULE_STATE) for one in cluster.member_ids]
            return states == [ModuleState.SUSPENDED] * len(states) or None

        cluster.await_value(committed, "the suspension of every member")
        position = counter_value(folder, CounterType.COMMIT_POSITION)
        assert client.offer(b"meanwhile") > 0, "it waits in the client's publication"
        with pytest.raises(ClusterTimeoutError):
            ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(connect_timeout_s=0.2))
        assert run(["cluster", "snapshot", *config_of(cluster, leader)]) == 1
        assert "is suspended; have it go on first" in capsys.readouterr().err
        assert counter_value(folder, CounterType.COMMIT_POSITION) == position
        assert run(["cluster", "resume", *config_of(cluster, leader)]) == 0
        cluster.await_value(lambda: (client.poll(), b"meanwhile" in echoes)[1] or None, "the message that waited")
        assert counter_value(folder, CounterType.COMMIT_POSITION) >= position + 96 + 96
    assert capsys.readouterr().out == "cluster goes on\n"


def test_archive_of_a_running_node(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(cluster.data_dir(0) / "archive")
    assert run(["archive", "list", folder]) == 0
    assert "active" in capsys.readouterr().out
    assert run(["archive", "describe", folder, "--recording", "0"]) == 0
    assert capsys.readouterr().out.startswith("recording 0: stream=100 ")
    assert run(["archive", "verify", folder, "--recording", "0"]) == 0
    assert "recording 0: OK" in capsys.readouterr().out
    assert run(["archive", "describe", folder, "--recording", "999"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_archives_of_running_nodes_from_elsewhere(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    members = [load_config(cluster.config_path(member_id)).own_member for member_id in cluster.member_ids]
    endpoints = ["--endpoints", ",".join(member.archive for member in members)]
    assert run(["archive", "list", *endpoints, "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["archive"] for one in shown] == [member.archive for member in members]
    assert all(100 in [row["stream_id"] for row in one["recordings"]] for one in shown), "each has the log"
    assert run(["archive", "list", str(cluster.data_dir(0) / "archive"), "--json"]) == 0
    here = json.loads(capsys.readouterr().out)["recordings"]
    assert [row["recording_id"] for row in here] == [row["recording_id"] for row in shown[0]["recordings"]]
    assert run(["archive", "list", *endpoints]) == 0
    assert all(member.archive in capsys.readouterr().out.splitlines() for member in members[:1])
    assert run(["archive", "describe", *endpoints, "--recording", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("archive=")[2] for line in lines] == [member.archive for member in members]
    assert run(["archive", "describe", *endpoints, "--recording", "999"]) == 1
    assert "recording 999 is not in" in capsys.readouterr().err
    assert run(["archive", "verify", *endpoints, "--json"]) == 0
    checked = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["archive"] for one in checked] == [member.archive for member in members]
    logs = [next(row for row in one["recordings"] if row["recording_id"] == 0) for one in checked]
    assert all(row["is_good"] and row["is_active"] and row["stop_position"] > 0 for row in logs)
    assert run(["archive", "dump", "0", *endpoints, "--count", "3"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  ")]
    assert [lines[part * 4] for part in range(3)] == [member.archive for member in members]
    assert lines[1:4] == lines[5:8] == lines[9:12], "the log begins alike everywhere"
    for arguments, status in (
        ([], 2),
        (["a", "--endpoints", "b:1"], 2),
        ([str(tmp_path), "--token-file", "none"], 2),
        (["--endpoints", members[0].archive, "--token-file", "/none"], 2),
        (["--endpoints", "no-such-host.invalid:1"], 2),
        (["--endpoints", "127.0.0.1"], 2),
    ):
        assert run(["archive", "list", *arguments]) == status, arguments
        assert capsys.readouterr().err.count("\n") == 1, arguments


def test_stat_and_errors(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stat", *config_of(cluster, 0), "--type", "203"]) == 0
    assert "commit-pos" in capsys.readouterr().out
    assert run(["errors", *config_of(cluster, 0)]) == 0


def test_memory_and_idle_time_of_nodes(cluster: LocalCluster) -> None:
    rss_mb = measure_rss_mb(cluster)
    assert 10 < rss_mb["node"] < 500
    assert 10 < rss_mb["container"] < 500
    assert 20 < measure_pss_mb(cluster) < sum(rss_mb.values())
    idle = measure_idle_cpu_percent(cluster, 1.0)
    assert 0 <= idle["leader"] < 100


def test_round_trips_and_open_loop(cluster: LocalCluster) -> None:
    with EchoSession(cluster.ingress_endpoints, 32) as session:
        assert session.round_trips(50).get_total_count() == 50
        histogram = session.open_loop(rate=500, seconds=0.2)
    assert histogram.get_total_count() == 100
    assert histogram.get_min_value() > 1_000


@pytest.fixture
def falling_cluster() -> Iterator[LocalCluster]:
    """Its members notice soon when the leader is gone."""
    with ready_cluster("ordo.bench.loads.echo:Echo", sync="none", heartbeat=STEADY) as started:
        with EchoSession(started.ingress_endpoints, 64) as session:
            session.pipelined(MESSAGES, 100)
        yield started


def test_failover_restart_and_wipe(falling_cluster: LocalCluster) -> None:
    """A killed node takes its service container with it, and comes back from nothing."""
    cluster = falling_cluster
    leader = cluster.await_leader()
    processes = family(cluster.pid(leader))
    assert len(processes) == 2
    assert cluster.kill(leader) == -signal.SIGKILL
    assert cluster.await_leader(other_than=leader) != leader
    cluster.wipe(leader)
    cluster.restart(leader)
    target = counter_value(cluster.aeron_dir(cluster.await_leader()), CounterType.COMMIT_POSITION)
    cluster.await_value(
        lambda: counter_value(cluster.aeron_dir(leader), CounterType.SERVICE_POSITION) >= target or None,
        "the wiped member's service position",
    )


def test_shutdown_ends_every_node(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The last test of this module: nothing runs after it."""
    leader = cluster.await_leader()
    assert run(["cluster", "shutdown", *config_of(cluster, leader)]) == 0
    assert capsys.readouterr().out == "cluster ended\n"
    cluster.await_value(
        lambda: not any(cluster.is_running(member_id) for member_id in cluster.member_ids) or None,
        "the end of every node",
    )

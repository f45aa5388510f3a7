"""Snapshots and shutdown: what is restored from a snapshot and the log after it is what was there before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.counters.mark_file import container_mark_file_name
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.runtime.errors import ClusterTimeoutError
from tests.cluster.integration.agreement import await_that, counter_of, demand_agreement, errors_of
from tests.cluster.integration.command import order, ordo
from tests.cluster.integration.conftest import PATIENT, LendCluster, StartCluster
from tests.cluster.integration.services import COPY_EVENT, PID_EVENT
from tests.cluster.integration.writer import Writer

DURATION_NS_MAX = 60_000_000_000
BUSY = "is busy with SNAPSHOT"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def take_snapshot(cluster: LocalCluster, *, others_come: bool = False) -> None:
    """Through the command, on the leader; every member has it when this returns. `others_come`: the cluster takes more
    of them by itself, and is asked again while one of those is under way."""

    def count_of(member_id: int) -> int | None:
        count = counter_of(cluster, member_id, CounterType.SNAPSHOT_COUNT)
        return count if count >= 0 else None  # a member that has just begun has no counter yet

    before = {
        member_id: cluster.await_value(partial(count_of, member_id), "a count") for member_id in cluster.member_ids
    }

    def command() -> subprocess.CompletedProcess[str] | None:
        done = order(cluster, "snapshot")
        return None if others_come and BUSY in done.stderr else done

    done = cluster.await_value(command, "a moment without a snapshot under way")
    assert (done.returncode, done.stderr) == (0, ""), done

    def is_there(member_id: int) -> bool | None:
        taken = counter_of(cluster, member_id, CounterType.SNAPSHOT_COUNT) - before[member_id]
        return taken == 1 or (others_come and taken > 1) or None

    for member_id in before:
        cluster.await_value(partial(is_there, member_id), f"the snapshot of member {member_id}")


def demand_durations(cluster: LocalCluster) -> None:
    """How long snapshots and duty cycles took is counted (cluster-consensus.md §18)."""
    for member_id in cluster.member_ids:
        of_member = partial(counter_of, cluster, member_id)
        cluster.await_value(lambda of=of_member: of(CounterType.MAX_SNAPSHOT_DURATION) or None, "a duration")  # type: ignore[misc]
        assert of_member(CounterType.MAX_SNAPSHOT_DURATION) < DURATION_NS_MAX
        assert 0 < of_member(CounterType.MAX_CYCLE_TIME) < DURATION_NS_MAX


def last_start(cluster: LocalCluster, member_id: int) -> tuple[int, int]:
    """With how many entries, and at which log position, the service of a member was started last."""
    event = list(cluster.log_events(member_id, PID_EVENT))[-1]
    return int(str(event["count"])), int(str(event["position"]))


def restart_all(cluster: LocalCluster) -> None:
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    cluster.start()
    cluster.await_leader(60)


def test_all_members_come_back_from_snapshot_and_log(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        writer.write(1000)
        take_snapshot(cluster)
        writer.write(1500)
        take_snapshot(cluster)
        writer.write(500)
        demand_agreement(cluster, [writer])
        restart_all(cluster)
        writer.write(700, timeout_s=90)
        demand_agreement(cluster, [writer])
    for member_id in cluster.member_ids:
        count, position = last_start(cluster, member_id)
        assert count == 2500 and position > 0


def test_a_snapshot_while_a_client_writes(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        writer.write(500)
        command = [sys.executable, "-m", "ordo.cli", "cluster", "snapshot"]
        command += ["--config", str(cluster.config_path(cluster.await_leader()))]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            writer.run(lambda: process.poll() is not None)
        assert process.returncode == 0
        for member_id in cluster.member_ids:
            cluster.await_value(
                lambda one=member_id: counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) == 1 or None,  # type: ignore[misc]
                f"the snapshot of member {member_id}",
            )
        demand_durations(cluster)
        writer.write(500)
        restart_all(cluster)
        demand_agreement(cluster, [writer])
    for member_id in cluster.member_ids:
        assert last_start(cluster, member_id)[0] >= 500


def test_shutdown_and_restart(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        writer.write(2000)
        demand_agreement(cluster, [writer])
        done = order(cluster, "shutdown")
        assert (done.returncode, done.stderr) == (0, ""), done
        for member_id in cluster.member_ids:
            assert cluster.wait(member_id) == 0, cluster.logs(member_id)
        cluster.start()
        cluster.await_leader(60)
        writer.write(500, timeout_s=90)
        demand_agreement(cluster, [writer])
    for member_id in cluster.member_ids:
        assert last_start(cluster, member_id)[0] == 2000, "the shutdown's snapshot was not used"


def test_a_shutdown_waits_for_followers_whose_snapshot_takes_longer(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader ends last, although its service has ended long before."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("LEDGER_GATE", str(gate))
    cluster = start_cluster("tests.cluster.integration.services:SlowFollowers", cluster=PATIENT)
    leader = cluster.await_leader()
    service = Path("/proc") / str(list(cluster.log_events(leader, PID_EVENT))[-1]["pid"])
    command = [sys.executable, "-m", "ordo.cli", "cluster", "shutdown", "--config", str(cluster.config_path(leader))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        await_that(lambda: not service.exists(), "the end of the leader's service")
        with pytest.raises(ClusterTimeoutError, match="did not end within"):
            cluster.wait(leader, 1)
        gate.touch()
        assert process.wait(60) == 0
    assert {cluster.wait(member_id) for member_id in cluster.member_ids} == {0}


def test_a_follower_without_the_snapshot_needs_none(start_cluster: StartCluster) -> None:
    """A member that was away during a snapshot, and one whose data is gone, execute the whole log instead."""
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        leader = cluster.await_leader()
        away, wiped = (member_id for member_id in cluster.member_ids if member_id != leader)
        cluster.kill(away)
        writer.write(500)
        done = ordo("cluster", "snapshot", "--config", str(cluster.config_path(leader)))
        assert done.returncode == 0, done
        cluster.start_member(away)
        demand_agreement(cluster, [writer])
        cluster.kill(wiped)
        cluster.wipe(wiped)
        cluster.start_member(wiped)
        writer.write(500)
        demand_agreement(cluster, [writer])


def test_only_the_leader_takes_snapshots(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(cluster=PATIENT)
    follower = next(member_id for member_id in cluster.member_ids if member_id != cluster.await_leader())
    done = ordo("cluster", "snapshot", "--config", str(cluster.config_path(follower)))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"member {follower} does not lead" in done.stderr


def test_a_copy_that_is_killed_costs_its_member_one_snapshot_and_no_more(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    """As the kernel does where memory runs out: the copy goes before the service."""
    gate = tmp_path / "gate"
    cluster = start_cluster(
        "tests.cluster.integration.services:SlowCopies", environment={"LEDGER_GATE": str(gate)}, cluster=PATIENT
    )
    leader = cluster.await_leader()
    victim = next(member_id for member_id in cluster.member_ids if member_id != leader)
    command = [sys.executable, "-m", "ordo.cli", "cluster", "snapshot", "--config", str(cluster.config_path(leader))]
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(200)
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL):
            copies = cluster.await_value(lambda: list(cluster.log_events(victim, COPY_EVENT)) or None, "a copy")
            started = list(cluster.log_events(victim, PID_EVENT))[-1]
            assert copies[0]["parent_pid"] == started["pid"]
            os.kill(int(str(copies[0]["pid"])), signal.SIGKILL)
            mark_file = container_mark_file_name(0)
            await_that(lambda: "was killed by signal 9" in errors_of(cluster, victim, mark_file), "word of the copy")
            writer.write(200)
            gate.touch()
        for member_id in set(cluster.member_ids) - {victim}:  # the command ends with the leader's
            cluster.await_value(
                lambda one=member_id: counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) == 1 or None,  # type: ignore[misc]
                f"the snapshot of member {member_id}",
            )
        take_snapshot(cluster)
        demand_agreement(cluster, [writer])
    assert len(list(cluster.log_events(victim, PID_EVENT))) == 1, "the service went on in its process"
    assert cluster.await_leader() == leader

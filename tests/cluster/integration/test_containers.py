"""A service container that dies, or whose service fails, ends its node with the reason; the other members go on."""

from __future__ import annotations

import json
import os
import signal

import pytest

from ordo.deploy.launcher import LocalCluster
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from tests.cluster.integration.agreement import await_value, demand_agreement
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.services import PID_EVENT
from tests.cluster.integration.writer import Writer
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
FAILED = 1


@pytest.fixture(autouse=True)
def nodes(request: pytest.FixtureRequest) -> None:
    """Has nodes and containers executed, as users have them; forked for a leader that does what a follower has done."""
    if "leader" not in request.node.name:
        request.getfixturevalue("executed_nodes")


def container_pid(cluster: LocalCluster, member_id: int) -> int:
    """Of the container that a member started last; waits for the first."""
    started = await_value(lambda: list(cluster.log_events(member_id, PID_EVENT)) or None, f"service of {member_id}")
    return int(str(started[-1]["pid"]))


def is_gone(pid: int) -> bool | None:
    """True once a process has ended (a zombie has), None before."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return True if stat.read().rpartition(")")[2].split()[0] == "Z" else None
    except FileNotFoundError:
        return True


def member_of_role(cluster: LocalCluster, role: str) -> int:
    leader = cluster.await_leader()
    return leader if role == "leader" else next(one for one in cluster.member_ids if one != leader)


def demand_reason(cluster: LocalCluster, member_id: int, *reasons: str, is_of_service: bool = False) -> None:
    """The member's error log and its output name the reasons; a traceback is there of what a service raised alone."""
    errors = ordo("errors", "--config", str(cluster.config_path(member_id)))
    for reason in reasons:
        assert reason in errors.stdout, errors
        assert reason in cluster.logs(member_id)
    assert ("Traceback" in cluster.logs(member_id)) == is_of_service


@pytest.mark.parametrize("role", few_of(["leader", "follower"], ["follower"]))
def test_a_killed_container_ends_its_node(start_cluster: StartCluster, role: str) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        member_id = member_of_role(cluster, role)
        os.kill(container_pid(cluster, member_id), signal.SIGKILL)
        writer.write(2000)
        assert cluster.wait(member_id) == FAILED
        demand_reason(cluster, member_id, "was killed by signal 9")
        cluster.start_member(member_id)
        demand_agreement(cluster, [writer])


def test_a_container_that_exits_ends_its_node(start_cluster: StartCluster) -> None:
    cluster = start_cluster(environment={"LEDGER_EXIT_AT": "1500", "LEDGER_MEMBER": "1"})
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(3000)
        assert cluster.wait(1) == FAILED
        demand_reason(cluster, 1, "ended with status 9")
        demand_agreement(cluster, [writer], members=(0, 2))


@pytest.mark.parametrize("role", few_of(["leader", "follower"], ["leader"]))
def test_a_killed_node_takes_its_container_along(start_cluster: StartCluster, role: str) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        member_id = member_of_role(cluster, role)
        pid = container_pid(cluster, member_id)
        cluster.kill(member_id)
        await_value(lambda: is_gone(pid), f"the end of container {pid}", timeout_s=5.0)
        writer.write(500)
        cluster.start_member(member_id)
        demand_agreement(cluster, [writer])


@pytest.mark.parametrize("role", few_of(["leader", "follower"], ["follower"]))
def test_a_service_that_raises_ends_its_node(start_cluster: StartCluster, role: str) -> None:
    environment = {"LEDGER_RAISE_AT": "1500", "LEDGER_MEMBER": "1"}
    cluster = start_cluster(environment=environment, node={"log_format": "json"})
    if role == "leader" and cluster.await_leader() != 1:
        for member_id in (0, 2):
            cluster.stop(member_id)
        cluster.start_member(0)
        cluster.start_member(2)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        writer.write(2000)
        assert cluster.wait(1) == EXIT_STATUS_SERVICE
        reason = "RuntimeError: the ledger was told to fail at entry 1500"
        demand_reason(
            cluster, 1, "service Ledger raised in on_session_message at position ", reason, is_of_service=True
        )
        (stop,) = cluster.log_events(1, "node.stop")
        assert reason in str(stop["reason"])
        assert all(json.loads(line)["event"] for line in cluster.logs(1).splitlines())
        demand_agreement(cluster, [writer], members=(0, 2))
        cluster.start_member(1)
        assert cluster.wait(1) == EXIT_STATUS_SERVICE, "the log makes it fail again"
        writer.write(100)


def test_a_node_told_to_end_takes_its_container_along(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    pids = {member_id: container_pid(cluster, member_id) for member_id in cluster.member_ids}
    for member_id, pid in pids.items():
        assert cluster.stop(member_id) == 0, cluster.logs(member_id)
        assert is_gone(pid)
        assert "Traceback" not in cluster.logs(member_id)

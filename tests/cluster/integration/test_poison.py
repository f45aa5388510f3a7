"""A message at which services raise, three ways: left out, by hand after all have stopped, and one member alone."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from ordo import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.errors import ClusterTimeoutError, RejectedError
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from tests.cluster.integration.agreement import await_error, errors_of
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.poison import ALONE_MEMBER, ALONE_VARIABLE
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TOTALS = "tests.cluster.integration.poison:Totals"
RESTORE = {"service": {"on_error": "restore"}}


def total(client: ClusterClient, number: int) -> str:
    return client.request(b"%d" % number, timeout_s=40).payload.decode()


def totals(client: ClusterClient, cluster: LocalCluster) -> set[str]:
    """What the services of all members have."""
    return {client.query(b"", member_id=one, timeout_s=40).payload.decode() for one in cluster.member_ids}


def skipped(cluster: LocalCluster, member_id: int) -> list[int]:
    done = ordo("cluster", "skipped", "--config", str(cluster.config_path(member_id)), "--json")
    return [row["position"] for row in map(_renamed, json.loads(done.stdout)["skipped"])]


def _renamed(row: dict[str, object]) -> dict[str, int]:
    return {"position": int(str(row["log_position"]))}


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_a_message_that_no_service_can_execute_is_left_out(start_cluster: StartCluster, mode: str) -> None:
    cluster = start_cluster(TOTALS, service_mode=mode, tables=RESTORE)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert total(client, 2) == "1 2"
        with pytest.raises(RejectedError, match=r"left out: .*ValueError: invalid literal") as refused:
            client.request(b"two", timeout_s=40)
        assert total(client, 3) == "2 5", "of the message that was left out nothing is there, not even its count"
        position = refused.value.log_position
        assert totals(client, cluster) == {"2 5"}
        assert {tuple(skipped(cluster, one)) for one in cluster.member_ids} == {(position,)}
        status = ordo("cluster", "status", "--config", str(cluster.config_path(0)), "--json")
        assert json.loads(status.stdout)["skipped_records"] == 1
        again = ordo("cluster", "skip", str(position), "--config", str(cluster.config_path(0)))
        assert again.returncode == 0 and "already" in again.stdout
        refused_skip = order(cluster, "skip", str(position + 64))
        demand_one_line(refused_skip, 1, f"does not stand still at position {position + 64}: it runs")
        for member_id in cluster.member_ids:
            cluster.restart(member_id)
        cluster.await_leader()
        assert total(client, 4) == "3 9" and totals(client, cluster) == {"3 9"}


def test_members_that_have_stopped_leave_a_message_out_by_hand(start_cluster: StartCluster) -> None:
    cluster = start_cluster(TOTALS)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert total(client, 2) == "1 2"
        with pytest.raises(ClusterTimeoutError):
            client.request(b"two", timeout_s=3)
        assert [cluster.wait(one) for one in cluster.member_ids] == [EXIT_STATUS_SERVICE] * 3
    found = re.search(r"raised in on_session_message at position (\d+)", errors_of(cluster, 0))
    assert found is not None
    position = int(found[1])
    for member_id in cluster.member_ids:
        done = ordo("cluster", "skip", str(position), "--config", str(cluster.config_path(member_id)))
        assert done.returncode == 0 and f"will wait before position {position}" in done.stdout
    cluster.start()
    cluster.await_leader(60)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert total(client, 3) == "2 5"
        assert totals(client, cluster) == {"2 5"}
    assert {tuple(skipped(cluster, one)) for one in cluster.member_ids} == {(position,)}
    learner = cluster.add_member()
    assert order(cluster, "add-learner", cluster.new_member(learner)).returncode == 0
    cluster.start_member(learner)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.query(b"", member_id=learner, timeout_s=60).payload == b"2 5", "it executed the log from 0 on"


def test_a_member_whose_error_is_its_own_stops_alone(start_cluster: StartCluster, tmp_path: Path) -> None:
    file = tmp_path / "alone"
    file.touch()
    cluster = start_cluster(TOTALS, tables=RESTORE, environment={ALONE_VARIABLE: str(file)})
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert total(client, 2) == "1 2"
        assert client.request(b"alone", timeout_s=40).payload == b"2 2"
        assert cluster.wait(ALONE_MEMBER) == EXIT_STATUS_SERVICE
        await_error(cluster, ALONE_MEMBER, "this member stops alone")
        assert total(client, 3) == "3 5"
        cluster.start_member(ALONE_MEMBER)
        deadline_s = time.monotonic() + patient(40)
        while totals(client, cluster) != {"3 5"}:
            assert time.monotonic() < deadline_s
        assert skipped(cluster, ALONE_MEMBER) == []

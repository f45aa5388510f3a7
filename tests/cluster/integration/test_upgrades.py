"""Versions of a service: an upgrade under way, learners after it, code that is missing, code that cannot take over."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomlkit

from ordo import ClusterClient
from ordo.cluster.wire.levels import PROTOCOL_LEVEL
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_error, await_that, errors_of
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.conftest import StartCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
BANK = "tests.cluster.integration.bank:BankV"


def code(*numbers: int) -> dict[str, str]:
    return {str(one): f"{BANK}{one}" for one in numbers}


def give(cluster: LocalCluster, member_id: int, *numbers: int) -> None:
    """Changes which code a member has, from its next start on."""
    path = cluster.config_path(member_id)
    content = tomlkit.parse(path.read_text()).unwrap()
    content["service"]["versions"] = code(*numbers)
    path.write_text(tomlkit.dumps(content))


def start(start_cluster: StartCluster, *numbers: int, **service: Any) -> LocalCluster:
    return start_cluster("", tables={"service": {"versions": code(*numbers), **service}})


def deposit(client: ClusterClient, *amounts: int) -> str:
    return [client.request(b"%d" % one, timeout_s=40).payload.decode() for one in amounts][-1]


def upgrade(cluster: LocalCluster, version: int) -> Any:
    return order(cluster, "upgrade", str(version))


def versions(cluster: LocalCluster, member_id: int = 0) -> Any:
    done = ordo("cluster", "versions", "--config", str(cluster.config_path(member_id)), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def await_codes(cluster: LocalCluster, *members: int, seen_by: int | None = None) -> None:
    """Wait until the leader, or another member, knows that members have code of version 1 and 2."""

    def is_known() -> bool:
        found = versions(cluster, cluster.await_leader(60) if seen_by is None else seen_by)["members"]
        return [one["versions"] for one in found if one["member_id"] in members] == [["1", "2"]] * len(members)

    await_that(is_known, f"the code of members {members}")


def states(cluster: LocalCluster, *members: int) -> set[str]:
    """What the services of members have, learners among them, which only a new client knows by name."""
    with ClusterClient(cluster.ingress_endpoints) as client:
        return {client.query(b"", member_id=one, timeout_s=60).payload.decode() for one in members}


def add_learner(cluster: LocalCluster, *numbers: int) -> int:
    learner = cluster.add_member()
    give(cluster, learner, *numbers)
    done = order(cluster, "add-learner", cluster.new_member(learner))
    assert done.returncode == 0, done.stderr
    cluster.start_member(learner)
    return learner


def test_an_upgrade_then_learners(start_cluster: StartCluster) -> None:
    cluster = start(start_cluster, 1)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert deposit(client, *[100] * 50) == "BankV1 50 5000"
        demand_one_line(upgrade(cluster, 2), 1, "not every voter has code of version 2: member 0 has 1; member 1 has 1")
        for member_id in cluster.member_ids:
            give(cluster, member_id, 1, 2)
            cluster.restart(member_id)
            cluster.await_leader(60)
            deposit(client, 100)
        await_codes(cluster, 0, 1, 2)
        assert states(cluster, 0, 1, 2) == {"BankV1 53 5300"}, "the new code waits for the upgrade"
        done = upgrade(cluster, 2)
        assert done.returncode == 0 and "version 2 of the service is in force from log position" in done.stdout, done
        assert deposit(client, 100) == "BankV2 54 5390"
        assert states(cluster, 0, 1, 2) == {"BankV2 54 5390"}
        await_codes(cluster, 0, 1, 2, seen_by=0)
        found = versions(cluster)
        assert found["in_force"] == "2"
        assert [(one["member_id"], one["versions"], one["lacks"]) for one in found["members"]] == [
            (one, ["1", "2"], None) for one in range(3)
        ]
        assert [one["protocol_level"] for one in found["members"]] == [PROTOCOL_LEVEL] * 3
        await_that(lambda: versions(cluster)["protocol_level"] == PROTOCOL_LEVEL, "all know the level of this release")
        since = versions(cluster)["level_since_position"]
        printed = ordo("cluster", "versions", "--config", str(cluster.config_path(0))).stdout
        assert f"protocol level of the log: {PROTOCOL_LEVEL}, since log position {since:,}" in printed
        demand_one_line(upgrade(cluster, 2), 1, "version 2 is in force already")

        assert states(cluster, add_learner(cluster, 1, 2)) == {"BankV2 54 5390"}, "each stretch with its own code"
        newest_only = add_learner(cluster, 2)
        assert states(cluster, newest_only) == {"BankV2 54 5390"}, "from a snapshot of behind the old stretch"
        await_error(cluster, newest_only, "this member has code of 2 only")
        for member_id in cluster.member_ids:
            cluster.restart(member_id)
        cluster.await_leader(60)
        assert deposit(client, 10) == "BankV2 55 5399"
        assert states(cluster, *cluster.member_ids) == {"BankV2 55 5399"}


def test_a_member_without_the_code_stands_still_until_there_is_a_snapshot_it_can_use(
    start_cluster: StartCluster,
) -> None:
    cluster = start(start_cluster, 1, 2)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert deposit(client, 100, 100) == "BankV1 2 200"
        newest_only = add_learner(cluster, 2)
        await_that(lambda: versions(cluster)["members"][-1]["lacks"] == "1", "it says what it lacks")
        assert deposit(client, 100) == "BankV1 3 300"
        assert upgrade(cluster, 2).returncode == 0, "a learner has no voice in that"
        assert states(cluster, 0, 1, 2, newest_only) == {"BankV2 3 300"}
        await_that(lambda: versions(cluster)["members"][-1]["lacks"] is None, "it lacks nothing more")


def test_an_upgrade_that_cannot_take_the_state_over_is_left_out(start_cluster: StartCluster) -> None:
    cluster = start(start_cluster, 2, 3, on_error="restore")
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert deposit(client, 100) == "BankV2 1 90"
        words = "version 3 did not take the state over", "number_of_deposits", "ordo cluster skip"
        demand_one_line(upgrade(cluster, 3), 1, *words)
        assert deposit(client, 100) == "BankV2 2 180", "the old version goes on, with the old state"
        # One that comes to the upgrade late leaves it out without trying.
        await_that(
            lambda: any("raised in upgrade at position" in errors_of(cluster, one) for one in cluster.member_ids),
            "a member that says what it raised",
        )
        assert versions(cluster)["in_force"] == "2"

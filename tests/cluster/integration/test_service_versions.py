"""One of two services of three members is upgraded alone: under a client, with a learner behind it, and restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo import ClusterClient
from ordo.cluster.wire.levels import PROTOCOL_LEVEL
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_error, await_that
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.test_backup import back_up_snapshot, restore
from tests.cluster.integration.test_services_of_three import (
    BOTH,
    Asking,
    code,
    demand_alike,
    executed_by_all,
    snapshot_counts,
)
from tests.cluster.integration.test_several_services import TIMEOUT_S
from tests.cluster.integration.test_upgrades import upgrade, versions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def tables(answering: tuple[int, ...], watching: tuple[int, ...]) -> dict[str, Any]:
    return {"services": [code("Answering", answering), code("Watching", watching)]}


def give(cluster: LocalCluster, member_id: int, answering: tuple[int, ...], watching: tuple[int, ...]) -> None:
    """Changes which code a member has, from its next start on."""
    path = cluster.config_path(member_id)
    content = tomlkit.parse(path.read_text()).unwrap()
    path.write_text(tomlkit.dumps({**content, **tables(answering, watching)}))


def upgrade_one(cluster: LocalCluster, version: int, service_id: int) -> Any:
    return order(cluster, "upgrade", str(version), "--service", str(service_id))


def upgraded(cluster: LocalCluster) -> None:
    """Service 1 goes over to version 2, once every member has said that its release knows of that."""
    await_that(lambda: versions(cluster)["protocol_level"] == PROTOCOL_LEVEL, "the level of this release")
    done = upgrade_one(cluster, 2, 1)
    assert done.returncode == 0 and "version 2 of service 1 is in force from log position" in done.stdout, done


def in_force(cluster: LocalCluster) -> list[str]:
    return [one["in_force"] for one in versions(cluster)["services"]]


@pytest.mark.thorough
def test_one_service_goes_over_and_the_other_has_no_code_for_it(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables=tables((1,), BOTH))
    asking = Asking(cluster.ingress_endpoints)
    asking.start()
    try:
        asking.await_answers()
        demand_one_line(upgrade(cluster, 2), 1, "not every voter has code of version 2: member 0 has 1 for service 0")
        upgraded(cluster)
        asking.await_answers()
        demand_one_line(upgrade_one(cluster, 2, 1), 1, "version 2 of service 1 is in force already")
        demand_one_line(upgrade_one(cluster, 2, 2), 1, "there is no service 2: the last one is 1")
        await_that(lambda: min(snapshot_counts(cluster)) > 0, "the snapshot behind the upgrade")
        _demand_shown(cluster)
        for member_id in cluster.member_ids:
            give(cluster, member_id, (1,), (2,))
            cluster.restart(member_id)
            cluster.await_leader(60)
            asking.await_answers()
    finally:
        asking.end()
    assert asking.answer.split() == [b"answering", b"1", b"%d" % asking.answered, b"0"]
    name, version, count, gaps, taken_over = asking.heard.split()
    assert (name, version, int(count), gaps) == (b"watching", b"2", asking.answered, b"0")
    assert 0 < int(taken_over) < asking.answered
    await_that(lambda: len({executed_by_all(cluster, one) for one in cluster.member_ids}) == 1, "all are level")
    demand_alike(cluster)
    assert _states(cluster, *cluster.member_ids, _add_learner(cluster)) == {asking.answer}


def _demand_shown(cluster: LocalCluster) -> None:
    """What `ordo cluster versions` says of each service."""
    found = versions(cluster)
    assert [one["in_force"] for one in found["services"]] == ["1", "2"]
    assert found["services"][1]["since_position"] > found["services"][0]["since_position"]
    assert [one["versions"] for one in found["members"]] == [["1"]] * 3, "what all services have"
    assert [[it["versions"] for it in one["services"]] for one in found["members"]] == [[["1"], ["1", "2"]]] * 3
    printed = ordo("cluster", "versions", "--config", str(cluster.config_path(0))).stdout
    assert "in force for service 0: version 1" in printed and "in force for service 1: version 2" in printed
    assert "service id" in printed


def _add_learner(cluster: LocalCluster) -> int:
    """It lacks the code of the beginning for one of its services, and goes on from a snapshot of behind the upgrade."""
    since = versions(cluster)["services"][1]["since_position"] or 0
    learner = cluster.add_member()
    give(cluster, learner, (1,), (2,))
    done = order(cluster, "add-learner", cluster.new_member(learner))
    assert done.returncode == 0, done.stderr
    cluster.start_member(learner)
    await_that(lambda: executed_by_all(cluster, learner) > since, "the learner is behind the upgrade")
    await_error(cluster, learner, "service 1 stands still at log position")
    return learner


def _states(cluster: LocalCluster, *members: int) -> set[bytes]:
    with ClusterClient(cluster.ingress_endpoints) as client:
        return {client.query(b"", member_id=one, timeout_s=TIMEOUT_S).payload for one in members}


def test_a_backup_of_it_becomes_a_cluster_with_a_version_for_each(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster("", tables=tables((1,), BOTH))
    with ClusterClient(old.ingress_endpoints) as client:
        assert client.request(b"1", timeout_s=TIMEOUT_S).payload == b"answering 1 1 0"
        upgraded(old)
        back_up_snapshot(old, tmp_path / "backup")
    old.close()
    short = LocalCluster("", root=tmp_path / "short", member_count=1, tables=tables((1, 2), (1,)))
    refused = ordo("restore", str(tmp_path / "backup"), "--config", str(short.config_path(0)))
    demand_one_line(refused, 2, "member 0 has code of version 1 of service 1, the backup needs 2 at this position")
    short.close()
    new = LocalCluster("", root=tmp_path / "new", tables=tables((1,), (2,)))
    assert "service version 1, 2 (by service id)" in restore(tmp_path / "backup", new)
    with new:
        new.await_leader(60)
        heard: list[bytes] = []
        with ClusterClient(
            new.ingress_endpoints, on_message=lambda *message: heard.append(bytes(message[2]))
        ) as client:
            assert client.request(b"2", timeout_s=TIMEOUT_S).payload == b"answering 1 2 0"
            await_that(lambda: (client.poll(), heard)[1], "service 1 is heard")
        assert heard == [b"watching 2 2 0 1"]
        assert in_force(new) == ["1", "2"]
        demand_alike(new)

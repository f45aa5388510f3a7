"""Members whose states are not alike: one of them, which takes the others', and all of them, who can only say so."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ordo import ClusterClient
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.orders import transfer
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ClusterError
from tests.cluster.integration.agreement import counter_of, errors_of
from tests.cluster.integration.command import order, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.poison import ALONE_MEMBER, ALONE_VARIABLE
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def have_it_lead(cluster: LocalCluster, leads: bool) -> None:
    """Has the member that will drift lead, or another one; a member that has just started may not be able to yet."""
    deadline_s = time.monotonic() + patient(60)
    while ((leader_id := cluster.await_leader()) == ALONE_MEMBER) != leads:
        assert time.monotonic() < deadline_s, f"member {leader_id} still leads"
        target_id = ALONE_MEMBER if leads else next(one for one in cluster.member_ids if one != ALONE_MEMBER)
        with suppress(ClusterError):
            transfer(LocalMember(load_config(cluster.config_path(leader_id))), target_id)


def test_hashes_show_a_difference_between_snapshots(start_cluster: StartCluster, tmp_path: Path) -> None:
    """Nobody asks for a snapshot: the leader has one taken for the member that needs it."""
    file = tmp_path / "drift"
    file.touch()
    service, tables = "tests.cluster.integration.poison:HashedTotals", {"service": {"state_hash_every": "64k"}}
    cluster = start_cluster(service, environment={ALONE_VARIABLE: str(file)}, tables=tables)
    have_it_lead(cluster, False)
    filler = b"0" * 1000
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request_many([b"2", b"drift", *[filler] * 200], timeout_s=40)
        told = cluster.await_value(
            lambda: re.search(r"differs from that of .*", errors_of(cluster, ALONE_MEMBER)),
            "the line of the difference",
        )[0]
        by_hash, by_the_snapshot_taken_for_it = "that of a quorum", "that of members [0, 2]"
        assert by_hash in told or by_the_snapshot_taken_for_it in told
        assert "something was executed otherwise up to log position" in told
        deadline_s = time.monotonic() + patient(60)
        while (found := client.query(b"", member_id=ALONE_MEMBER, timeout_s=60).payload) != b"202 2":
            assert time.monotonic() < deadline_s, found
    assert counter_of(cluster, ALONE_MEMBER, CounterType.DISTRUST) == 0
    (kept,) = list_evidence(cluster)
    assert (kept["module_recording_id"] == -1) is (by_hash in told)
    assert kept["found_position"] <= kept["log_position"] and kept["own_digest"] in told
    assert re.search(r"\d 3\n", dump(cluster, kept["service_recording_id"])), "the state that has drifted"


@pytest.mark.parametrize("leads", [False, True])
def test_a_member_whose_state_has_drifted_takes_the_state_of_the_others(
    leads: bool, start_cluster: StartCluster, tmp_path: Path
) -> None:
    """One that leads hands over as soon as it knows; the snapshot that showed it was taken all the same."""
    file = tmp_path / "drift"
    file.touch()
    service = "tests.cluster.integration.poison:Totals"
    cluster = start_cluster(service, environment={ALONE_VARIABLE: str(file)})
    have_it_lead(cluster, leads)
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request(b"2", timeout_s=40)
        take_snapshot(cluster)
        client.request(b"drift", timeout_s=40)
        assert client.query(b"", member_id=ALONE_MEMBER, timeout_s=40).payload == b"2 3", "it is not found out yet"
        order(cluster, "snapshot")
        told = cluster.await_value(
            lambda: re.search(r"differs from that of .*", errors_of(cluster, ALONE_MEMBER)),
            "the line of the difference",
        )[0]
        others = [one for one in cluster.member_ids if one != ALONE_MEMBER]
        assert f"members {others}: something was executed otherwise between log positions " in told
        deadline_s = time.monotonic() + patient(60)
        while (found := client.query(b"", member_id=ALONE_MEMBER, timeout_s=60).payload) != b"2 2":
            assert time.monotonic() < deadline_s, found
        assert client.request(b"5", timeout_s=60).payload == b"3 7"
        payloads = {client.query(b"", member_id=one, timeout_s=60).payload for one in cluster.member_ids}
        assert payloads == {b"3 7"}
    kept = re.search(r"recordings \((\d+), (\d+)\)", told)
    assert kept is not None
    check_evidence(cluster, (int(kept[1]), int(kept[2])))
    assert counter_of(cluster, ALONE_MEMBER, CounterType.DISTRUST) == 0


def list_evidence(cluster: LocalCluster) -> Any:
    done = ordo("cluster", "evidence", "--config", str(cluster.config_path(ALONE_MEMBER)), "--json")
    return json.loads(done.stdout)


def dump(cluster: LocalCluster, recording_id: int) -> str:
    return ordo("archive", "dump", str(cluster.data_dir(ALONE_MEMBER) / "archive"), str(recording_id), "--full").stdout


def check_evidence(cluster: LocalCluster, recording_ids: tuple[int, int]) -> None:
    """What shows the difference is kept, listed, and can be compared with the snapshot that took its place."""
    (found,) = list_evidence(cluster)
    assert (found["service_recording_id"], found["module_recording_id"]) == recording_ids
    assert found["member_id"] == ALONE_MEMBER and 0 < found["since_position"] < found["log_position"]
    assert found["own_digest"] != found["their_digest"] and found["length_bytes"] > 0
    kept, good = (dump(cluster, found[name]) for name in ("service_recording_id", "good_service_recording_id"))
    differing = [pair for pair in zip(kept.splitlines(), good.splitlines(), strict=True) if pair[0] != pair[1]]
    assert [pair for pair in differing if "[2, 3]" in pair[0] and "[2, 2]" in pair[1]], differing
    everywhere = ordo("cluster", "evidence", "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--json")
    (told,) = json.loads(everywhere.stdout)
    assert {**told, "good_service_recording_id": 0} == {**found, "good_service_recording_id": 0} | {
        "good_module_recording_id": None
    }


def test_a_service_with_hash_order_is_told_of_where_it_matters(start_cluster: StartCluster) -> None:
    """Strings hash alike on all members; objects are hashed by their addresses, and no two members agree."""
    cluster = start_cluster("tests.cluster.integration.poison:HashOrder")
    with ClusterClient(cluster.ingress_endpoints) as client:
        answers = client.request_many([b"word%d" % number for number in range(60)], timeout_s=40)
        assert len(answers[-1].payload.split(b",")) == 60
    take_snapshot(cluster)

    def has_said_so() -> bool | None:
        told = (errors_of(cluster, member_id) for member_id in cluster.member_ids)
        return all("no quorum of the members has the same state" in one for one in told) or None

    cluster.await_value(has_said_so, "the line that says so")

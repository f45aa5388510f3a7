"""Several services on each of three members: upgraded under a client that goes on, a record left out, backed up."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo import ClusterClient
from ordo.cluster.admin.stored_snapshots import StoredSnapshot, list_snapshots
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from tests.cluster.integration.agreement import await_error, await_that, counter_of, errors_of
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.test_backup import back_up_snapshot, restore
from tests.cluster.integration.test_poison import skipped
from tests.cluster.integration.test_several_services import FOLDER, TIMEOUT_S, request, tables
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.cluster.integration.test_upgrades import upgrade, versions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
BOTH = (1, 2)


def code(name: str, numbers: tuple[int, ...]) -> dict[str, Any]:
    return {"versions": {str(one): f"{FOLDER}:{name}V{one}" for one in numbers}}


def give(cluster: LocalCluster, member_id: int, answering: tuple[int, ...], watching: tuple[int, ...]) -> None:
    """Starts a member again with code of these versions, and returns when it has told the leader so."""
    path = cluster.config_path(member_id)
    content = tomlkit.parse(path.read_text()).unwrap()
    content["services"] = [code("Answering", answering), code("Watching", watching)]
    path.write_text(tomlkit.dumps(content))
    cluster.restart(member_id)
    wanted = [[str(one) for one in numbers] for numbers in (answering, watching)]

    def has_told() -> bool:
        known = versions(cluster, cluster.await_leader(60))["members"][member_id]["services"]
        return [one["versions"] for one in known] == wanted

    await_that(has_told, f"member {member_id} has code of {wanted}")


def demand_alike(cluster: LocalCluster) -> None:
    """A snapshot of all services is the same on all members."""
    take_snapshot(cluster, others_come=True)  # the cluster orders one itself behind an upgrade
    leader = cluster.await_leader()

    def newest_of(member_id: int) -> StoredSnapshot:
        return max(list_snapshots(load_config(cluster.config_path(member_id))))

    position = newest_of(leader).entry.log_position
    await_that(  # the order is done when the leader's is; the others take theirs when they come to the same record
        lambda: all(newest_of(one).entry.log_position >= position for one in cluster.member_ids),
        "the snapshot of each member",
    )
    newest = [newest_of(one) for one in cluster.member_ids]
    assert {len(entry.service_recording_ids) for entry, _ in newest} == {2}
    assert len({(entry.log_position, digest) for entry, digest in newest}) == 1, newest
    assert newest[0][1]


def snapshot_counts(cluster: LocalCluster) -> list[int]:
    return [counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) for one in cluster.member_ids]


def executed_by_all(cluster: LocalCluster, member_id: int) -> int:
    """How far the slowest service of a member is; -1 while the node is not there."""
    try:
        counters = read_counters(cluster.aeron_dir(member_id))
    except StorageMissingError:
        return -1
    return min((one.value for one in counters if one.type_id == CounterType.SERVICE_POSITION), default=-1)


class Asking(threading.Thread):
    """A client that goes on, one numbered request after the other, whatever becomes of the members."""

    def __init__(self, endpoints: Mapping[int, str]) -> None:
        super().__init__()
        self._endpoints = dict(endpoints)
        self._is_ending = threading.Event()
        self._error: Exception | None = None
        self.answered = 0
        self.answer = self.heard = b""
        """What service 0 answered last, and what service 1 said last."""

    def run(self) -> None:
        try:
            with ClusterClient(self._endpoints, on_message=self._on_message) as client:
                while not self._is_ending.is_set():
                    self.answer = client.request(b"%d" % (self.answered + 1), timeout_s=TIMEOUT_S).payload
                    self.answered += 1
                    client.park(0.005)
                await_that(lambda: (client.poll(), b" %d " % self.answered in self.heard)[1], "service 1 is heard")
        except Exception as error:
            self._error = error

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.heard = bytes(payload)

    def await_answers(self, count: int = 20) -> None:
        """Returns when so many more requests are answered."""
        wanted = self.answered + count
        await_that(lambda: self.answered >= wanted or not self.is_alive(), "the client is answered")
        assert self._error is None, self._error

    def end(self) -> None:
        self._is_ending.set()
        self.join(2 * TIMEOUT_S)
        assert self._error is None, self._error


@pytest.mark.thorough
def test_an_upgrade_under_a_client_that_goes_on(start_cluster: StartCluster) -> None:
    services = [code("Answering", (1,)), code("Watching", (1,))]
    cluster = start_cluster("", tables={"services": services})
    asking = Asking(cluster.ingress_endpoints)
    asking.start()
    try:
        asking.await_answers()
        for member_id in cluster.member_ids:
            give(cluster, member_id, BOTH, BOTH if member_id < 2 else (1,))
            asking.await_answers()
        demand_one_line(upgrade(cluster, 2), 1, "not every voter has code of version 2: member 2 has 1 for service 1")
        give(cluster, 2, BOTH, BOTH)
        done = upgrade(cluster, 2)
        assert done.returncode == 0 and "version 2 of the service is in force" in done.stdout, done
        asking.await_answers()
        await_that(lambda: min(snapshot_counts(cluster)) > 0, "the snapshot behind the upgrade")
        _demand_standstill(cluster, asking)
    finally:
        asking.end()
    count, gaps, taken_over = (int(one) for one in asking.answer.split()[2:])
    assert (count, gaps) == (asking.answered, 0), "no request was lost or executed twice"
    assert 0 < taken_over < count
    assert asking.heard.split()[1:] == asking.answer.split()[1:], "both went over at the same record, with all they had"
    with ClusterClient(cluster.ingress_endpoints) as client:
        states = {client.query(b"", member_id=one, timeout_s=TIMEOUT_S).payload for one in cluster.member_ids}
    assert states == {asking.answer}
    demand_alike(cluster)


def _demand_standstill(cluster: LocalCluster, asking: Asking) -> None:
    """A member that has code of version 2 for one of its services only says so, and goes on when it has it."""
    member_id = next(one for one in cluster.member_ids if one != cluster.await_leader())
    give(cluster, member_id, BOTH, (1,))
    await_that(lambda: versions(cluster)["members"][member_id]["lacks"] == "2", "it says what it lacks")
    await_error(cluster, member_id, "stands still")
    said = [line for line in errors_of(cluster, member_id).splitlines() if "stands still" in line]
    assert said and all("service 1 stands still at log position" in line for line in said)
    assert "version 2 is in force, and this member has code of 1 only" in said[-1]
    await_that(lambda: executed_by_all(cluster, member_id) >= 0, "where it stands")
    stands_at = executed_by_all(cluster, member_id)
    asking.await_answers()
    assert executed_by_all(cluster, member_id) == stands_at
    give(cluster, member_id, BOTH, BOTH)
    await_that(lambda: executed_by_all(cluster, member_id) > stands_at, "it goes on")


def test_an_upgrade_that_one_service_cannot_take_is_left_out_for_both(start_cluster: StartCluster) -> None:
    """Service 0 has gone over, and perhaps answered with the new code, when all members stop."""
    services = [code("Answering", (2, 3)), code("Watching", (2, 3))]
    cluster = start_cluster("", tables={"services": services})
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(b"1", timeout_s=TIMEOUT_S).payload == b"answering 2 1 0 0"
        assert upgrade(cluster, 3).returncode != 0
        assert [cluster.wait(one, TIMEOUT_S) for one in cluster.member_ids] == [EXIT_STATUS_SERVICE] * 3
    said = [errors_of(cluster, one) for one in cluster.member_ids]
    (position,) = {re.findall(r"WatchingV2 raised in upgrade at position (\d+)", one)[0] for one in said}
    leave_out(cluster, position)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(b"2", timeout_s=TIMEOUT_S).payload == b"answering 2 2 0 0"
        assert versions(cluster)["in_force"] == "2"
    demand_alike(cluster)


def leave_out(cluster: LocalCluster, position: str) -> None:
    """As an operator does whose members have all stopped at a record."""
    for member_id in cluster.member_ids:
        done = ordo("cluster", "skip", position, "--config", str(cluster.config_path(member_id)))
        assert done.returncode == 0 and f"will wait before position {position}" in done.stdout, done
    cluster.start()
    cluster.await_leader(60)


def test_a_message_at_which_one_service_fails_on_all_members_is_left_out_for_both(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables=tables("Answering", "Picky"))
    request(cluster, (b"answering 1 0 0", b"watching 1 0 0"))
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.offer(b"poison")
        assert [cluster.wait(one, TIMEOUT_S) for one in cluster.member_ids] == [EXIT_STATUS_SERVICE] * 3
    said = [errors_of(cluster, one) for one in cluster.member_ids]
    (position,) = {re.findall(r"Picky raised in on_session_message at position (\d+)", one)[0] for one in said}
    leave_out(cluster, position)
    request(cluster, (b"answering 2", b"watching 2"))
    assert {tuple(skipped(cluster, one)) for one in cluster.member_ids} == {(int(position),)}
    demand_alike(cluster)


def test_a_backup_becomes_a_cluster_with_the_state_of_both(start_cluster: StartCluster, tmp_path: Path) -> None:
    both = tables("Answering", "Watching")
    old = start_cluster("", tables=both)
    request(old, (b"answering 1 0 0", b"watching 1 0 0"))
    take_snapshot(old)
    request(old, (b"answering 2", b"watching 2"))
    found = back_up_snapshot(old, tmp_path / "backup")
    assert len(found["snapshots"]) == 1
    assert ordo("backup", "verify", str(tmp_path / "backup")).returncode == 0
    old.close()
    with_one = LocalCluster("", root=tmp_path / "one", member_count=1, tables={"service": both["services"][0]})
    refused = ordo("restore", str(tmp_path / "backup"), "--config", str(with_one.config_path(0)))
    demand_one_line(refused, 2, "member 0 is to run 1 service(s), the backup is of 2", "[[services]]")
    assert not with_one.data_dir(0).exists()
    with_one.close()
    new = LocalCluster("", root=tmp_path / "new", tables=both)
    assert "from the snapshot at" in restore(tmp_path / "backup", new)
    with new:
        new.await_leader(60)
        request(new, (b"answering 3", b"watching 3"))
        demand_alike(new)

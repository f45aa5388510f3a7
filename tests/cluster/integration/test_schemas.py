"""Schemas in the log of real processes: an upgrade under load with an old client left, and code that contradicts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import tomlkit

from ordo import ClientSettings, ClusterClient
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.consensus.state.states import ElectionState
from ordo.deploy.launcher import LocalCluster
from ordo.follow.log_schemas import LogSchemas, schemas_of, schemas_of_folder
from tests.cluster.integration.agreement import await_that, counter_of, errors_of
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.schema_banks import Balance, Deposit, DepositWithFee
from tests.cluster.integration.test_upgrades import upgrade
from tests.clusters import await_level
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
BANK = "tests.cluster.integration.schema_banks:BankV"
SETTINGS = ClientSettings(message_timeout_s=patient(30))


def code(*numbers: int, second: int = 2) -> dict[str, str]:
    return {str(one): f"{BANK}{second if one == 2 else one}" for one in numbers}


def give(cluster: LocalCluster, member_id: int, versions: dict[str, str]) -> None:
    path = cluster.config_path(member_id)
    content = tomlkit.parse(path.read_text()).unwrap()
    content["service"]["versions"] = versions
    path.write_text(tomlkit.dumps(content))


def archives(cluster: LocalCluster) -> list[str]:
    found = []
    for member_id in cluster.member_ids:
        members = tomlkit.parse(cluster.config_path(member_id).read_text()).unwrap()["members"]
        found += [f"{one['host']}:{one['port'] + 4}" for one in members if one["id"] == member_id]
    return found


def shapes(schemas: LogSchemas) -> list[tuple[int, list[str]]]:
    return [(one.version, [each.__name__ for each in one.messages]) for one in schemas.newest]


class OldClient(threading.Thread):
    """Deposits one cent after the other with the messages of version 1, until it is ended."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__()
        self._endpoints = cluster.ingress_endpoints
        self._ends = threading.Event()
        self.count = 0
        self.failure = ""

    def run(self) -> None:
        try:
            with ClusterClient(self._endpoints, settings=SETTINGS) as client:
                while not self._ends.is_set():
                    client.request(Deposit(1, 1))
                    self.count += 1
        except Exception as error:
            self.failure = repr(error)

    def await_more(self) -> None:
        count = self.count
        await_that(lambda: self.count > count + 5 or self.failure, "the old client goes on")
        assert self.failure == ""

    def end(self) -> int:
        self._ends.set()
        self.join()
        assert self.failure == ""
        return self.count


@pytest.mark.thorough
def test_an_upgrade_of_a_schema_under_load_with_an_old_client_left(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables={"service": {"versions": code(1, 2, 3)}})
    old = OldClient(cluster)
    old.start()
    try:
        await_level(cluster)
        addresses = archives(cluster)
        await_that(lambda: len(schemas_of(addresses)) == 1, "the first schema is in the log")
        done = upgrade(cluster, 2)
        assert done.returncode == 0, done.stderr
        old.await_more()
        await_that(lambda: len(schemas_of(addresses)) == 2, "the second schema is in the log")
        demand_one_line(upgrade(cluster, 3), 1, "LongDeposit.account is 8 bytes at 0")
        with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
            client.request(DepositWithFee(1, 1000, 10))
        old.await_more()
        assert order(cluster, "snapshot").returncode == 0
    finally:
        count = old.end()
    with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
        assert client.request(DepositWithFee(1, 0)) == Balance(1, count + 990)
    _demand_decoded(cluster, addresses, count)
    _demand_known_behind_a_snapshot(cluster)


def _demand_decoded(cluster: LocalCluster, addresses: list[str], count: int) -> None:
    """`ordo log --decode` reads the messages of both versions, with nothing but the log."""
    printed = ordo("log", *addresses, "--timeout", str(patient(3)), "--decode", "--kind", "request").stdout
    assert printed.count("DepositWithFee(account=1, cents=1, fee=None)") == count, "as the newest schema reads them"
    assert "DepositWithFee(account=1, cents=1000, fee=10)" in printed
    printed = ordo("log", *addresses, "--timeout", str(patient(3)), "--kind", "schema").stdout
    assert [line.split()[1] for line in printed.splitlines()] == ["schema"] * 2
    assert "version=0 name=BankV1 messages=Deposit,Balance" in printed
    assert "version=1 name=BankV2 messages=DepositWithFee,Balance" in printed


def _demand_known_behind_a_snapshot(cluster: LocalCluster) -> None:
    """A member that starts from its snapshot knows both schemas: the next one that it takes has them."""
    follower = next(one for one in cluster.member_ids if one != cluster.await_leader(60))
    _demand_both(cluster, follower)
    said = _announced(cluster, follower)
    cluster.start_member(follower)
    await_that(lambda: counter_of(cluster, follower, CounterType.ELECTION_STATE) == ElectionState.CLOSED, "it follows")
    assert order(cluster, "snapshot").returncode == 0
    await_that(lambda: counter_of(cluster, follower, CounterType.SNAPSHOT_COUNT) > 0, "it has taken the snapshot")
    assert _announced(cluster, follower) == said == 2, "it began behind both records"
    _demand_both(cluster, follower)
    cluster.start_member(follower)


def _demand_both(cluster: LocalCluster, member_id: int) -> None:
    """Its archive, which it must not serve meanwhile, has both schemas."""
    cluster.stop(member_id)
    found = schemas_of_folder(Path(cluster.data_dir(member_id)) / "archive")
    assert shapes(found) == [(1, ["DepositWithFee", "Balance"])] and len(found) == 2


def _announced(cluster: LocalCluster, member_id: int) -> int:
    return Path(cluster.log_path(member_id)).read_text().count('"cluster.schema"')


def test_code_that_contradicts_the_log_is_told_of_and_nothing_stops(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables={"service": {"versions": code(1)}})
    with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
        client.request(Deposit(1, 100))
        await_level(cluster)
        await_that(lambda: len(schemas_of(archives(cluster))) == 1, "the schema is in the log")
        leader = cluster.await_leader(60)
        other, same = (one for one in cluster.member_ids if one != leader)
        cluster.stop(other)
        give(cluster, other, {"1": f"{BANK}3"})
        cluster.start_member(other)
        said = "service 0, version 1: LongDeposit.account is 8 bytes at 0"
        log_of_other = Path(cluster.log_path(other))
        await_that(lambda: said in log_of_other.read_text(), "the member with other code tells")
        assert said in errors_of(cluster, other)
        cluster.stop(same)
        assert client.request(Deposit(1, 1)) == Balance(1, 101), "the member with other code is of the quorum"
        assert log_of_other.read_text().count(said) == 1
        cluster.start_member(same)
    assert shapes(schemas_of(archives(cluster))) == [(0, ["Deposit", "Balance"])], "it was never written"

"""Members of two releases in one cluster: it is upgraded member by member, while a client goes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo import ClusterClient
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that, counter_of, errors_of
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.releases.conftest import ROOT

pytestmark = [pytest.mark.releases, pytest.mark.timeout(900)]
START = ["sh", "-c", 'release=$1; cd "$0"; shift 2; PYTHONPATH=$0 exec "$release/.venv/bin/python" "$@"']
"""Runs a command of this interpreter by that of a release, in the folder of services; behind: both folders."""
CLIENT = """
import sys
from ordo import ClusterClient

with ClusterClient({int(id): endpoint for id, endpoint in (one.split("=") for one in sys.argv[2:])}) as client:
    for _ in range(int(sys.argv[1])):
        answer = client.request(b"1", timeout_s=60).payload
print(answer.decode())
"""


def complaints_of(errors: str) -> list[str]:
    """The errors of a member, without those of a replay to one that starts slowly or turns to another leader.

    It asks again for what it lacks, and that it gets it is what the states show.
    """
    return [line for line in errors.splitlines() if "|alias=catchup-" not in line]


class Rolling:
    """A cluster in which each member runs the release that a link beside its data names."""

    def __init__(self, root: Path, previous: Path) -> None:
        services = root / "services"
        services.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("totals.py"), services / "totals.py")
        self._releases = {"previous": previous, "present": ROOT}
        self._links = {member_id: root / f"release-{member_id}" for member_id in range(3)}
        prefixes = {member_id: [*START, str(services), str(link)] for member_id, link in self._links.items()}
        self.cluster = LocalCluster("totals:Totals", root=root / "cluster", prefixes=prefixes)
        self.requested = 0
        for link in self._links.values():
            link.symlink_to(previous)

    def give(self, member_id: int, release: str) -> None:
        """Starts a member with this release, after it has ended with the one it had."""
        assert self.cluster.stop(member_id) == 0
        self._links[member_id].unlink()
        self._links[member_id].symlink_to(self._releases[release])
        self.cluster.start_member(member_id)

    def request(self, client: ClusterClient, count: int) -> None:
        """Each is executed once, whatever becomes of the members meanwhile."""
        for _ in range(count):
            self.requested += 1
            assert client.request(b"1", timeout_s=60).payload == self.state

    def request_by(self, release: str, count: int) -> None:
        """As `request`, by a client of this release."""
        endpoints = [f"{member_id}={endpoint}" for member_id, endpoint in self.cluster.ingress_endpoints.items()]
        done = subprocess.run(
            [self._releases[release] / ".venv" / "bin" / "python", "-P", "-c", CLIENT, str(count), *endpoints],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.requested += count
        assert (done.returncode, done.stdout.strip().encode()) == (0, self.state), done.stderr

    @property
    def state(self) -> bytes:
        """What every replica has to have."""
        return b"%d %d" % (self.requested, self.requested)

    def demand_agreement(self, client: ClusterClient) -> None:
        """All members have executed everything, alike, and none has anything to complain of."""
        states = {client.query(b"", member_id=one, timeout_s=60).payload for one in self.cluster.member_ids}
        assert states == {self.state}
        complaints = [complaints_of(errors_of(self.cluster, one)) for one in self.cluster.member_ids]
        assert complaints == [[], [], []]
        assert not any(counter_of(self.cluster, one, CounterType.DISTRUST) for one in self.cluster.member_ids)


@pytest.fixture
def rolling(tmp_path: Path, previous: Path) -> Iterator[Rolling]:
    found = Rolling(tmp_path, previous)
    with found.cluster:
        found.cluster.await_leader(60)
        yield found


def test_upgraded_member_by_member_while_clients_go_on(rolling: Rolling) -> None:
    """Followers first, the leader last (docs/UPGRADES.md); snapshots are taken, and clients come, at every step."""
    cluster = rolling.cluster
    with ClusterClient(cluster.ingress_endpoints) as client:
        rolling.request(client, 20)
        take_snapshot(cluster)
        leader_id = cluster.await_leader()
        for member_id in sorted(cluster.member_ids, key=lambda one: one == leader_id):
            rolling.give(member_id, "present")
            rolling.request(client, 20)
            cluster.await_leader(60)
            await_that(lambda one=member_id: counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) >= 0, "it is there")  # type: ignore[misc]
            rolling.demand_agreement(client)
            take_snapshot(cluster)
            for release in ("previous", "present"):
                rolling.request_by(release, 5)
        for member_id in cluster.member_ids:
            cluster.restart(member_id)
            rolling.request(client, 5)
        rolling.demand_agreement(client)


def test_back_to_the_release_before_while_not_all_members_have_the_new_one(rolling: Rolling) -> None:
    cluster = rolling.cluster
    with ClusterClient(cluster.ingress_endpoints) as client:
        rolling.request(client, 20)
        for release in ("present", "previous"):
            rolling.give(cluster.await_leader(60), release)
            rolling.request(client, 20)
            take_snapshot(cluster)
        rolling.demand_agreement(client)

"""A cluster that two others went on with, one after the other: who was away meanwhile is told where it cannot go on."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import parse_identity
from ordo.deploy.launcher import LocalCluster
from ordo.follow.reader import LogReader
from ordo.pipeline.recordings.network import NetworkLog
from ordo.runtime.errors import OtherClusterError
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.test_backup import status_of
from tests.cluster.integration.test_standby import COUNTER, REQUESTS, Standby, ask
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def archive_of(ingress: str) -> str:
    host, _, port = ingress.rpartition(":")
    return f"{host}:{int(port) + 4}"


def digest_of(folder: Path) -> dict[str, str]:
    """The recorded bytes of a folder, by file."""
    files = sorted(folder.rglob("*.rec"))
    assert files, f"{folder} has recordings"
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


class Away:
    """A standby, a backup, a reader and a client of one cluster, and what they had when they were away."""

    def __init__(self, cluster: LocalCluster, root: Path, position: int) -> None:
        """Have all of them come to a position."""
        root.mkdir()
        self.ingress = cluster.ingress_endpoints[0]
        self.journal = root / "journal"
        assert self.request(self.ingress) is not None
        self.standby = Standby(cluster, root / "standby")
        with self.standby.running():
            self.standby.await_position(position)
        self.backup = root / "backup"
        assert self.back_up(self.ingress).returncode == 0
        self.end = int(status_of(self.backup)["log"][-1]["end"])
        with LogReader([archive_of(self.ingress)]) as reader:
            list(reader.entries(until_position=self.end, timeout_s=patient(5)))
            assert reader.position is not None and reader.cluster is not None
            self.kept, self.cluster = reader.position, reader.cluster

    def request(self, ingress: str) -> int | None:
        with ClusterClient([ingress], settings=ClientSettings(journal=str(self.journal))) as client:
            return client.request(b"0", timeout_s=60).log_position

    def back_up(self, ingress: str) -> subprocess.CompletedProcess[str]:
        return ordo("backup", "run", str(self.backup), "--endpoints", ingress, "--once", "--timeout", "60")

    def read(self, ingress: str) -> Iterator[int]:
        with LogReader([archive_of(ingress)], from_position=self.kept, cluster=self.cluster) as reader:
            for entry in reader.entries(timeout_s=patient(3)):
                yield entry.position


class Line(NamedTuple):
    """The clusters that went on with one another."""

    behind: Away
    """With what the first one went on from."""
    ahead: Away
    """With more of the former cluster's log than that, and less than the second one began with."""
    ingress: str
    """Of the newest cluster."""
    end: int


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    root = tmp_path_factory.mktemp("line")
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster:
        with ClusterClient(cluster.ingress_endpoints) as client:
            behind = Away(cluster, root / "behind", ask(client, 0))
            first = Standby(cluster, root / "first")
            with first.running():
                first.await_position(ask(client, REQUESTS))
            ahead = Away(cluster, root / "ahead", ask(client, 2 * REQUESTS))
        cluster.kill(0)
        assert first.promote().returncode == 0
        with first.running():
            second = Standby(cluster, root / "second", first.endpoint)
            with ClusterClient([first.endpoint]) as client, second.running():
                position = ask(client, 2 * REQUESTS)
                while position < ahead.end + 4096:
                    position = client.request(b"1", timeout_s=60).log_position or position
                second.await_position(position)
        assert second.promote().returncode == 0
        with second.running(), ClusterClient([second.endpoint]) as client:
            answer = client.request(b"1", timeout_s=60)
            assert answer.log_position is not None
            yield Line(behind, ahead, second.endpoint, answer.log_position)


@pytest.mark.thorough
def test_a_backup_goes_on_only_where_its_log_is_a_beginning(line: Line) -> None:
    before = digest_of(line.ahead.backup)
    refused = line.ahead.back_up(line.ingress)
    demand_one_line(refused, 1, "is of the cluster with identity", f"and the backup in {line.ahead.backup} of the one")
    assert digest_of(line.ahead.backup) == before
    assert line.behind.back_up(line.ingress).returncode == 0
    assert status_of(line.behind.backup)["log"][-1]["end"] >= line.end
    assert len(status_of(line.behind.backup)["log"]) == 1, "one stretch: it goes on"


def test_a_standby_goes_on_only_where_its_log_is_a_beginning(line: Line) -> None:
    folder = line.ahead.standby.config.parent
    before = digest_of(folder)
    line.ahead.standby.follow(line.ingress)
    refused = ordo(*line.ahead.standby.words("run"))
    assert refused.returncode == 1, refused
    assert "is of the cluster with identity" in refused.stdout + refused.stderr, refused
    assert digest_of(folder) == before
    line.behind.standby.follow(line.ingress)
    with line.behind.standby.running():
        line.behind.standby.await_position(line.end)


def test_a_checkpoint_goes_on_only_where_what_was_read_is_a_beginning(line: Line) -> None:
    def prove(away: Away) -> None:
        known = KnownCluster(parse_identity(away.cluster), "the checkpoint")
        known.position = away.kept
        NetworkLog((archive_of(line.ingress),)).prove(known)

    with pytest.raises(OtherClusterError, match=r"is of the cluster with identity .* and the checkpoint of the one"):
        prove(line.ahead)
    prove(line.behind)


def test_a_reader_goes_on_only_where_what_it_read_is_a_beginning(line: Line) -> None:
    with pytest.raises(OtherClusterError, match=r"is of the cluster with identity .* and the kept position of the one"):
        next(line.ahead.read(line.ingress))
    assert max(line.behind.read(line.ingress)) >= line.end


def test_a_client_with_a_journal_goes_on_only_where_the_log_has_what_was_answered(line: Line) -> None:
    for _ in range(2):
        with pytest.raises(OtherClusterError, match=r"is of the cluster with identity .* and the journal of the one"):
            line.ahead.request(line.ingress)
    assert line.behind.request(line.ingress) is not None

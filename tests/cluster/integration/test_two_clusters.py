"""Two clusters, whose addresses are mixed up by those outside: each says whose it is, and nothing of both is mixed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ordo.applications.application import Application, ApplicationSettings
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import CLUSTER, read_json
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from ordo.follow.reader import LogReader
from ordo.pipeline.recordings.network import NetworkLog, chunks, plan_network
from ordo.pipeline.sql.local import read
from ordo.runtime.errors import OtherClusterError
from ordo.runtime.io.storage import FileStorage
from ordo.service_api.service import ClusteredService
from ordo.transport.client.client_transport import ClientTransport
from tests.cluster.integration.agreement import await_that, await_value
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import LEDGER, clusters_of
from tests.cluster.integration.writer import Writer
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Shown(NamedTuple):
    """A cluster of one member."""

    cluster: LocalCluster
    identity: str
    """As a reader keeps it."""
    end: int
    """Where its log ended, in bytes."""

    @property
    def archive(self) -> str:
        host, _, port = self.cluster.ingress_endpoints[0].rpartition(":")
        return f"{host}:{int(port) + 4}"

    @property
    def ingress(self) -> str:
        return self.cluster.ingress_endpoints[0]

    @property
    def short(self) -> str:
        """As errors name it."""
        return self.identity[:12]


def look(cluster: LocalCluster) -> Shown:
    """Its identity, once an event of the log has it."""
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(50)

    def probe() -> Shown | None:
        shown = Shown(cluster, "", 0)
        with LogReader([shown.archive]) as reader:
            entries = list(reader.entries(timeout_s=patient(1)))
            return (
                None if reader.cluster is None or not entries else Shown(cluster, reader.cluster, entries[-1].position)
            )

    return await_value(probe, "a reader that knows whose log it reads")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shown, Shown]]:
    root = tmp_path_factory.mktemp("two")
    with clusters_of(LEDGER, root / "one") as start, clusters_of(LEDGER, root / "other") as start_other:
        yield look(start(member_count=1)), look(start_other(member_count=1))


def demand_both(text: str, one: Shown, other: Shown) -> None:
    assert one.identity != other.identity
    assert f"of the cluster with identity {other.short}" in text
    assert f"of the one with identity {one.short}" in text


def test_a_reader_of_two_clusters_says_whose_each_is(two: tuple[Shown, Shown]) -> None:
    one, other = two
    with LogReader([one.archive, other.archive], from_position=0, silence_s=0.5) as reader:
        with pytest.raises(OtherClusterError) as caught:
            for _ in reader.entries(timeout_s=60):
                pass
        assert reader.cluster == one.identity
    demand_both(caught.value.message, one, other)


def test_a_position_that_was_kept_is_of_one_cluster(two: tuple[Shown, Shown]) -> None:
    one, other = two
    with LogReader([one.archive], from_position=one.end, cluster=one.identity) as reader:
        later = list(reader.entries(timeout_s=1))
        assert all(entry.position > one.end for entry in later), (
            "a session's end or a clock's report may have come since"
        )
        assert reader.cluster == one.identity
    with LogReader([other.archive], from_position=0, cluster=one.identity) as reader:
        with pytest.raises(OtherClusterError) as caught:
            next(reader.entries(timeout_s=60))
        demand_both(caught.value.message, one, other)


def test_a_journal_is_used_with_its_own_cluster_only(two: tuple[Shown, Shown], tmp_path: Path) -> None:
    one, other = two
    settings = ClientSettings(journal=str(tmp_path / "journal"))
    ClusterClient([one.ingress], settings=settings).close()
    with pytest.raises(OtherClusterError) as caught:
        ClusterClient([other.ingress], settings=settings)
    demand_both(caught.value.message, one, other)
    ClusterClient([one.ingress], settings=settings).close()


def test_a_backup_goes_on_with_its_own_cluster_only(two: tuple[Shown, Shown], tmp_path: Path) -> None:
    one, other = two
    folder = tmp_path / "backup"
    ran = ("backup", "run", str(folder), "--once", "--timeout", "60", "--endpoints")
    done = ordo(*ran, one.ingress)
    assert done.returncode == 0, done
    before = read_json(folder / CLUSTER)
    assert before["cluster"] == one.identity
    refused = ordo(*ran, other.ingress)
    demand_one_line(refused, 1, str(folder), "another folder")
    demand_both(refused.stderr, one, other)
    assert read_json(folder / CLUSTER) == before, "nor does it go to the other cluster the next time"
    shown = ordo("backup", "status", str(folder))
    assert re.search(f"^cluster    {one.identity}$", shown.stdout, re.MULTILINE), shown
    assert ordo(*ran[:-1]).returncode == 0
    assert ordo("backup", "verify", str(folder)).returncode == 0


def test_the_pipeline_reads_one_cluster_only(two: tuple[Shown, Shown]) -> None:
    one, other = two
    folders = [str(shown.cluster.data_dir(0) / "archive") for shown in two]
    with pytest.raises(OtherClusterError) as caught:
        read(folders)
    demand_both(caught.value.message, one, other)
    with pytest.raises(OtherClusterError) as caught:
        read(f"ordo://{one.archive},{other.archive}")
    assert one.short in caught.value.message and other.short in caught.value.message
    log = NetworkLog((one.archive,))
    found = log.survey()
    (run,) = plan_network(log, found, 0, found.end_position, 0, 1 << 30, None)
    assert sum(frames.length_bytes for frames in chunks(run)) >= found.end_position
    with pytest.raises(OtherClusterError) as caught:
        list(chunks(replace(run, log=NetworkLog((other.archive,)))))
    demand_both(caught.value.message, one, other)


class Silent(ClusteredService):
    """An application that keeps nothing."""

    def on_session_message(self, *_: object) -> None:
        return None


def test_an_instance_goes_on_with_its_own_cluster_only(two: tuple[Shown, Shown], tmp_path: Path) -> None:
    one, other = two
    folder = tmp_path / "app"

    def run(shown: Shown, position: int) -> int:
        """Work until the log was executed up to a position; return where the instance was at first."""
        settings = ApplicationSettings(group="silent", endpoints=[shown.ingress], folder=str(folder))
        with closing(ClientTransport.embedded("app")) as transport:
            instance = Application(Silent, settings, transport=transport, storage=FileStorage(open_lmdb))
            began = instance.position
            try:
                await_that(lambda: instance.work() >= 0 and instance.position >= position, "the log, executed")
            finally:
                instance.close()
            return began

    assert run(one, one.end) == 0
    with pytest.raises(OtherClusterError) as caught:
        run(other, 1 << 40)
    demand_both(caught.value.message, one, other)
    assert str(folder) in caught.value.message
    assert run(one, one.end) >= one.end

"""Jobs over nodes that run, by their addresses and without their disks: the results that their folders give."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ordo
from ordo.archive.segments.segments import segment_name
from ordo.cli import EXIT_NOT_DONE, run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.follow.recordings.ranges import TOKEN_VARIABLE, Access
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.export import export, read_export
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.pipeline.jobs.audit import NOT_SENT, audit
from ordo.pipeline.jobs.market import events
from ordo.pipeline.jobs.replay import replay
from ordo.pipeline.lake.check import check_table
from ordo.pipeline.lake.feed import Feed, FeedSettings
from ordo.pipeline.lake.tables import LakeTable
from ordo.pipeline.nodes.node_archives import cluster_recordings
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_members, await_that, counter_of
from tests.cluster.integration.command import ordo as ordo_command
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.pipeline.exchange import write_exchange
from tests.pipeline.served import ServedFolder, url
from tests.pipeline.test_network import SEGMENT, write_log
from tests.pipeline.test_replay import ENGINE, ITCH

COUNTER = "examples.counter:Counter"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three members with a snapshot in the middle of their log. Nobody writes any more."""
    lengths = {"log_term_length": "64k", "segment_length": "128k"}
    with ready_cluster(COUNTER, root=tmp_path_factory.mktemp("live"), cluster=lengths, sync="none") as cluster:
        leader = cluster.await_leader()
        with ClusterClient(cluster.ingress_endpoints, settings=ClientSettings()) as client:
            for number in range(400):
                client.request(str(number).encode(), timeout_s=patient(30))
                if number == 200:
                    done = ordo_command("cluster", "snapshot", "--config", str(cluster.config_path(leader)))
                    assert done.returncode == 0, done.stderr
        await_members(cluster)
        await_that(lambda: have_all(cluster), "every member with the whole log and the snapshot")
        yield cluster


def have_all(cluster: LocalCluster) -> bool:
    """Whether the members that follow have what the leader has, which may be a moment later."""
    positions = {counter_of(cluster, one, CounterType.COMMIT_POSITION) for one in cluster.member_ids}
    return len(positions) == 1 and all(
        counter_of(cluster, one, CounterType.SNAPSHOT_COUNT) for one in cluster.member_ids
    )


def address_of(cluster: LocalCluster, member: int) -> str:
    return str(load_config(cluster.config_path(member)).own_member.archive)


def source_of(cluster: LocalCluster) -> str:
    return "ordo://" + ",".join(address_of(cluster, member) for member in cluster.member_ids)


def end_of(cluster: LocalCluster) -> str:
    """A position that all members have, as `commit`: what is compared goes no further."""
    return str(min(each.limit for each in open_recordings([source_of(cluster)], by_member=True)))


def folder_of(cluster: LocalCluster, member: int) -> str:
    return str(cluster.data_dir(member) / "archive")


FACTS = ("start", "limit", "frames", "messages", "payload_bytes", "kinds", "terms", "clock", "finding_count")


@pytest.mark.slow
def test_members_that_run_are_audited_against_each_other(cluster: LocalCluster) -> None:
    end = end_of(cluster)  # once: the members' own records follow on the requests
    there = audit(None, [source_of(cluster)], commit=end)
    here = audit(None, [folder_of(cluster, member) for member in cluster.member_ids], commit=end)
    assert there["status"] == here["status"] == "clean" and len(there["nodes"]) == 3
    assert [node["node"] for node in there["nodes"]] == [address_of(cluster, one) for one in cluster.member_ids]
    found = [[{name: node[name] for name in FACTS} for node in facts["nodes"]] for facts in (there, here)]
    assert found[0] == found[1] and found[0][0]["kinds"]["request"] >= 400


@pytest.mark.slow
def test_a_cluster_that_runs_is_replayed_from_its_snapshots(cluster: LocalCluster) -> None:
    end = end_of(cluster)
    there = replay(None, source_of(cluster), COUNTER, commit=end)
    here = replay(None, folder_of(cluster, 0), COUNTER, commit=end)
    assert there == here and there["snapshots_compared"] == 1 and there["status"] == "partly checked"


@pytest.mark.slow
def test_followers_are_read_first(cluster: LocalCluster) -> None:
    leader = cluster.await_leader()
    (log,) = cluster_recordings(source_of(cluster), Access(), False)
    assert log.file.addresses[-1] == address_of(cluster, leader) and len(log.file.addresses) == 3


@pytest.mark.slow
def test_a_cluster_that_runs_goes_into_a_table(cluster: LocalCluster, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table, end = str(tmp_path / "table"), int(end_of(cluster))
    half = export_delta([source_of(cluster)], table, LakeSettings(chunk_bytes=1 << 16), commit=str(end // 2))
    assert half == {"cluster/-1": end // 2}
    assert export_delta([source_of(cluster)], table, LakeSettings(chunk_bytes=1 << 16), commit=str(end))
    found = deltalake.DeltaTable(table).to_pyarrow_table().sort_by("position")
    here = ordo.read(folder_of(cluster, 1), commit=str(end)).to_arrow()
    names = ["position", "kind", "session_id", "payload", "timestamp", "is_repeat"]
    assert found.select(names).to_pylist() == here.select(names).to_pylist()
    assert set(found["node"].to_pylist()) == {"cluster"}


@pytest.mark.slow
def test_a_cluster_that_runs_is_fed_into_a_lake(cluster: LocalCluster, tmp_path: Path) -> None:
    """What was executed, once: a request that its client sent twice is there once."""
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    from ordo.pipeline.lake.delta_table import DeltaLake
    from ordo.pipeline.lake.iceberg_table import IcebergLake

    tables: list[LakeTable] = [DeltaLake(str(tmp_path / "delta")), IcebergLake(str(tmp_path / "iceberg"))]
    for end in (int(end_of(cluster)) // 2, int(end_of(cluster))):
        feed = Feed(source_of(cluster), tables, FeedSettings(commit=str(end), chunk_bytes=1 << 16))
        log = feed.open_log()
        feed.run_to(log)
    for table in tables:
        assert check_table(log, table, str(end)).problem == ""
        found = table.rows(-1, end, ["kind", "position"])
        assert found["kind"].to_pylist().count("request") == 400


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServedFolder]]:
    root = tmp_path_factory.mktemp("served")
    write_log(str(root / "0" / "archive"))
    shutil.copytree(root / "0", root / "1")
    nodes = [ServedFolder(str(root / name / "archive")) for name in "01"]
    yield nodes
    for node in nodes:
        node.close()


@pytest.mark.thorough
def test_a_member_that_cannot_send_a_frame_is_damaged_there(served: list[ServedFolder], tmp_path: Path) -> None:
    """The archive gives up a block of frames; the finding is at the frame, as in the folder."""
    shutil.copytree(Path(served[0].folder).parent, tmp_path / "2")
    damaged = ServedFolder(str(tmp_path / "2" / "archive"))
    try:
        damaged.kill()
        with open(Path(damaged.folder) / segment_name(0, SEGMENT), "r+b") as file:
            file.seek(100_000)
            byte = file.read(1)[0]
            file.seek(100_000)
            file.write(bytes([byte ^ 16]))
        damaged.start()
        there = audit(None, [url(*served, damaged)])
        here = audit(None, [*(one.folder for one in served), damaged.folder])
    finally:
        damaged.close()
    first = there["first_problem"]
    assert first["position"] == here["first_problem"]["position"] > SEGMENT + 90_000, first
    assert (first["node"], first["fault"]) == (damaged.address, NOT_SENT)
    assert first["segment"] == here["first_problem"]["segment"] == segment_name(0, SEGMENT)


def test_nothing_is_left_of_what_was_fetched(
    served: list[ServedFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert audit(None, [url(*served)])["status"] == "clean"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("audit {url} {folder}", "give addresses or folders, not both"),
        ("audit {url} --recording 7", "of nodes only log or all"),
        ("audit {url} --commit recorded", "of nodes only auto or a position"),
        ('audit {url} --storage {{"anon":true}}', "are for copies in object storage"),
        ("audit ordo://here", "'here' is no address"),
        ("replay {url} --service no:Such --engine local", "no"),
        ("index {url}", "reads of nodes and of copies in object storage need none"),
    ],
)
def test_what_does_not_fit_nodes_is_one_line(
    served: list[ServedFolder], line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    status = run(["pipeline", *line.format(url=url(*served), folder=served[0].folder).split()])
    error = capsys.readouterr().err
    assert status == EXIT_NOT_DONE and said in error
    assert len(error.splitlines()) == 1


def test_a_token_of_the_environment_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(str(tmp_path / "0" / "archive"))
    token = new_token()
    (tmp_path / "tokens.toml").write_text(
        f'[[tokens]]\nprincipal = "a"\nhash = "{hash_token(token)}"\nroles = ["log"]\n'
    )
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    node = ServedFolder(str(tmp_path / "0" / "archive"), tokens_file=str(tmp_path / "tokens.toml"), token=token)
    try:
        with pytest.raises(PipelineError, match="takes a token with the role log"):
            audit(None, [url(node)])
        monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "token"))
        assert audit(None, [url(node)])["status"] == "clean"
    finally:
        node.close()


def sorted_rows(frame: Any, *names: str) -> list[Any]:
    return sorted(tuple(row) for row in frame.select(*names).collect())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_an_exchange_that_runs_has_its_market_and_its_parquet(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "node0" / "archive")
    write_exchange(folder, ITCH, (2000,))
    node = ServedFolder(folder)
    try:
        names = ("what", "position", "instrument", "price", "quantity", "bid", "ask")
        there = sorted_rows(events(spark, url(node), ENGINE).na.fill(-1), *names)
        assert there == sorted_rows(events(spark, folder, ENGINE).na.fill(-1), *names) and len(there) > 1000
        limit = export(spark, [url(node)], str(tmp_path / "parquet"), chunk_bytes=1 << 20)
        assert limit == export(spark, [url(node)], str(tmp_path / "parquet"), chunk_bytes=1 << 20)
        columns = ("position", "kind", "session_id", "payload")
        rows = sorted_rows(read_export(spark, str(tmp_path / "parquet")), *columns)
        here: pa.Table = ordo.read(folder, columns=columns).to_arrow()
        assert rows == sorted(tuple(row[name] for name in columns) for row in here.to_pylist())
    finally:
        node.close()

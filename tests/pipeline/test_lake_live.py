"""`ordo lake run` beside a cluster at work: rows follow what is committed, and outlive the cluster's leader."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from ordo.pipeline.lake.delta_table import DeltaLake  # noqa: E402
from ordo.pipeline.lake.iceberg_table import IcebergLake  # noqa: E402
from ordo.pipeline.lake.tables import LakeTable  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(240)]
LAKE = [sys.executable, "-W", "ignore", "-m", "ordo.cli", "lake"]


def url_of(cluster: LocalCluster) -> str:
    return "ordo://" + ",".join(load_config(cluster.config_path(one)).own_member.archive for one in cluster.member_ids)


@contextmanager
def feeding(url: str, tables: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A feed with its defaults, which ends with the block."""
    with subprocess.Popen([*LAKE, "run", url, *tables], stdout=subprocess.DEVNULL) as feed:
        try:
            yield feed
        finally:
            feed.send_signal(signal.SIGTERM)


def lag_of(client: ClusterClient, tables: list[LakeTable], payload: bytes) -> tuple[int, float]:
    """Have a request executed; return its position, and how long after its answer all tables have its row."""
    position = client.request(payload, timeout_s=patient(60)).log_position
    begun_s = time.monotonic()
    await_that(lambda: all(table.progress().position >= position for table in tables), "the row in each table")
    return position, time.monotonic() - begun_s


def test_rows_follow_the_log_through_the_end_of_its_leader(tmp_path: Path, spark: SparkSession) -> None:
    delta, iceberg = str(tmp_path / "delta"), str(tmp_path / "iceberg")
    options = ["--delta", delta, "--iceberg", iceberg]
    tables: list[LakeTable] = [DeltaLake(delta), IcebergLake(iceberg)]
    with ready_cluster("examples.counter:Counter", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        url = url_of(cluster)
        with feeding(url, options) as feed, ClusterClient(cluster.ingress_endpoints) as client:
            told = [lag_of(client, tables, b"1") for _ in range(3)]
            leader = cluster.await_leader()
            cluster.kill(leader)
            told += [lag_of(client, tables, b"2") for _ in range(3)]
            cluster.restart(leader)
            told += [lag_of(client, tables, b"3") for _ in range(3)]
            assert feed.poll() is None
        print("s from an answer to its row in both tables:", *(f"{lag_s:.1f}" for _, lag_s in told))
        assert feed.returncode == 0
        done = subprocess.run([*LAKE, "check", url, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout.count(": complete up to position") == 2, done
    wanted = sorted(position for position, _ in told)
    for table in tables:
        rows = table.rows(-1, 1 << 62, ["position", "kind"]).to_pylist()
        positions = [row["position"] for row in rows if row["kind"] == "request"]
        assert [one for one in sorted(positions) if one >= wanted[0]] == wanted
    there = IcebergLake(iceberg).table()
    assert there is not None
    files = [one.file.file_path for one in there.scan().plan_files()]
    for paths in (deltalake.DeltaTable(delta).file_uris(), files):
        seen = spark.read.parquet(*paths).where("kind = 'request'").orderBy("position").collect()
        assert [row["position"] for row in seen if row["position"] >= wanted[0]] == wanted
        assert bytes(row["payload"][-1] for row in seen) == b"111222333"

"""Exports with Hadoop's own S3 file system, and tables read by Delta Lake's own Spark package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ordo
from tests.stores.conftest import ROOT

pytestmark = [pytest.mark.stores, pytest.mark.timeout(900)]
PAGE = ROOT / "docs" / "PIPELINE.md"
DELTA = "io.delta:delta-spark_4.1_2.13:4.1.0"
EXPORTED_POSITIONS = """
import sys
from ordo.pipeline.export.export import read_export
from ordo.pipeline.spark.session import local_session
rows = read_export(local_session("read"), sys.argv[1]).select("position").collect()
print("positions", sorted(row.position for row in rows))
"""
TABLE_POSITIONS = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", sys.argv[2]).config("spark.databricks.delta.snapshotPartitions", "2")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = builder.getOrCreate()
table = spark.read.format("delta").load(sys.argv[1])
print("positions", sorted(row.position for row in table.select("position").collect()))
print("versions", spark.sql(f"DESCRIBE HISTORY delta.`{sys.argv[1]}`").count())
"""


def run(words: list[str], folder: Path, **environment: str) -> str:
    """What a command of this interpreter says on standard output; fails the test with its errors when it fails."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "ORDO_INDEX_DIR": str(folder / "index"), "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def ordo_command(*words: str) -> list[str]:
    return ["-c", "from ordo.cli import main; main()", *words]


def positions_in(said: str) -> list[int]:
    found: list[int] = json.loads(said.partition("positions ")[2].splitlines()[0])
    return found


def log_positions(log: str, end: int | None = None) -> list[int]:
    found: list[int] = ordo.read(log, columns="position").to_arrow()["position"].to_pylist()
    return [one for one in found if end is None or one <= end]


def settings_of_the_page(endpoint: str) -> str:
    """The file that the page shows, for a server that is here."""
    (shown,) = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shown = shown.replace("https://s3.eu-central-1.amazonaws.com", endpoint)
    return str(shown.replace("AKIA...", "k").replace("your secret key", "s"))


def test_an_export_goes_to_s3a_once_and_continues(log: str, s3: dict[str, Any], tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(settings_of_the_page(s3["client_kwargs"]["endpoint_url"]))
    environment = {"SPARK_CONF_DIR": str(conf), "PYTHONPATH": str(ROOT)}
    half = log_positions(log)[1_000]
    for commit in (str(half), "auto", "auto"):
        command = ordo_command("pipeline", "export", log, "--to", "s3a://bucket/out", "--commit", commit)
        run(command, tmp_path, **environment)
    said = run(["-c", EXPORTED_POSITIONS, "s3a://bucket/out"], tmp_path, **environment)
    assert positions_in(said) == log_positions(log)


def test_delta_lakes_own_package_reads_the_table(log: str, delta_spark: Path, tmp_path: Path) -> None:
    table, half = str(tmp_path / "table"), log_positions(log)[1_000]
    versions = []
    for commit, end in ((str(half), half), ("auto", None), ("auto", None)):
        command = ordo_command("pipeline", "export", log, "--to", table, "--format", "delta", "--commit", commit)
        run(command, tmp_path, PYTHONPATH=str(ROOT))
        said = run(["-c", TABLE_POSITIONS, table, DELTA], tmp_path, PYTHONPATH=str(delta_spark))
        assert positions_in(said) == log_positions(log, end)
        versions.append(int(said.partition("versions ")[2]))
    assert versions[1] > versions[0] and versions[2] == versions[1], "the last one had nothing to write"

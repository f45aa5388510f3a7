"""Spark Connect: the client has no JVM, and the server reads the log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.pipeline.generate import LogShape
from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pyspark.sql import SparkSession
from ordo.spark import OrdoLog
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.dataSource.register(OrdoLog)
log = spark.read.format("ordo").option("columns", "kind,position").load(sys.argv[1])
print("rows", log.where("kind = 'message'").count(), type(spark).__module__)
log.createOrReplaceTempView("log")
print("kinds", spark.sql("SELECT count(DISTINCT kind) FROM log").collect()[0][0])
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_of_spark_connect_reads_the_log(archive: str, shape: LogShape, tmp_path: Path) -> None:
    """In a process of its own: one process has either a classic session or one of Connect."""
    for name in ("grpc_status", "google.rpc", "zstandard"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'pyspark[connect]'")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, archive],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patient(280),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"rows {shape.messages} pyspark.sql.connect.session" in done.stdout and "kinds 5" in done.stdout

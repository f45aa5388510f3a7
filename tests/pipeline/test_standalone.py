"""A real Spark cluster: one master and two workers as processes, from the PySpark package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
CLIENT = """
import sys
from ordo.pipeline.spark.session import local_session
spark = local_session("standalone", 2, sys.argv[3], memory="512m", master=sys.argv[1])
log = spark.read.format("ordo").option("partitions", 8).load(sys.argv[2])
print("executors", spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
print("rows", log.count(), log.groupBy("kind").count().orderBy("kind").collect()[0]["kind"])
spark.stop()
"""


@contextmanager
def process(
    folder: Path, name: str, *arguments: str, prefix: Sequence[str] = (), address: str = "127.0.0.1"
) -> Iterator[str]:
    """A Spark daemon, started by the words of `prefix`; killed at the end.

    Gives the URL in the first line of its log that shows it is ready.
    """
    environment = {
        **os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": address, "SPARK_WORKER_DIR": str(folder / name),
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "ORDO_INDEX_DIR": str(folder / "index"),
        "SPARK_WORKER_CORES": "1", "SPARK_WORKER_MEMORY": "1g", "SPARK_DAEMON_MEMORY": "256m",
    }  # fmt: skip
    command = [*prefix, str(HOME / "bin" / "spark-class"), *arguments]
    daemon = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert daemon.stdout is not None
    wanted = re.compile(r"Starting Spark master at (\S+)|Successfully registered with master")
    try:
        for line in daemon.stdout:
            match = wanted.search(line)
            if match:
                yield match[1] or ""
                break
        else:
            raise AssertionError(f"{name} ended before it was ready")
    finally:
        daemon.kill()
        daemon.wait()
        daemon.stdout.close()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_master_and_two_workers_read_a_log(archive: str, tmp_path: Path) -> None:
    master_class, worker_class = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with (
        process(tmp_path, "master", master_class, *ports) as url,
        process(tmp_path, "worker0", worker_class, *ports, url),
        process(tmp_path, "worker1", worker_class, *ports, url),
    ):
        script = tmp_path / "client.py"
        script.write_text(CLIENT)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ORDO_INDEX_DIR": str(tmp_path / "index")}
        command = [sys.executable, str(script), url, archive, str(tmp_path / "scratch")]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=patient(240), check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "executors 2" in done.stdout
    assert "rows 20036 message" in done.stdout

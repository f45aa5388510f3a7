"""Master, two workers, driver and node, each on a machine of its own as far as the network goes."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.recordings.planner import plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.spark.session import driver_address
from tests.faults.networks import Network
from tests.patience import patient
from tests.pipeline.test_standalone import ROOT, process

DRIVER, MASTER, WORKER_A, WORKER_B, NODE = range(5)
ROWS = 2_000
CLIENT = """
import sys
from ordo.pipeline.spark.session import local_session
spark = local_session("machines", 2, sys.argv[3], memory="512m", master=sys.argv[1])
numbers = spark.range(0, int(sys.argv[4]), 1, 4).selectExpr("unhex(lpad(hex(id), 16, '0')) as payload")
numbers.write.format("ordo").mode("append").options(endpoints=sys.argv[2], writer="machines").save()
log = spark.read.format("ordo").options(kinds="message,request", partitions=4).load(sys.argv[5])
print("read", log.count())
status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
print("executors", status.size() - 1, status.keySet().mkString(" "))
spark.stop()
"""


def test_the_driver_has_the_address_that_reaches_the_master() -> None:
    assert driver_address("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert driver_address("spark://nowhere.invalid:7077,127.0.0.1:7077") == {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "0.0.0.0"
    }  # fmt: skip
    assert driver_address("yarn") == {}
    with pytest.raises(PipelineError, match="no way there; give spark://host:port"):
        driver_address("spark://nowhere.invalid:7077")


def service_messages(archive: str, commit: str) -> list[int]:
    """What the Collector applied, as it put it into the log."""
    predicates = Predicates().among("kind", ["message"])
    found = []
    for task in plan(open_recordings([archive], "log", commit), predicates, 64 << 20):
        for batch in read_runs(task, predicates, ("session_id", "payload"), 4096, True):
            found += [struct.unpack(">q", row["payload"])[0] for row in batch.to_pylist() if row["session_id"] < 0]
    return found


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(300)
def test_workers_on_other_machines_write_into_a_node_on_another_and_read_it(tmp_path: Path) -> None:
    """The driver was once only found on loopback, and answers went to the loopback of the node."""
    network = Network(5)
    master_class, worker_class = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
    try:
        with (
            LocalCluster(
                "tests.pipeline.collector:Collector", member_count=1, root=tmp_path / "node", sync="none",
                hosts={0: network.address(NODE)}, prefixes={0: network.prefix(NODE)},
            ) as cluster,
            process(
                tmp_path, "master", master_class, "--host", network.address(MASTER), "--port", "7077",
                "--webui-port", "0", prefix=network.prefix(MASTER), address=network.address(MASTER),
            ) as url,
            process(tmp_path, "a", worker_class, "--host", network.address(WORKER_A), "--webui-port", "0", url,
                    prefix=network.prefix(WORKER_A), address=network.address(WORKER_A)),
            process(tmp_path, "b", worker_class, "--host", network.address(WORKER_B), "--webui-port", "0", url,
                    prefix=network.prefix(WORKER_B), address=network.address(WORKER_B)),
        ):  # fmt: skip
            cluster.await_leader()
            script = tmp_path / "client.py"
            script.write_text(CLIENT)
            endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints.items())
            source = f"ordo://{load_config(cluster.config_path(0)).own_member.archive}"
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            environment.pop("SPARK_LOCAL_IP", None)
            command = [sys.executable, str(script), url, endpoints, str(tmp_path / "scratch"), str(ROWS), source]
            done = subprocess.run(
                [*network.prefix(DRIVER), *command], env=environment, capture_output=True, text=True,
                timeout=patient(240), check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
            assert "executors 2" in done.stdout
            for host in (WORKER_A, WORKER_B):
                assert network.address(host) in done.stdout
            read = re.search(r"read (\d+)", done.stdout)
            found = service_messages(str(cluster.data_dir(0) / "archive"), str(cluster.aeron_dir(0)))
    finally:
        network.close()
    assert sorted(found) == list(range(ROWS))
    assert read is not None and int(read[1]) >= 2 * ROWS, "what was written, and what the service made of it"

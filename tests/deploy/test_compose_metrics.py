"""Prometheus as the Compose file runs it: with its configuration, unchanged, in a network where its names are known."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ordo.deploy.launcher import ROOT, LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.deploy.scraping import has_prometheus
from tests.patience import patient

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
METRICS_PORT = 20009
LISTEN = "127.0.0.1:9090"
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"


@pytest.fixture
def network() -> Iterator[list[str]]:
    """What runs a command in a network of its own, in which node0 to node2 are addresses of loopback, with the files
    in /etc that the Compose file gives Prometheus."""
    name = f"ordo-metrics-{os.getpid()}"
    etc = Path("/etc/netns") / name
    (etc / "prometheus").mkdir(parents=True)
    (etc / "hosts").write_text("127.0.0.1 localhost node0\n127.0.0.2 node1\n127.0.0.3 node2\n")
    for volume in COMPOSE["services"]["prometheus"]["volumes"]:
        source, place, _ = volume.split(":")
        shutil.copy(DEPLOY / source, etc / Path(place).relative_to("/etc"))
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
        shutil.rmtree(etc)


def query(network: list[str], text: str) -> list[Any]:
    """What Prometheus answers; nothing while it does not answer."""
    address = f"http://{LISTEN}/api/v1/query?" + urllib.parse.urlencode({"query": text})
    done = subprocess.run([*network, sys.executable, "-c", ASK, address], capture_output=True, text=True, check=False)
    return list(json.loads(done.stdout)["data"]["result"]) if done.returncode == 0 else []


@has_prometheus
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2")
@pytest.mark.skipif(not Path("/etc/prometheus").is_dir(), reason="needs Debian's prometheus, which has /etc/prometheus")
@pytest.mark.thorough
def test_the_prometheus_of_the_compose_file_sees_every_member(network: list[str], tmp_path: Path) -> None:
    nodes = LocalCluster("ordo.bench.loads.echo:Echo", sync="none", prefixes=dict.fromkeys(range(3), network))
    for member_id in nodes.member_ids:
        path = nodes.config_path(member_id)
        path.write_text(f'{path.read_text()}\n[metrics]\nport = {METRICS_PORT}\nhost = "127.0.0.{member_id + 1}"\n')
    with nodes, (tmp_path / "log").open("w") as log:
        command = ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", f"--web.listen-address={LISTEN}"]
        command += [f"--storage.tsdb.path={tmp_path / 'data'}"]
        prometheus = subprocess.Popen([*network, *command], stdout=log, stderr=log)
        try:
            await_that(lambda: len(query(network, "ordo_has_quorum == 1")) == 3, "three members", 90)
            found = {row["metric"]["instance"] for row in query(network, "ordo_has_quorum")}
            assert found == {f"node{member_id}:{METRICS_PORT}" for member_id in nodes.member_ids}
            await_that(lambda: len(query(network, "ordo:log_lag_bytes")) == 3, "the rules are evaluated", 90)
        finally:
            prometheus.terminate()
            prometheus.wait(patient(30))

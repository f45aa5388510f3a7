"""A Prometheus that scrapes real nodes, and the nodes for it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ordo.deploy.launcher import ROOT, LocalCluster, SyncMode
from tests.clusters import STEADY
from tests.patience import patient

RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
OF_THIS_MACHINE = frozenset({"OrdoClockUnsynchronized", "OrdoClockUncertain"})
"""Alerts of the machine that the tests run on, whose clock nothing need keep; tests that fake it ask for them."""
has_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None, reason="prometheus is not installed"
)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def make_cluster(sync: SyncMode, member_count: int = 3, **options: Any) -> tuple[LocalCluster, list[int]]:
    """Members with metrics, each on a port of its own; not started yet."""
    ports = [free_port() for _ in range(member_count)]
    options["cluster"] = {**STEADY, **options.get("cluster", {})}
    cluster = LocalCluster("ordo.bench.loads.echo:Echo", sync=sync, member_count=member_count, **options)
    for member_id, port in enumerate(ports):
        path = cluster.config_path(member_id)
        path.write_text(path.read_text() + f'\n[metrics]\nport = {port}\ndisk_free_min = "1m"\n')
    return cluster, ports


def impatient_rules(folder: Path) -> str:
    """The rules as they are, but that alerts need not wait, and lags count from 64 KiB on in place of 64 MiB, and of a
    standby from 2 s in place of 60."""
    text = re.sub(r"^ +for: \w+\n", "", RULES.read_text(), flags=re.MULTILINE)
    text = text.replace("64 * 1024 * 1024", "64 * 1024").replace("standby_lag_seconds > 60", "standby_lag_seconds > 2")
    (folder / "rules.yaml").write_text(text)
    return "rules.yaml"


class ScrapingPrometheus:
    """A Prometheus that looks at real nodes twice a second."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._port = free_port()
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        (folder / "prometheus.yml").write_text(
            "global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }\n"
            f"rule_files: [{impatient_rules(folder)}]\n"
            f"scrape_configs: [{{ job_name: ordo, static_configs: [{{ targets: [{targets}] }}] }}]\n"
        )
        command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{self._port}"]
        with (folder / "log").open("w") as log:
            arguments = [*command, "--storage.tsdb.path=data"]
            self._process = subprocess.Popen(arguments, cwd=folder, stdout=log, stderr=log)

    def query(self, text: str) -> list[Any]:
        status, answer = get(self._port, "/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        return list(json.loads(answer)["data"]["result"]) if status == 200 else []

    def query_range(self, text: str, begin_s: float, end_s: float) -> list[Any]:
        """Rows of `metric` and `values`, of which there is one for every second."""
        asked = urllib.parse.urlencode({"query": text, "start": begin_s, "end": end_s, "step": 1})
        status, answer = get(self._port, f"/api/v1/query_range?{asked}")
        return list(json.loads(answer)["data"]["result"]) if status == 200 else []

    def firing(self, without: frozenset[str] = OF_THIS_MACHINE) -> set[tuple[str, str]]:
        """Alerts by name and member, which is empty for those of the cluster."""
        found = [row["metric"] for row in self.query('ALERTS{alertstate="firing"}')]
        return {
            (labels["alertname"], labels.get("member", "")) for labels in found if labels["alertname"] not in without
        }

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(patient(30))

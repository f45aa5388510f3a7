"""The alerts fire when what they are for is so, say promtool and a Prometheus that scrapes real nodes."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.client.session import ClusterClient
from cluster.node.counters import read_counters
from cluster.node.metric_names import (
    DETAIL_TYPES,
    NODE_METRICS,
    OWN_METRICS,
    REFUSED_METRIC,
    REFUSED_TYPE,
    STAGE_METRICS,
    SYSTEM_METRICS,
    SYSTEM_TYPE,
    Metric,
)
from deploy.launcher import ROOT, LocalCluster, SyncMode
from tests.cluster.integration.agreement import await_that

RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "ordo.json"
PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())
METRICS: tuple[Metric, ...] = (
    *NODE_METRICS.values(),
    *SYSTEM_METRICS,
    REFUSED_METRIC,
    *OWN_METRICS.values(),
    *STAGE_METRICS.values(),
)
has_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None, reason="prometheus is not installed"
)


def shown_names() -> set[str]:
    return {name for metric in METRICS for name in metric.shown_names}


def test_metrics_have_names_of_their_own_with_units_and_help() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"ordo_[a-z][a-z_]*[a-z]", metric.name), metric
        assert metric.help and not metric.help.endswith("."), metric


def test_rules_and_dashboard_use_metrics_that_are_there() -> None:
    recorded = set(re.findall(r"record: (\S+)", RULES.read_text()))
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 10
    for text in (RULES.read_text(), *expressions):
        assert set(re.findall(r"\bordo:[\w:]+", text)) <= recorded
        assert set(re.findall(r"\bordo_\w+", text)) <= shown_names()


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    tests = (RULES.parent / "rules_test.yaml").read_text()
    for alert in ALERTS:
        assert f"| `{alert}` |" in PAGE, f"{alert}: docs/OPERATIONS.md does not say what to do"
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:", tests), f"{alert}: no test has it fire"
        assert f"eval_time: 15m, alertname: {alert} " in tests, f"{alert}: no test has it stay quiet"


@has_prometheus
def test_promtool_is_content() -> None:
    for command in (["check", "rules", RULES.name], ["test", "rules", "rules_test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def sample_counts(text: str) -> dict[str, float]:
    """How many durations each histogram of a scrape has."""
    return {
        name: float(count) for name, count in re.findall(r"^ordo_(\w+)_seconds_count{.*} (\S+)$", text, re.MULTILINE)
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def make_cluster(sync: SyncMode) -> tuple[LocalCluster, list[int]]:
    """Three members with metrics, each on a port of its own; not started yet."""
    ports = [free_port() for _ in range(3)]
    cluster = LocalCluster("ordo.bench.echo:Echo", sync=sync)
    for member_id, port in enumerate(ports):
        path = cluster.config_path(member_id)
        path.write_text(path.read_text() + f'\n[metrics]\nport = {port}\ndisk_free_min = "1m"\n')
    return cluster, ports


@pytest.fixture
def cluster() -> Iterator[tuple[LocalCluster, list[int]]]:
    cluster, ports = make_cluster("none")
    with cluster:
        cluster.await_leader()
        yield cluster, ports


@pytest.mark.slow
def test_health_and_metrics_of_real_nodes(cluster: tuple[LocalCluster, list[int]]) -> None:
    nodes, ports = cluster
    leader = nodes.await_leader()
    for member_id, port in enumerate(ports):
        await_that(lambda: get(port, "/readyz") == (200, "ok\n"), f"member {member_id} is ready")  # noqa: B023
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/elsewhere")[0] == 404
        status, text = get(port, "/metrics")
        assert status == 200
        labels = f'{{cluster="0",member="{member_id}"'
        assert f"ordo_has_quorum{labels}}} 1.0\n" in text
        assert f'ordo_role{labels},role="leader"}} {float(member_id == leader)}\n' in text
        assert set(re.findall(r"^(ordo_\w+)", text, re.MULTILINE)) == shown_names()
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for counter in read_counters(nodes.aeron_dir(leader)):
        known = {SYSTEM_TYPE, REFUSED_TYPE, *NODE_METRICS, *DETAIL_TYPES}
        assert counter.type_id in known, f"{counter.label}: give it a metric, or say why it has none"

    survivor, *others = nodes.member_ids
    for other in others:
        nodes.kill(other)
    await_that(lambda: get(ports[survivor], "/readyz")[0] == 503, "a member without a quorum is not ready")
    assert get(ports[survivor], "/readyz")[1] == "no quorum: the member neither leads nor follows\n"
    assert get(ports[survivor], "/livez") == (200, "ok\n"), "killing it would help nobody"
    assert get(ports[others[0]], "/livez")[0] == 0, "its metrics end with a node"


@pytest.mark.slow
def test_requests_of_a_client_are_counted_in_every_histogram() -> None:
    nodes, ports = make_cluster("commit")
    with nodes:
        leader = nodes.await_leader()
        with ClusterClient(nodes.ingress_endpoints) as client:
            for number in range(200):
                client.request(str(number).encode())
        for port in ports:
            await_that(lambda: get(port, "/livez")[0] == 200, "the probe")  # noqa: B023
        counts = [sample_counts(get(port, "/metrics")[1]) for port in ports]
        assert set(counts[leader]) == set(STAGE_METRICS)
        assert min(counts[leader].values()) > 10, counts
        for member_id in set(nodes.member_ids) - {leader}:
            of_followers = {stage for stage, count in counts[member_id].items() if count}
            assert of_followers == {"sync", "callback"}, counts
        text = get(ports[leader], "/metrics")[1]
        (slowest,) = re.findall(r'^ordo_round_trip_seconds_bucket{.*le="8.589934592".*} (\S+)$', text, re.MULTILINE)
        assert float(slowest) == sample_counts(text)["round_trip"], "none took longer"


@pytest.mark.slow
def test_a_metrics_process_that_dies_is_started_again_and_a_taken_port_is_refused(
    cluster: tuple[LocalCluster, list[int]],
) -> None:
    nodes, ports = cluster
    await_that(lambda: get(ports[0], "/livez")[0] == 200, "the probe")
    children = Path(f"/proc/{nodes.pid(0)}/task/{nodes.pid(0)}/children")

    def metrics_pid() -> int | None:
        found = [int(pid) for pid in children.read_text().split()]
        return next((pid for pid in found if b"metrics_main" in Path(f"/proc/{pid}/cmdline").read_bytes()), None)

    first = metrics_pid()
    assert first is not None
    subprocess.run(["kill", "-9", str(first)], check=True)
    await_that(lambda: metrics_pid() not in (None, first), "another process")
    await_that(lambda: get(ports[0], "/readyz")[0] == 200, "its probe")
    nodes.stop(1)
    with socket.create_server(("127.0.0.1", ports[1])):
        nodes.start_member(1)
        assert nodes.wait(1) == 2
    assert "metrics: cannot listen on 127.0.0.1" in nodes.logs(1)


@has_prometheus
@pytest.mark.slow
def test_prometheus_scrapes_and_a_lost_quorum_fires(cluster: tuple[LocalCluster, list[int]], tmp_path: Path) -> None:
    nodes, ports = cluster
    own = free_port()
    targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    (tmp_path / "prometheus.yml").write_text(
        f"global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{RULES}]\n"
        f"scrape_configs: [{{ job_name: ordo, static_configs: [{{ targets: [{targets}] }}] }}]\n"
    )
    command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{own}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*command, "--storage.tsdb.path=data"], cwd=tmp_path, stdout=log, stderr=log)
    try:

        def query(text: str) -> list[Any]:
            status, answer = get(own, "/api/v1/query?" + urllib.parse.urlencode({"query": text}))
            return list(json.loads(answer)["data"]["result"]) if status == 200 else []

        await_that(lambda: len(query("ordo_has_quorum == 1")) == 3, "three members are scraped")
        assert len(query("up == 1")) == 3
        await_that(lambda: len(query("ordo:log_lag_bytes")) == 3, "the rules are evaluated")
        assert query('ALERTS{alertstate="firing"}') == []
        for member_id in nodes.member_ids[1:]:
            nodes.kill(member_id)
        firing = 'ALERTS{alertstate="firing", alertname="OrdoNoQuorum"}'
        await_that(lambda: len(query(firing)) == 1, "the alert fires")
    finally:
        process.terminate()
        process.wait(30)

"""The alerts fire when what they are for is so, say promtool and a Prometheus that scrapes real nodes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.monitoring.metric_names import (
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
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.deploy.launcher import ROOT, LocalCluster
from tests.cluster.integration.agreement import await_that, await_value
from tests.cluster.integration.damage import flip, log_files
from tests.cluster.integration.test_standby import Standby
from tests.clusters import PATIENT, await_ready, container_of
from tests.deploy.alerts import FAULTS, rules_test
from tests.deploy.scraping import RULES, ScrapingPrometheus, free_port, get, has_prometheus, make_cluster
from tests.patience import patient

DASHBOARD = ROOT / "deploy" / "grafana" / "ordo.json"
PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()
TERM_LENGTH_TOO_LONG = 1 << 30
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())
METRICS: tuple[Metric, ...] = (
    *NODE_METRICS.values(),
    *SYSTEM_METRICS,
    REFUSED_METRIC,
    *OWN_METRICS.values(),
    *STAGE_METRICS.values(),
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
    faults = Path(__file__).read_text() + Path(__file__).with_name("test_machine_faults.py").read_text()
    for alert in ALERTS:
        assert f'"{alert}"' in faults, f"{alert}: no test makes its fault"
        assert f"| `{alert}` |" in PAGE, f"{alert}: docs/OPERATIONS.md does not say what to do"
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:", tests), f"{alert}: no test has it fire"
        assert f"eval_time: 15m, alertname: {alert} " in tests, f"{alert}: no test has it stay quiet"


@has_prometheus
def test_promtool_is_content() -> None:
    for command in (["check", "rules", RULES.name], ["test", "rules", "rules_test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def check_alerts_on(scrapes: dict[str, str], folder: Path) -> None:
    """The series that real nodes show are those that the alerts look at, labels and all."""
    assert list(FAULTS) == ALERTS
    text = rules_test(str(RULES), scrapes)
    if shutil.which("promtool"):
        (folder / "test.yaml").write_text(text)
        done = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def sample_counts(text: str) -> dict[str, float]:
    """How many durations each histogram of a scrape has."""
    return {
        name: float(count) for name, count in re.findall(r"^ordo_(\w+)_seconds_count{.*} (\S+)$", text, re.MULTILINE)
    }


def counted_stages(port: int) -> set[str]:
    """Of which stages a member has counted any duration."""
    return {stage for stage, count in sample_counts(get(port, "/metrics")[1]).items() if count}


@pytest.fixture
def cluster() -> Iterator[tuple[LocalCluster, list[int]]]:
    cluster, ports = make_cluster("none")
    with cluster:
        cluster.await_leader()
        yield cluster, ports


def scrape_in_one_term(nodes: LocalCluster, ports: list[int]) -> tuple[int, list[str]] | None:
    """The leader and the metrics of all members, unless another one came to lead meanwhile."""
    leader = nodes.await_leader()
    term = nodes.leader_term(leader)
    answers = [get(port, "/metrics") for port in ports]
    is_same = nodes.leader() == leader and nodes.leader_term(leader) == term
    return (leader, [text for _, text in answers]) if is_same and {status for status, _ in answers} == {200} else None


def make_standby(nodes: LocalCluster, folder: Path) -> tuple[Standby, int]:
    """A standby with metrics, and the port of these; it does not run yet."""
    port = free_port()
    return Standby(nodes, folder / "standby", metrics={"port": port, "disk_free_min": "1m"}), port


def scrape_standby(nodes: LocalCluster, folder: Path) -> dict[str, str]:
    standby, port = make_standby(nodes, folder)
    with standby.running():
        level = re.compile(r"^ordo_standby_lag_seconds{.*} [0-9]", re.MULTILINE)
        await_that(lambda: level.search(get(port, "/metrics")[1]) is not None, "a standby that follows")
        return {f"127.0.0.1:{port}": get(port, "/metrics")[1]}


@has_prometheus
@pytest.mark.slow
def test_a_standby_whose_primary_is_gone_fires(tmp_path: Path) -> None:
    nodes, ports = make_cluster("none", member_count=1)
    standby, port = make_standby(nodes, tmp_path)
    with nodes, standby.running():
        nodes.await_leader()
        prometheus = ScrapingPrometheus(tmp_path, [*ports, port])
        try:
            await_that(lambda: prometheus.query("ordo_standby_lag_seconds < 2 and ordo_standby_lag_seconds >= 0"), "it")
            await_that(lambda: "OrdoStandbyBehind" not in names_of(prometheus.firing()), "a standby that follows")
            nodes.kill(0)
            await_that(lambda: ("OrdoStandbyBehind", "9") in prometheus.firing(), "the standby that hears nothing")
        finally:
            prometheus.close()


@pytest.mark.slow
@pytest.mark.thorough
def test_health_and_metrics_of_real_nodes(cluster: tuple[LocalCluster, list[int]], tmp_path: Path) -> None:
    nodes, ports = cluster
    for member_id, port in enumerate(ports):
        await_that(lambda: get(port, "/readyz") == (200, "ok\n"), f"member {member_id} is ready")  # noqa: B023
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/elsewhere")[0] == 404
    leader, texts = await_value(lambda: scrape_in_one_term(nodes, ports), "metrics while one member leads")
    scrapes = {f"127.0.0.1:{port}": text for port, text in zip(ports, texts, strict=True)}
    for member_id, text in enumerate(texts):
        labels = f'{{cluster="0",member="{member_id}"'
        assert f"ordo_has_quorum{labels}}} 1.0\n" in text
        assert f'ordo_role{labels},role="leader"}} {float(member_id == leader)}\n' in text
        of_members = {name for name in shown_names() if not name.startswith("ordo_standby_")}
        assert set(re.findall(r"^(ordo_\w+)", text, re.MULTILINE)) == of_members
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for counter in read_counters(nodes.aeron_dir(leader)):
        known = {SYSTEM_TYPE, REFUSED_TYPE, *NODE_METRICS, *DETAIL_TYPES}
        assert counter.type_id in known, f"{counter.label}: give it a metric, or say why it has none"
    scrapes |= scrape_standby(nodes, tmp_path)
    check_alerts_on(scrapes, tmp_path)

    survivor, *others = nodes.member_ids
    for other in others:
        nodes.kill(other)
    await_that(lambda: get(ports[survivor], "/readyz")[0] == 503, "a member without a quorum is not ready")
    assert get(ports[survivor], "/readyz")[1] == "no quorum: the member neither leads nor follows\n"
    assert get(ports[survivor], "/livez") == (200, "ok\n"), "killing it would help nobody"
    assert get(ports[others[0]], "/livez")[0] == 0, "its metrics end with a node"


@pytest.mark.slow
def test_requests_of_a_client_are_counted_in_every_histogram() -> None:
    nodes, ports = make_cluster("commit", cluster=PATIENT)
    with nodes:
        leader = await_ready(nodes)
        with ClusterClient(nodes.ingress_endpoints) as client:
            for number in range(200):
                client.request(str(number).encode())
        for port in ports:
            await_that(lambda: get(port, "/livez")[0] == 200, "the probe")  # noqa: B023
        for member_id in set(nodes.member_ids) - {leader}:
            followers = partial(counted_stages, ports[member_id])
            await_that(lambda: followers() >= {"sync", "callback"}, "what a follower has executed")  # noqa: B023
            assert followers() == {"sync", "callback"}
        counts = sample_counts(get(ports[leader], "/metrics")[1])
        assert set(counts) == set(STAGE_METRICS)
        assert min(counts.values()) > 10, counts
        text = get(ports[leader], "/metrics")[1]
        (slowest,) = re.findall(r'^ordo_round_trip_seconds_bucket{.*le="8.589934592".*} (\S+)$', text, re.MULTILINE)
        assert float(slowest) == sample_counts(text)["round_trip"], "none took longer"


def child_pid(nodes: LocalCluster, member_id: int, module: bytes) -> int | None:
    """The process that a node has started to run a module."""
    pid = nodes.pid(member_id)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it has ended meanwhile
            if module in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


@pytest.mark.slow
def test_a_metrics_process_that_dies_is_started_again_and_a_taken_port_is_refused(
    cluster: tuple[LocalCluster, list[int]],
) -> None:
    nodes, ports = cluster
    await_that(lambda: get(ports[0], "/livez")[0] == 200, "the probe")
    first = child_pid(nodes, 0, b"metrics_main")
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await_that(lambda: child_pid(nodes, 0, b"metrics_main") not in (None, first), "another process")
    await_that(lambda: get(ports[0], "/readyz")[0] == 200, "its probe")
    nodes.stop(1)
    with socket.create_server(("127.0.0.1", ports[1])):
        nodes.start_member(1)
        assert nodes.wait(1) == 2
    assert "metrics: cannot listen on 127.0.0.1" in nodes.logs(1)


def names_of(firing: set[tuple[str, str]]) -> set[str]:
    return {name for name, _ in firing}


def flood(nodes: LocalCluster, member_id: int) -> None:
    """Opens streams that no member would have memory for, from one socket."""
    host, _, port = nodes.ingress_endpoints[member_id].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for session in range(300):
            frame = (40, 0, 0, 5, 0, session, INGRESS_STREAM_ID, 7, 7, TERM_LENGTH_TOO_LONG, 1408, 0)
            stranger.sendto(struct.pack("<iBBHiiiiiiii", *frame), (host, int(port)))


def send_64k(nodes: LocalCluster) -> None:
    """And a little more, until the leader has executed it."""
    with ClusterClient(nodes.ingress_endpoints) as client:
        for _ in range(70):
            client.request(bytes(1024), timeout_s=patient(30))


def empty_panels(prometheus: ScrapingPrometheus) -> list[str]:
    """What the dashboard asks for, and Prometheus cannot answer."""
    (cluster,) = {row["metric"]["cluster"] for row in prometheus.query("ordo_build_info")}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [one for one in asked if not prometheus.query(one.replace("$cluster", cluster))]


def hand_over(nodes: LocalCluster) -> None:
    """Asks the leader to, or a member that has just led: then nothing happens."""
    run(["cluster", "transfer", "--config", str(nodes.config_path(nodes.await_leader()))])


@has_prometheus
@pytest.mark.slow
def test_prometheus_scrapes_and_faults_fire(tmp_path: Path) -> None:
    """The disk of the last member counts as full from the beginning: it demands more room than there is."""
    nodes, ports = make_cluster("none")
    last = nodes.member_ids[-1]
    path = nodes.config_path(last)
    path.write_text(path.read_text().replace('disk_free_min = "1m"', 'disk_free_min = "1000000g"'))
    with nodes:
        nodes.await_leader()
        prometheus = ScrapingPrometheus(tmp_path, ports)
        try:
            await_that(lambda: len(prometheus.query("ordo_has_quorum == 1")) == 3, "three members are scraped")
            await_that(lambda: len(prometheus.query("ordo:log_lag_bytes")) == 3, "the rules are evaluated")
            full = {("OrdoDiskFull", str(last)), ("OrdoDiskLow", str(last))}
            await_that(lambda: prometheus.firing() == full, "the full disk, and nothing else")
            status, reason = get(ports[last], "/readyz")
            assert status == 503 and "disk" in reason, (status, reason)
            check_faults(nodes, prometheus)
        finally:
            prometheus.close()


def check_faults(nodes: LocalCluster, prometheus: ScrapingPrometheus) -> None:
    """One after the other; what fired once may go on."""
    flood(nodes, 0)
    await_that(lambda: ("OrdoRefused", "0") in prometheus.firing(), "the flood is seen")

    def is_seen_after_hand_over() -> bool:
        hand_over(nodes)
        return "OrdoElections" in names_of(prometheus.firing())

    await_that(is_seen_after_hand_over, "the elections are seen")
    follower = next(one for one in nodes.member_ids if one != nodes.await_leader())
    container = container_of(nodes, follower)
    os.kill(container, signal.SIGSTOP)
    send_64k(nodes)
    await_that(lambda: ("OrdoServiceBehind", str(follower)) in prometheus.firing(), "the service that stands still")
    await_that(lambda: not empty_panels(prometheus), "an answer for every panel of the dashboard")
    os.kill(container, signal.SIGCONT)
    nodes.send_signal(follower, signal.SIGSTOP)
    awaited = {("OrdoMemberDown", str(follower)), ("OrdoMemberCutOff", str(follower))}
    await_that(lambda: awaited <= prometheus.firing(), "the node that stands still")
    survivor, *others = [one for one in nodes.member_ids if one != follower]
    for member_id in (follower, *others):
        nodes.kill(member_id)
    await_that(lambda: ("OrdoNoQuorum", "") in prometheus.firing(), f"member {survivor} is alone")


@has_prometheus
@pytest.mark.slow
def test_faults_of_logs_and_disks_fire(tmp_path: Path) -> None:
    """A member takes nothing since its disk has no room; a byte of its log is mended; one that all have wrong is not,
    and once all were stopped no member trusts its log."""
    small = {"log_term_length": "64k", "segment_length": "64k"}
    nodes, ports = make_cluster("none", cluster=small, tables={"archive": {"scrub": "1s"}})
    with nodes:
        follower = next(one for one in nodes.member_ids if one != nodes.await_leader())
        for _ in range(3):
            send_64k(nodes)
        prometheus = ScrapingPrometheus(tmp_path, ports)
        try:
            await_that(lambda: len(prometheus.query("ordo_log_position_bytes > 192 * 1024")) == 3, "three members")
            await_that(lambda: not prometheus.firing(), "nothing of the start is left")
            flip(log_files(nodes, follower)[1], 40)
            await_that(lambda: ("OrdoErrors", str(follower)) in prometheus.firing(), "what the scrubber found")
            await_that(lambda: "OrdoDamaged" not in names_of(prometheus.firing()), "it is mended")
            check_follower_behind(nodes, prometheus, follower)
            for member_id in nodes.member_ids:
                flip(log_files(nodes, member_id)[0], 40)
            await_that(lambda: ("OrdoDamaged", str(follower)) in prometheus.firing(), "what nobody can mend")
            for member_id in nodes.member_ids:
                nodes.stop(member_id)
            nodes.start()
            distrusted = {("OrdoDistrusted", str(member_id)) for member_id in nodes.member_ids}
            await_that(lambda: distrusted <= prometheus.firing(), "that nobody trusts its log")
        finally:
            prometheus.close()


def check_follower_behind(nodes: LocalCluster, prometheus: ScrapingPrometheus, follower: int) -> None:
    """It wants more room than any disk has, and takes nothing; then as before."""
    path = nodes.config_path(follower)
    before = path.read_text()
    full = 'scrub = "1s"\ndisk_low = "1000000g"\ndisk_high = "1000000g"'
    path.write_text(before.replace('scrub = "1s"', full))
    nodes.restart(follower)
    send_64k(nodes)
    await_that(lambda: ("OrdoFollowerBehind", str(follower)) in prometheus.firing(), "the log that stays behind")
    path.write_text(before)
    nodes.restart(follower)
    caught_up = (
        "ordo:log_lag_bytes == 0 and on (member) ordo_service_lag_bytes == 0 and on (member) ordo_has_quorum == 1"
    )
    await_that(lambda: len(prometheus.query(caught_up)) == 3, "it has caught up")
    await_that(lambda: "OrdoFollowerBehind" not in names_of(prometheus.firing()), "the alert ends, too")

"""Several services of a node, each in a process of its own (docs/SERVICES.md, Several services of a node)."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo import ClusterClient
from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.cli import run
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from tests.cluster.integration.agreement import await_error, counter_of, errors_of
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
FOLDER = "tests.cluster.integration.several"
TIMEOUT_S = 60


def tables(*names: str) -> dict[str, Any]:
    return {"services": [{"class": f"{FOLDER}:{name}"} for name in names]}


def hear(client: ClusterClient, heard: Sequence[bytes], wanted: bytes) -> None:
    deadline_s = time.monotonic() + patient(TIMEOUT_S)
    while not any(one.startswith(wanted) for one in heard):
        assert time.monotonic() < deadline_s, (wanted, list(heard))
        client.poll()
        time.sleep(0.001)


def request(cluster: LocalCluster, wanted: Sequence[bytes]) -> None:
    """One request: what service 0 answers, and what service 1 offers."""
    heard: list[bytes] = []
    cluster.await_leader(TIMEOUT_S)
    with ClusterClient(
        cluster.ingress_endpoints, on_message=lambda session_id, timestamp, payload: heard.append(bytes(payload))
    ) as client:
        answer = client.request(b"one", timeout_s=TIMEOUT_S).payload
        assert answer.startswith(wanted[0]), answer
        hear(client, heard, wanted[1])
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        counts = answer.split()[1:]
        while client.query(b"", timeout_s=TIMEOUT_S).payload.split()[3] == counts[2]:
            assert time.monotonic() < deadline_s, "the timer has not fired"
    assert not any(one.startswith(b"answering") for one in heard), heard


def test_both_execute_the_log_and_come_back_from_their_snapshots(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables=tables("Answering", "Watching"), member_count=3)
    request(cluster, (b"answering 1 0 0", b"watching 1 0 0"))
    take_snapshot(cluster)
    request(cluster, (b"answering 2", b"watching 2"))
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    for member_id in cluster.member_ids:
        cluster.start_member(member_id)
    request(cluster, (b"answering 3", b"watching 3"))
    leader_id = cluster.await_leader()
    plan = ordo("archive", "list", str(cluster.data_dir(leader_id) / "archive")).stdout
    assert plan.count("alias=snapshot") >= 3, plan


def test_a_node_ends_with_each_of_its_services(start_cluster: StartCluster) -> None:
    cluster = start_cluster("", tables=tables("Answering", "Failing"), member_count=1, service_mode="process")
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.offer(b"one")
        assert cluster.wait(0, TIMEOUT_S) == EXIT_STATUS_SERVICE
    await_error(cluster, 0, "Failing raised in on_session_message")


def test_what_one_service_fails_at_is_left_out_for_both_and_the_log_begins_anew(
    start_cluster: StartCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an operator does with a stopped member: `ordo cluster skip`, `snapshots`, `renew-log`, and a backup."""
    cluster = start_cluster("", tables=tables("Answering", "Picky"), member_count=1, service_mode="process")
    config, log_file = str(cluster.config_path(0)), cluster.data_dir(0) / "archive"
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(b"one", timeout_s=TIMEOUT_S).payload.startswith(b"answering 1")
        client.offer(b"poison")
        assert cluster.wait(0, TIMEOUT_S) == EXIT_STATUS_SERVICE
    (position,) = re.findall(r"Picky raised in on_session_message at position (\d+)", errors_of(cluster, 0))[:1]
    assert run(["cluster", "skip", position, "--config", config]) == 0
    cluster.start_member(0)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(b"two", timeout_s=TIMEOUT_S).payload.startswith(b"answering 2")
    endpoint = ",".join(cluster.ingress_endpoints.values())
    assert run(["backup", "run", str(tmp_path / "backup"), "--once", "--endpoints", endpoint]) == 0
    assert run(["backup", "verify", str(tmp_path / "backup")]) == 0
    assert run(["cluster", "shutdown", "--config", config]) == 0
    cluster.wait(0, TIMEOUT_S)
    assert run(["cluster", "renew-log", "--config", config]) == 1
    assert "has the lengths of the configuration already" in capsys.readouterr().err
    document = tomlkit.parse(cluster.config_path(0).read_text())
    document["cluster"].update(log_term_length="128k", segment_length="4m")
    cluster.config_path(0).write_text(tomlkit.dumps(document))
    assert run(["cluster", "renew-log", "--config", config]) == 0
    assert "begins its log anew" in capsys.readouterr().out
    cluster.start_member(0)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(b"three", timeout_s=TIMEOUT_S).payload.startswith(b"answering 3")
    assert run(["backup", "run", str(tmp_path / "backup"), "--once", "--endpoints", endpoint]) == 0
    assert run(["backup", "verify", str(tmp_path / "backup")]) == 0
    logs = [one for one in list_recordings(str(log_file)) if "alias=log" in one.original_channel]
    assert [one.term_length for one in logs] == [128 * 1024]
    capsys.readouterr()
    assert run(["cluster", "snapshots", "--config", config, "--json"]) == 0
    (held,) = json.loads(capsys.readouterr().out)
    assert (len(held["recording_ids"]), held["is_valid"]) == (3, True)


def test_a_cluster_keeps_the_number_of_its_services(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster("", tables=tables("Answering", "Watching"), member_count=1, service_mode="inline")
    take_snapshot(cluster)
    assert counter_of(cluster, 0, CounterType.SNAPSHOT_COUNT) == 1
    cluster.kill(0, signal.SIGTERM)
    done = ordo("node", "--config", str(cluster.config_path(0)), "--service", f"{FOLDER}:Answering")
    assert done.returncode == 1
    assert "is of 2 service(s), and this member is to run 1" in done.stdout + done.stderr

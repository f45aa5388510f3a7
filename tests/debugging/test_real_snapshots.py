"""A running member with a snapshot, and the backup's kind of copy that a fork is made of."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.cli import run
from ordo.debugging.replaying.code import code_of
from ordo.debugging.replaying.recorded_log import RecordedLog
from ordo.debugging.replaying.timeline import Timeline
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.starter.counter import Counter
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.command import order
from tests.pages.background import in_background
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SERVICE = "ordo.starter.counter:Counter"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("snapshots") / "cluster"
    with LocalCluster(SERVICE, root=root, member_count=1, sync="none") as started:
        started.await_leader(60)
        with ClusterClient(list(started.ingress_endpoints.values())) as client:
            client.request(b"40")
            assert order(started, "snapshot").returncode == 0
            client.request(b"2")
        await_that(lambda: len(RecordedLog(started.data_dir(0)).snapshots) == 1, "the snapshot in the member's store")
        yield started


def total(timeline: Timeline) -> int:
    assert isinstance(timeline.execution.service, Counter)
    return timeline.execution.service.total


def test_it_is_executed_from_the_snapshot_and_to_the_same_state_without_it(cluster: LocalCluster) -> None:
    log = RecordedLog(cluster.data_dir(0))
    (entry,) = log.snapshots
    states = []
    for uses_snapshots in (True, False):
        timeline = Timeline(log, code_of(Counter), uses_snapshots=uses_snapshots)
        timeline.go(entry.log_position)
        assert total(timeline) == 40
        states.append(timeline.execution.save().messages)
        timeline.go(log.end)
        assert total(timeline) == 42
    assert states[0] == states[1], "what the member recorded is what its log leads to"
    assert b"".join(states[0]) == b"".join(log.load(entry, 0).messages)


def test_a_fork_starts_from_the_snapshot(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (port,) = find_ports(1)
    words = ["--service", SERVICE, "--output", str(tmp_path / "sandbox"), "--port", str(port)]
    assert run(["debug", "fork", str(cluster.data_dir(0)), *words]) == 0, capsys.readouterr()
    with (
        in_background(["node", "--config", str(tmp_path / "sandbox" / "node0.toml")], tmp_path / "node.log"),
        ClusterClient([f"127.0.0.1:{port}"], settings=ClientSettings(connect_timeout_s=patient(60))) as client,
    ):
        assert client.request(b"100").payload == b"142"
    capsys.readouterr()
    assert run(["debug", "fork", str(cluster.data_dir(0)), *words]) == 2
    assert "is there already" in capsys.readouterr().err

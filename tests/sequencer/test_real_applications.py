"""Applications in processes of their own: every output once in the log, whoever is killed or stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.client import ClusterClient
from cluster.node.config import load_config
from deploy.launcher import LocalCluster
from ordo.apps_cli import printable
from ordo.cli import run
from sequencer.entries import EntryKind, LogEntry
from sequencer.reader import LogReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]


class Instances:
    """Processes of one group."""

    def __init__(self, cluster: LocalCluster, service: str, root: Path) -> None:
        self._cluster = cluster
        self._service = service
        self._root = root
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Returns when the instance has read its checkpoint."""
        log = self._root / f"{name}.log"
        starts = log.read_text().count("app.started") if log.exists() else 0
        with log.open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "ordo.cli", "app"),
                    *("--service", self._service, "--group", "tested", "--folder", str(self._root / name)),
                    *("--endpoints", ",".join(self._cluster.ingress_endpoints.values()), "--checkpoint", "0.3"),
                    *("--instance", name, "--app-version", "1.2.0"),
                ],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=output,
            )

        deadline_s = time.monotonic() + 60
        while log.read_text().count("app.started") == starts and time.monotonic() < deadline_s:
            self.check_running()
            time.sleep(0.02)

    def send(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> int:
        """Tells it to end, and returns its exit status."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        return process.wait(30)

    def check_running(self) -> None:
        for name, process in self._processes.items():
            assert process.poll() is None, (self._root / f"{name}.log").read_text()

    def close(self) -> None:
        for name in list(self._processes):
            self.kill(name)


class Outputs:
    """What stands in the log of one group's outputs, read beside everything else."""

    def __init__(self, cluster: LocalCluster) -> None:
        addresses = [load_config(cluster.config_path(one)).own_member.archive for one in cluster.member_ids]
        self._reader = LogReader(addresses, kinds=[EntryKind.OUTPUT], silence_s=0.5)
        self.copies = 0
        self.first: dict[int, LogEntry] = {}
        self.different: list[LogEntry] = []

    def poll(self) -> None:
        self._reader.poll(self._take)

    def _take(self, entry: LogEntry) -> None:
        self.copies += 1
        first = self.first.setdefault(entry.values.number, entry)
        if first.payload != entry.payload:
            self.different.append(entry)

    @property
    def payloads(self) -> list[bytes]:
        return [self.first[number].payload for number in sorted(self.first)]

    def close(self) -> None:
        self._reader.close()


def await_outputs(client: ClusterClient, outputs: Outputs, instances: Instances, count: int) -> None:
    """Reads until so many different outputs stand in the log, or a minute has passed."""
    deadline_s = time.monotonic() + 60
    while len(outputs.first) < count and time.monotonic() < deadline_s:
        client.poll()
        outputs.poll()
        instances.check_running()


def executed(client: ClusterClient, member_id: int) -> list[bytes]:
    """What the service of one member has executed of the group's outputs."""
    found: list[bytes] = []
    while part := json.loads(client.query(b"%d" % len(found), member_id=member_id, timeout_s=30).payload):
        found += [bytes.fromhex(one) for one in part]
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster") as cluster:
        cluster.await_leader(60)
        yield cluster


def expected(lengths: Sequence[int]) -> list[bytes]:
    return [
        b"%d.%d %d" % (index + 1, part, sum(lengths[: index + 1])) for index in range(len(lengths)) for part in (0, 1)
    ]


def look(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What `ordo apps` says."""
    capsys.readouterr()
    assert run(["apps", "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def look_until(
    is_right: Callable[[list[dict[str, Any]]], bool], cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + 60
    while not is_right(found := look(cluster, capsys)):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.2)
    return found


def test_everybody_can_see_the_instances(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path)
    endpoints = ["--endpoints", ",".join(cluster.ingress_endpoints.values())]
    try:
        assert look(cluster, capsys) == []
        instances.start("a")
        instances.start("b")
        with ClusterClient(cluster.ingress_endpoints) as client:
            for _ in range(5):
                written = client.request(b"xx", timeout_s=30).log_position
        found = look_until(
            lambda rows: len(rows) == 2 and all(row["outputs_executed"] == 10 for row in rows), cluster, capsys
        )
        assert {(row["group"], row["instance"], row["version"], row["active"]) for row in found} == {
            ("tested", "a", "1.2.0", True),
            ("tested", "b", "1.2.0", True),
        }
        assert all(written <= row["position"] == row["log_position"] - row["lag"] for row in found)
        cluster.kill(cluster.await_leader())
        cluster.await_leader()
        assert {row["instance"] for row in look(cluster, capsys)} == {"a", "b"}, "the other members know them too"
        assert instances.end("a") == 0
        look_until(lambda rows: [row["instance"] for row in rows] == ["b"], cluster, capsys)
        assert run(["apps", *endpoints]) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("tested", "1.2.0", "writes"))
    finally:
        instances.close()
    assert run(["apps", "--endpoints", "localhost"]) == 2
    assert "--endpoints" in capsys.readouterr().err


def test_what_an_instance_calls_itself_does_nothing_to_a_terminal() -> None:
    assert printable("[red]a\x1b[2Jb") == "\\[red]a?[2Jb"


def test_three_instances_one_killed_one_stopped(cluster: LocalCluster, tmp_path: Path) -> None:
    instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path)
    outputs = Outputs(cluster)
    try:
        for name in ("a", "b", "c"):
            instances.start(name)
        lengths = [number * 7 % 90 for number in range(600)]
        with ClusterClient(cluster.ingress_endpoints) as client:
            for number, length_bytes in enumerate(lengths):
                client.request(b"x" * length_bytes, timeout_s=30)
                outputs.poll()
                if number == 150:
                    instances.kill("a")
                elif number == 200:
                    instances.send("b", signal.SIGSTOP)
                elif number == 350:
                    instances.start("a")
                    killed = cluster.await_leader()
                    cluster.kill(killed)
                elif number == 400:
                    instances.send("b", signal.SIGCONT)
            await_outputs(client, outputs, instances, 1200)
            by_member = [executed(client, member_id) for member_id in cluster.member_ids if member_id != killed]
        assert outputs.payloads == expected(lengths)
        assert by_member == [expected(lengths)] * 2
        assert not outputs.different
        assert [instances.end(name) for name in ("a", "b", "c")] == [0, 0, 0]
    finally:
        instances.close()
        outputs.close()

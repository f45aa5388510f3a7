"""Applications in processes of their own, and what tests see of them: `ordo apps`, their outputs in the log."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.runtime.children import ChildProcess
from tests.cluster.integration.agreement import hold
from tests.forks import COMMAND, FORKS
from tests.patience import patient

ROOT = Path(__file__).parents[2]
PARK_S = 0.002
"""Between two looks for what processes write, which need the processor themselves."""


class Instances:
    """Processes of one group."""

    def __init__(self, cluster: LocalCluster, service: str, root: Path, *options: str) -> None:
        """`options` of `ordo app`, for all of them."""
        self._cluster = cluster
        self._service = service
        self._root = root
        self._options = options
        self._processes: dict[str, ChildProcess] = {}

    def start(self, name: str, *options: str, service: str = "") -> None:
        """Returns when the instance has read its checkpoint."""
        starts = self._count_starts(name)
        self.spawn(name, *options, service=service)
        deadline_s = time.monotonic() + patient(60)
        while self._count_starts(name) == starts and time.monotonic() < deadline_s:
            self.check_running()
            time.sleep(0.02)

    def _count_starts(self, name: str) -> int:
        log = self._root / f"{name}.log"
        return log.read_text().count("app.started") if log.exists() else 0

    def spawn(self, name: str, *options: str, service: str = "") -> None:
        """Starts an instance without waiting for it."""
        log = self._root / f"{name}.log"
        with log.open("ab") as output:
            self._processes[name] = FORKS.spawn(
                [
                    *(*COMMAND, "app"),
                    *("--service", service or self._service, "--group", "tested", "--folder", str(self._root / name)),
                    *("--endpoints", ",".join(self._cluster.ingress_endpoints.values()), "--checkpoint", "0.3"),
                    *("--instance", name, "--app-version", "1.2.0", *self._options, *options),
                ],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=output,
            )

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal; return after SIGSTOP once it holds the process."""
        self._processes[name].send_signal(number)
        if number == signal.SIGSTOP:
            hold(self._processes[name].pid)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> int:
        """Tells it to end, and returns its exit status."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        return process.wait(patient(30))

    def log(self, name: str) -> str:
        """What it has logged so far."""
        return (self._root / f"{name}.log").read_text()

    def check_running(self) -> None:
        for name, process in self._processes.items():
            assert process.poll() is None, self.log(name)

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
        self.generations: list[int] = []
        """Where the identity was opened that new outputs name, in the order of the log; once for outputs that name the
        same in a row. What an instance had on its way when it stood still may come late, and is a copy then."""
        self._position = -1

    def poll(self) -> int:
        """Takes what has come, and returns how many there were."""
        return self._reader.poll(self._take)

    def _take(self, entry: LogEntry) -> None:
        assert entry.position > self._position, "the reader goes on where it was"
        self._position = entry.position
        self.copies += 1
        if entry.values.number not in self.first and self.generations[-1:] != [entry.values.open_position]:
            self.generations.append(entry.values.open_position)
        first = self.first.setdefault(entry.values.number, entry)
        if first.payload != entry.payload:
            self.different.append(entry)

    @property
    def payloads(self) -> list[bytes]:
        return [self.first[number].payload for number in sorted(self.first)]

    def close(self) -> None:
        self._reader.close()


def await_outputs(client: ClusterClient, outputs: Outputs, instances: Instances, count: int) -> None:
    """Reads until so many different outputs stand in the log, or three minutes have passed."""
    deadline_s = time.monotonic() + patient(180)
    while len(outputs.first) < count and time.monotonic() < deadline_s:
        client.poll()
        if not outputs.poll():
            client.park(PARK_S)
        instances.check_running()


def executed(client: ClusterClient, member_id: int, count: int) -> list[bytes]:
    """What the service of one member has executed of the group's outputs, once that are so many, or a minute is over.

    A member executes what the log has when it comes to it, each in its own time.
    """
    found: list[bytes] = []
    deadline_s = time.monotonic() + patient(60)
    while True:
        part = json.loads(client.query(b"%d" % len(found), member_id=member_id, timeout_s=patient(30)).payload)
        found += [bytes.fromhex(one) for one in part]
        if not part and (len(found) >= count or time.monotonic() > deadline_s):
            return found
        client.park(0.0 if part else 0.01)


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
    deadline_s = time.monotonic() + patient(60)
    while not is_right(found := look(cluster, capsys)):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.2)
    return found

"""A streaming query whose processes are killed with SIGKILL while a cluster writes, and which goes on each time."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.pipeline.recordings.planner import plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.pipeline.conftest import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
KILLS = 3
PLACES = ("checkpoint/offsets", "batches", "checkpoint/commits")
RATE = 200  # messages a second: batches are planned faster than they come
PATIENCE_S = 300.0  # a batch takes a second, and minutes where a dozen processes share two cores


def processes_of(session: int) -> list[int]:
    """All processes of a session: driver, JVM, Python workers."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            state, _, _, owner = stat.rpartition(")")[2].split()[:4]
            if int(owner) == session and state != "Z":
                found.append(int(name))
    return found


def kill_all(driver: subprocess.Popen[bytes]) -> None:
    while pids := processes_of(driver.pid):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    driver.wait()


class Feed:
    """Numbered messages to a cluster at a steady rate; every one of them is answered before `close` returns."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.sent = self.answered = 0
        self._begin_s = time.monotonic()
        self._client = ClusterClient(cluster.ingress_endpoints, on_message=self._on_message)

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.answered += 1

    def step(self) -> None:
        due = RATE * (time.monotonic() - self._begin_s)
        if (
            self.sent < min(due, self.answered + 64)
            and self._client.offer(struct.pack("<q", self.sent) + bytes(80)) > 0
        ):
            self.sent += 1
        if self._client.poll() == 0:
            self._client.park(0.001)

    def close(self) -> None:
        deadline_s = time.monotonic() + patient(PATIENCE_S)
        while self.answered < self.sent:
            assert time.monotonic() < deadline_s, f"sent={self.sent} answered={self.answered}"
            self._client.poll()
        self._client.close()


@contextmanager
def driver(folder: Path, archive: str, commit: str, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """The query in a session of its own; nothing of it is left behind."""
    command = [sys.executable, str(Path(__file__).with_name("stream_driver.py")), str(folder), archive, commit, mode]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        kill_all(process)


def count(folder: Path) -> int:
    return sum(name.isdigit() for name in os.listdir(folder)) if folder.exists() else 0


def said(folder: Path) -> str:
    return (folder / "driver.log").read_text(errors="replace")[-2000:]


def await_files(feed: Feed, process: subprocess.Popen[bytes], folder: Path, place: str, more: int) -> None:
    """Writes until so many more batches are in a place of the folder."""
    deadline_s = time.monotonic() + patient(PATIENCE_S)
    wanted = count(folder / place) + more
    while count(folder / place) < wanted:
        assert process.poll() is None, said(folder)
        assert time.monotonic() < deadline_s, f"{count(folder / place)} of {wanted} in {place}: {said(folder)}"
        feed.step()


def rows_of(archive: str, commit: str) -> Iterator[str]:
    """The log, read without Spark, in the form the driver gives it."""
    (runs,) = plan(open_recordings([archive], "log", commit), Predicates(), 1 << 40)
    for batch in read_runs(runs, Predicates(), ("position", "kind", "payload"), 4096, True):
        for row in batch.to_pylist():
            yield f"{row['position']} {row['kind']} {row['payload'].hex()}\n"


@pytest.mark.parametrize("seed", [1])
def test_a_query_killed_at_random_points_gives_exactly_the_log_once(tmp_path: Path, seed: int) -> None:
    """Killed after a batch was planned, after its sink took it, or after it was committed, and a moment later."""
    chance = random.Random(seed)
    (tmp_path / "batches").mkdir()
    with ready_cluster("ordo.bench.loads.echo:Echo", member_count=1, sync="none", root=tmp_path / "cluster") as cluster:
        leader = cluster.await_leader()
        archive, commit = str(cluster.data_dir(leader) / "archive"), str(cluster.aeron_dir(leader))
        feed = Feed(cluster)
        for _ in range(KILLS):
            with driver(tmp_path, archive, commit, "follow") as process:
                await_files(feed, process, tmp_path, "checkpoint/commits", 1)
                await_files(feed, process, tmp_path, chance.choice(PLACES), chance.randrange(1, 3))
                time.sleep(chance.random() * 0.05)
        feed.close()
        with driver(tmp_path, archive, commit, "rest") as process:
            assert process.wait(patient(PATIENCE_S)) == 0, said(tmp_path)
        log = list(rows_of(archive, commit))
    assert not (tmp_path / "conflict").exists(), (tmp_path / "conflict").read_text()
    batches = sorted((tmp_path / "batches").iterdir(), key=lambda path: int(path.name))
    assert [row for batch in batches for row in batch.read_text().splitlines(keepends=True)] == log
    numbers = [struct.unpack("<q", bytes.fromhex(row.split()[2])[:8])[0] for row in log if " message " in row]
    assert numbers == list(range(feed.sent)) and feed.sent > 1000

"""A standby that begins anew with 2 GiB of log, while clients are answered: it gets all of it, and the load goes on.

`pytest -s` prints what was seen; nothing is asserted of times.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.bench.loads.native_load import NativeLoad
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.runtime.io.storage import FileStorage
from tests.cluster.integration.agreement import counter_of
from tests.cluster.integration.test_standby import Standby
from tests.clusters import PATIENT, ready_cluster
from tests.faults.logs import frames_of

SERVICE = "tests.cluster.integration.soak_service:Tally"
BYTES = int(os.environ.get("STANDBY_BYTES", str(2 << 30)))
SIZE_BYTES = 4096
CHUNK = 2048
WINDOW = 64
RATE = int(os.environ.get("STANDBY_RATE", "2000"))
LIMIT_S = 600
pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is gone afterwards: pytest keeps those of three runs, and this one is large."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


class StandbyKilledError(Exception):
    """It was killed, and so does not end as it does otherwise."""


class Load:
    """Clients of the primary, until they are killed."""

    def __init__(self, cluster: LocalCluster, path: Path) -> None:
        self._path = path
        endpoints = ",".join(cluster.ingress_endpoints.values())
        words = [sys.executable, "-P", "-m", "tests.faults.paced_load", str(RATE), endpoints]
        with path.open("wb") as file:
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def answered(self) -> int:
        assert self._process.poll() is None, self._path.read_text()
        lines = self._path.read_text().rpartition("\n")[0].splitlines()
        return int(lines[-1].split()[0]) if lines else 0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def fill(cluster: LocalCluster) -> None:
    with NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load:
        for _ in range(0, BYTES, CHUNK * SIZE_BYTES):
            load.pipelined(CHUNK, WINDOW)


def log_frames(data_dir: Path, end: int) -> Iterator[bytes]:
    """The frames of a node's log, which begins at 0, up to a position that is committed."""
    archive = data_dir / "archive"
    catalog = Catalog.open(FileStorage(open_lmdb), str(archive), read_only=True)
    recording = [one for one in catalog if one.stream_id == LOG_STREAM_ID][-1]
    catalog.close()
    assert recording.start_position == 0, "it has all of the log"
    for position in range(0, end, recording.segment_length):
        segment = (archive / f"{recording.recording_id}-{position}.rec").read_bytes()
        yield from frames_of(segment, min(recording.segment_length, end - position))


def test_two_gib_of_log_are_begun_anew_under_load(folder: Path) -> None:
    """The standby is killed on the way, and goes on where it was."""
    with ready_cluster(SERVICE, heartbeat=PATIENT, root=folder / "primary") as cluster:
        fill(cluster)
        length_bytes = counter_of(cluster, 0, CounterType.COMMIT_POSITION)
        assert length_bytes >= BYTES
        standby = Standby(cluster, folder / "standby", service=SERVICE)
        load = Load(cluster, folder / "load.txt")
        try:
            cluster.await_value(lambda: load.answered() or None, "clients that are answered", 120)
            begun_s, before = time.monotonic(), load.answered()
            with suppress(StandbyKilledError), standby.running() as process:
                cluster.await_value(
                    lambda: standby.status().get("position", 0) > BYTES // 2 or None, "half of it", LIMIT_S
                )
                process.send_signal(signal.SIGKILL)
                raise StandbyKilledError
            with standby.running():
                cluster.await_value(lambda: standby.status().get("lag_bytes") == 0 or None, "all of it", LIMIT_S)
                took_s, count = time.monotonic() - begun_s, load.answered() - before
                assert count > 0, "clients were answered meanwhile"
                load.close()
                end = counter_of(cluster, 0, CounterType.COMMIT_POSITION)
                standby.await_position(end)
        finally:
            load.close()
        here, there = log_frames(folder / "standby" / "standby", end), log_frames(cluster.data_dir(0), end)
        assert all(one == other for one, other in itertools.zip_longest(here, there)), "record for record"
    seen = f"{length_bytes / 1e6:.0f} MB begun anew in {took_s:.0f} s, {length_bytes / 1e6 / took_s:.0f} MB/s"
    beside = f"{count / took_s:.0f} of {RATE} messages a second answered; load average {os.getloadavg()[0]:.1f}"
    print(f"\n{seen}, with {beside}")

"""Alerts of what is wrong with a machine: its clock is off, its shared memory runs out. Both are made for one node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.integration.agreement import await_that
from tests.deploy.scraping import ScrapingPrometheus, has_prometheus, make_cluster

SHARED_MEMORY_BYTES = 256 << 20
LEFT_BYTES = 16 << 20
OWN_SHARED_MEMORY = f'mount -t tmpfs -o size={SHARED_MEMORY_BYTES} tmpfs /dev/shm && exec "$@"'


def fill(folder: Path) -> Path:
    """A file that leaves LEFT_BYTES of the folder's file system."""
    stats = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, stats.f_bavail * stats.f_frsize - LEFT_BYTES)
    return filler


@has_prometheus
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_clock_that_is_off_and_shared_memory_that_runs_out_fire(tmp_path: Path) -> None:
    """The node sees a file system of its own as /dev/shm, and a clock that is put forward while it runs."""
    library, switch = tmp_path / "clock_ahead.so", tmp_path / "ahead"
    source = Path(__file__).with_name("clock_ahead.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    prefix = ["env", f"LD_PRELOAD={library}", f"CLOCK_AHEAD={switch}"]
    prefix += ["unshare", "--mount", "sh", "-c", OWN_SHARED_MEMORY, "sh"]
    nodes, ports = make_cluster("none", member_count=1, prefixes={0: prefix})
    with nodes:
        prometheus = ScrapingPrometheus(tmp_path, ports)
        try:
            await_that(lambda: prometheus.query("ordo_has_quorum == 1"), "the member is scraped")
            assert not {("OrdoClock", "0"), ("OrdoSharedMemoryLow", "0")} & prometheus.firing()
            switch.touch()
            await_that(lambda: ("OrdoClock", "0") in prometheus.firing(), "the clock")
            switch.unlink()
            await_that(lambda: ("OrdoClock", "0") not in prometheus.firing(), "the clock as it was")
            filler = fill(Path(f"/proc/{nodes.pid(0)}/root/dev/shm"))
            await_that(lambda: ("OrdoSharedMemoryLow", "0") in prometheus.firing(), "the memory")
            filler.unlink()
            await_that(lambda: ("OrdoSharedMemoryLow", "0") not in prometheus.firing(), "the memory as it was")
            assert nodes.is_running(0)
        finally:
            prometheus.close()

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


def clock_library(folder: Path) -> Path:
    """The clock that a node is to see, built for LD_PRELOAD."""
    library, source = folder / "clock_ahead.so", Path(__file__).with_name("clock_ahead.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@has_prometheus
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_clock_that_is_off_and_shared_memory_that_runs_out_fire(tmp_path: Path) -> None:
    """The node sees a file system of its own as /dev/shm, and a clock that is put forward while it runs."""
    switch = tmp_path / "ahead"
    prefix = ["env", f"LD_PRELOAD={clock_library(tmp_path)}", f"CLOCK_AHEAD={switch}"]
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


@has_prometheus
@pytest.mark.slow
def test_a_clock_that_nothing_keeps_or_not_well_fires(tmp_path: Path) -> None:
    """The kernel first forbids to be asked, then tells of a good clock, one with a wide bound, and one that is free."""
    told = tmp_path / "told"
    prefix = ["env", f"LD_PRELOAD={clock_library(tmp_path)}", f"CLOCK_QUALITY={told}"]
    nodes, ports = make_cluster("none", member_count=1, prefixes={0: prefix})
    path = nodes.config_path(0)
    path.write_text(path.read_text().replace("[metrics]", '[metrics]\nclock_error_max = "2ms"'))
    unsynchronized, uncertain = ("OrdoClockUnsynchronized", "0"), ("OrdoClockUncertain", "0")
    with nodes:
        prometheus = ScrapingPrometheus(tmp_path, ports)

        def of_clock() -> set[tuple[str, str]]:
            return {unsynchronized, uncertain} & prometheus.firing(without=frozenset())

        try:
            await_that(lambda: prometheus.query("ordo_clock_synchronized == -1"), "the kernel that does not tell")
            await_that(lambda: prometheus.query("ordo_clock_error_limit_seconds == 0.002"), "the limit")
            assert not of_clock()
            told.write_text("0 1999")
            await_that(lambda: prometheus.query("ordo_clock_error_bound_seconds == 0.001999"), "the good clock")
            assert not of_clock()
            told.write_text("0 2001")
            await_that(lambda: of_clock() == {uncertain}, "the wide bound")
            told.write_text("5 16000000")
            await_that(lambda: of_clock() == {unsynchronized}, "the clock that nothing keeps")
            told.write_text("0 100")
            await_that(lambda: not of_clock(), "the clock as it was")
        finally:
            prometheus.close()

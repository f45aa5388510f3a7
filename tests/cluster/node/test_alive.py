"""Whether a node of this machine lives: its driver's heartbeat, and its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.cluster.monitoring.counters import is_alive
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import create_cnc

NOW_MS = 1_000_000
TIMEOUT_MS, GONE_AFTER_MS = 2_000, 300


@pytest.fixture(scope="module")
def dead_pid() -> int:
    """Of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("age_ms", "is_dead", "gone_after_ms", "lives"),
    [
        (100, False, GONE_AFTER_MS, True),
        (1_900, False, GONE_AFTER_MS, True),
        (2_100, False, GONE_AFTER_MS, False),
        (100, True, GONE_AFTER_MS, True),
        (400, True, GONE_AFTER_MS, False),
        (400, True, None, True),
        (2_100, True, None, False),
    ],
)
def test_a_heartbeat_that_is_late_is_enough_where_the_process_is_gone(
    tmp_path: Path, dead_pid: int, age_ms: int, is_dead: bool, gone_after_ms: int | None, lives: bool
) -> None:
    """A process that is not seen, with a heartbeat in time, is one of another container."""
    pid = dead_pid if is_dead else os.getpid()
    path = str(tmp_path / "cnc.dat")
    cnc = create_cnc(FileMemoryProvider(), path, client_liveness_timeout_ns=10**10, start_timestamp_ms=1, pid=pid)
    cnc.mark_ready(NOW_MS - age_ms)
    cnc.close()
    assert is_alive(tmp_path, NOW_MS, TIMEOUT_MS, gone_after_ms) is lives


def test_without_a_driver_nothing_lives(tmp_path: Path) -> None:
    assert not is_alive(tmp_path, NOW_MS, TIMEOUT_MS, GONE_AFTER_MS)

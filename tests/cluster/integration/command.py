"""The `ordo` command as a process of its own."""

from __future__ import annotations

import subprocess
import sys

from ordo.deploy.launcher import ROOT


def ordo(*arguments: str, timeout_s: float = 90.0) -> subprocess.CompletedProcess[str]:
    """Runs it to its end and captures what it says."""
    command = [sys.executable, "-m", "ordo.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


def demand_one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The command ended with a status and, its log aside, one line on stderr that holds all the words."""
    assert done.returncode == status, done
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1 and lines[0].startswith("ordo: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr

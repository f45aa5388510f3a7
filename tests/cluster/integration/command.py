"""The `ordo` command as a process of its own."""

from __future__ import annotations

import subprocess

from ordo.deploy.launcher import LocalCluster
from tests.forks import run_ordo


def ordo(*arguments: str, timeout_s: float = 90.0) -> subprocess.CompletedProcess[str]:
    """Runs it to its end and captures what it says."""
    return run_ordo(arguments, timeout_s)


def order(cluster: LocalCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Give the leader a command of `ordo cluster`, and the next one if it has ceased to lead: then nothing was done."""

    def given() -> subprocess.CompletedProcess[str] | None:
        leader = cluster.await_leader(60)
        done = ordo("cluster", *words, "--config", str(cluster.config_path(leader)))
        return None if f"member {leader} does not lead" in done.stderr else done

    return cluster.await_value(given, f"a leader that takes {words}", 60)


def demand_one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The command ended with a status and, its log aside, one line on stderr that holds all the words."""
    assert done.returncode == status, done
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1 and lines[0].startswith("ordo: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr

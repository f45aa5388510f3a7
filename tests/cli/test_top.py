"""`ordo top` of a real cluster: once for pipes, and live on a terminal with keys."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ordo.deploy.launcher import ROOT, LocalCluster
from tests.cluster.integration.agreement import await_value
from tests.cluster.integration.command import demand_one_line, ordo
from tests.clusters import ready_cluster
from tests.patience import patient

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with ready_cluster("ordo.bench.loads.echo:Echo", sync="none") as started:
        yield started


def endpoints(cluster: LocalCluster) -> list[str]:
    return ["--endpoints", ",".join(cluster.ingress_endpoints.values())]


def _rows_without_lag(cluster: LocalCluster) -> dict[int, dict[str, Any]] | None:
    """By member, once all of them have what the leader has: on a busy machine one may be looked at a moment before."""
    done = ordo("top", "--once", "--interval", "0.2", "--json", *endpoints(cluster))
    assert done.returncode == 0, done.stderr
    rows = {row["member"]: row for row in json.loads(done.stdout)}
    return rows if all(row["lag"] == 0 for row in rows.values()) else None


def test_once_for_all_members_and_for_one(cluster: LocalCluster) -> None:
    leader = cluster.await_leader()
    rows = await_value(lambda: _rows_without_lag(cluster), "all members with nothing left to do")
    assert {member: row["role"] for member, row in rows.items()} == {
        one: "LEADER" if one == leader else "FOLLOWER" for one in cluster.member_ids
    }
    assert all(row["disk_free"] > 0 and row["sent_rate"] >= 0 for row in rows.values())
    plain = ordo("top", "--interval", "0.1", *endpoints(cluster))
    assert plain.returncode == 0, "no terminal: as with --once"
    assert f"member {leader} leads term" in plain.stdout

    def own_row() -> dict[str, Any] | None:
        here = ordo("top", "--once", "--interval", "0.2", "--json", "--config", str(cluster.config_path(leader)))
        (row,) = json.loads(here.stdout)
        return row if (row["lag"], row["service_lag"]) == (0, 0) else None

    row, seen = await_value(own_row, "the leader with nothing left to do"), rows[leader]
    assert (row["member"], row["role"], row["term"]) == (leader, "LEADER", seen["term"])
    assert row["commit"] >= seen["commit"], "the leader itself may append"


def test_a_live_screen_takes_keys_and_leaves_the_terminal_as_it_was(cluster: LocalCluster) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ordo.cli", "top", "--interval", "0.3", *endpoints(cluster)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    process = subprocess.Popen(command, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    try:
        shown = _read_until(master, b"leads term")
        os.write(master, b"j")
        os.write(master, b"\r")
        shown = _read_until(master, b"memory free")
        assert b"ingress" in shown
        os.write(master, b"q")
        _read_until(master, b"\x1b[?1049l")
        assert process.wait(patient(20)) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read_until(descriptor: int, wanted: bytes, timeout_s: float = 40.0) -> bytes:
    found, deadline_s = b"", time.monotonic() + patient(timeout_s)
    while wanted not in found:
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline_s - time.monotonic()))
        assert readable, f"{wanted!r} was not shown: {found[-2000:]!r}"
        found += os.read(descriptor, 65_536)
    return found


def test_misuse_and_what_is_not_there(cluster: LocalCluster) -> None:
    demand_one_line(ordo("top"), 2, "--config", "--endpoints")
    demand_one_line(ordo("top", "--once", "--interval", "0", *endpoints(cluster)), 2, "--interval")
    done = ordo("top", "--once", "--interval", "0.1", "--endpoints", "127.0.0.1:9")
    assert done.returncode == 3
    assert "no answer" in done.stdout
    assert "Traceback" not in done.stderr

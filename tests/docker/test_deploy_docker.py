"""`ordo deploy docker` with a real daemon: a client goes on while members come, go and are upgraded."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.docker.counting import GAP_MAX_S, Client, await_value
from tests.docker.engine import ROOT, Engine, run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3000)]
NAME = "deployed"
ENDPOINTS = ("node0:20000", "node1:20000", "node2:20000")
VERSION = "import importlib.metadata as m; print(m.version('tally'))"


def deploy(engine: Engine, *words: str) -> Any:
    """Returns what the command said of the cluster."""
    command = (sys.executable, "-m", "ordo.cli", "deploy", "docker", *words, "--name", NAME, "--json")
    return json.loads(run(*command, env={**engine.environment, "PYTHONPATH": str(ROOT)}))


def roles(found: Any) -> list[tuple[int, str]]:
    assert all(one["health"] == "healthy" for one in found["members"]), found
    return [(one["member_id"], one["role"]) for one in found["members"]]


def test_a_cluster_is_started_scaled_upgraded_and_removed(engine: Engine, tally_images: tuple[str, str]) -> None:
    old, new = tally_images
    try:
        started = deploy(engine, "start", "--service", "tally:Tally", "--image", old)
        assert roles(started) == [(0, "voter"), (1, "voter"), (2, "voter")]
        client = Client(engine, old, NAME, ENDPOINTS)
        client.await_progress()
        assert roles(deploy(engine, "scale", "5")) == [(member_id, "voter") for member_id in range(5)]
        client.await_progress()
        upgraded = deploy(engine, "upgrade", "--image", new)
        client.await_progress()
        for one in upgraded["members"]:
            assert engine.docker("exec", one["container"], "python3", "-c", VERSION) == "1.1"
        assert roles(deploy(engine, "scale", "3")) == [(0, "voter"), (1, "voter"), (2, "voter")]
        client.await_progress()
        longest_s, total = client.longest_s(), client.stop()
        print(f"\n{total} requests, each answered once; longest wait {longest_s:.2f} s")
        assert longest_s < GAP_MAX_S

        def settled() -> bool | None:
            return len({one["log_position"] for one in deploy(engine, "status")["members"]}) == 1 or None

        await_value(settled, "members with equal positions")
        assert deploy(engine, "remove")["removed"] == ["deployed-node0", "deployed-node1", "deployed-node2"]
    finally:
        left = engine.docker("ps", "-aq", "--filter", f"network={NAME}").split()
        _ = left and engine.docker("rm", "-f", "-v", *left)
    for kind in ("volume", "network"):
        assert NAME not in engine.docker(kind, "ls", "--format", "{{.Name}}")

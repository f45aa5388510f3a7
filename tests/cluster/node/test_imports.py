"""What a node has imported when it runs: what is off, or runs in another process, takes neither memory nor time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.forks import usual_environment
from tests.patience import patient

ECHO = "tests.cluster.container.services:Echo"
TELLS_ITS_MODULES = (
    "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules))));"
    "from ordo.cli import run; sys.exit(run(sys.argv[1:]))"
)
LIBRARIES = {"ordo", "typer", "pydantic", "pydantic_core", "structlog", "lmdb"}
"""Beside those that these bring."""
ROOMS = {
    *("archive", "cluster", "consensus", "runtime", "sequencer", "service_api", "transport"),
    "cli",
}
"""The parts of `ordo` that a node is made of."""
ABSENT = {
    *("rich", "tomlkit", "prometheus_client", "hdrh", "multiprocessing"),
    "ordo.cluster.container.execution",
    "ordo.cluster.container.service_container",
    "ordo.cluster.container.service_loader",
    "ordo.cluster.client.session",
    "tests.cluster.container.services",
}
"""What others import: terminals, configurations that are written, metrics, clients, what executes the log, and the code
of the service, which all run in processes of their own."""


@pytest.fixture
def modules(tmp_path: Path) -> set[str]:
    cluster = LocalCluster(ECHO, root=tmp_path / "cluster", member_count=1)
    command = [sys.executable, "-c", TELLS_ITS_MODULES, "node", "--config", str(cluster.config_path(0))]
    node = subprocess.Popen(
        [*command, "--service", ECHO],
        env=usual_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert node.stderr is not None
        assert any(json.loads(line).get("state") == "CLOSED" for line in node.stderr)
        os.kill(node.pid, signal.SIGTERM)
        output, _ = node.communicate(timeout=patient(60))
    finally:
        node.kill()
        node.communicate()
        cluster.close()
    return set(json.loads(output.splitlines()[-1]))


@pytest.mark.slow
def test_a_node_whose_service_has_its_own_process_is_without_what_others_need(modules: set[str]) -> None:
    assert "ordo.cluster.module.consensus_module" in modules, "it ran"
    assert not ABSENT & modules
    assert {name.split(".")[1] for name in modules if name.startswith("ordo.")} <= ROOMS
    assert modules >= LIBRARIES

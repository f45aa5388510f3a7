"""The commands of docs/GATEWAY.md are carried out: the example has grpcio and the contract alone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from ordo.deploy.launcher import ROOT
from tests.cluster.integration.conftest import StartCluster
from tests.gateway.conftest import StartGateway
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PAGE = ROOT / "docs" / "GATEWAY.md"


def commands_with(word: str) -> list[str]:
    """The commands of the page that have the word."""
    return [
        line for line in PAGE.read_text().splitlines() if word in line and line.startswith(("python", "ordo", "PY"))
    ]


def run(folder: Path, command: str, **replaced: str) -> str:
    """Runs a command of the page in a folder; what it prints."""
    packages = Path(grpc.__file__).parents[1]
    words_of_page = {"python ": f"{sys.executable} -S ", "PYTHONPATH=OUT": f"PYTHONPATH=OUT:{packages}"}
    for word, by in {**words_of_page, **replaced}.items():
        command = command.replace(word, by, 1)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    words = shlex.split(command)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=patient(60), check=False
    )
    assert done.returncode == 0, done
    return done.stdout


def test_the_example_runs_with_the_contract_alone(
    start_cluster: StartCluster, start_gateway: StartGateway, tmp_path: Path
) -> None:
    cluster = start_cluster(member_count=1)
    first, second = start_gateway(cluster), start_gateway(cluster)
    first.kill()
    folder = tmp_path / "caller"
    for name in ("service_api/ordo.proto", "examples/gateway_client.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "OUT").mkdir()
    (make,) = commands_with("grpc_tools.protoc")
    (call,) = commands_with("gateway_client.py")
    run(folder, make)
    shown = run(folder, call, **{"10.0.0.8:50051": first.address, "10.0.0.9:50051": second.address})
    assert [line.split(" ", 2)[2].split(",")[0] for line in shown.splitlines()] == ["1", "3"]

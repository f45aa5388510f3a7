"""What the README shows works as it stands there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ordo.testing import AdvanceTime, Input, Message, OpenSession, Query, check_service
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.snippets import texts_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_service_is_deterministic_and_its_snapshots_are_whole() -> None:
    names: dict[str, type] = {}
    exec(texts_of(README, "python")[0], names)
    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, b"40"), AdvanceTime(3), Message(1, 4, b"2"), Query(b"")]
    check_service(names["Counter"], inputs)


def test_the_client_is_answered_by_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, client = texts_of(README, "python")
    (tmp_path / "counter.py").write_text(service)
    monkeypatch.chdir(tmp_path)
    with ready_cluster("counter:Counter", root=tmp_path / "cluster") as cluster:
        own = client.replace("10.0.0.9", "127.0.0.1")
        for member_id, endpoint in cluster.ingress_endpoints.items():
            own = own.replace(f"10.0.0.{member_id + 1}:20000", endpoint)
        assert "10.0.0" not in own
        done = subprocess.run(
            [sys.executable, "-c", own], capture_output=True, text=True, check=False, timeout=patient(60)
        )
    said = [line for line in done.stderr.splitlines() if not line.startswith("client waits for the cluster:")]
    assert (done.stdout, said) == ("b'40'\n", []), "it says so where a busy machine has it wait"


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 80

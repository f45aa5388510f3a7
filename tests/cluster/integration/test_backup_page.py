"""docs/BACKUP.md, command for command, with the addresses and folders of a cluster of this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ordo.deploy.launcher import ROOT, LocalCluster
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import LEDGER, StartCluster
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.cluster.integration.writer import Writer
from tests.snippets import texts_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PAGE = (ROOT / "docs" / "BACKUP.md").read_text()
ENDPOINTS = "10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000"


def test_every_command_of_the_page(start_cluster: StartCluster, tmp_path: Path) -> None:
    commands = [line for text in texts_of(PAGE, "sh") for line in text.splitlines()]
    assert [" ".join(one.split()[:3]) for one in commands if "backup" in one.split()[1]] == [
        "ordo backup run",
        "ordo backup status",
        "ordo backup verify",
    ]
    old = start_cluster()
    with Writer(old.ingress_endpoints) as writer:
        writer.write(100)
        take_snapshot(old)
        wanted = demand_agreement(old, [writer])
    new = LocalCluster(LEDGER, root=tmp_path / "new")
    given = {
        "/backup/orders": str(tmp_path / "orders"),
        ENDPOINTS: ",".join(old.ingress_endpoints.values()),
        "1048576": str(wanted.position),
        **{f"node{one}.toml": str(new.config_path(one)) for one in new.member_ids},
    }
    for command in commands:
        name, *words = (given.get(word, word) for word in shlex.split(command))
        assert name == "ordo"
        ends_by_itself = ["--once"] if words[:2] == ["backup", "run"] else []
        done = ordo(*words, *ends_by_itself)
        assert done.returncode == 0, (command, done)
    with new:
        new.await_leader(60)

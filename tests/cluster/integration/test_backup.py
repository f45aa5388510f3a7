"""Backups of real clusters, and clusters made from them: the same state, in other folders, with other members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import LEDGER, StartCluster
from tests.cluster.integration.services import PID_EVENT
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def endpoints(cluster: LocalCluster) -> str:
    return ",".join(cluster.ingress_endpoints.values())


def back_up(cluster: LocalCluster, folder: Path, *options: str) -> dict[str, Any]:
    """Everything that the cluster has now; what `status` shows of it."""
    done = ordo("backup", "run", str(folder), "--endpoints", endpoints(cluster), "--once", "--timeout", "60", *options)
    assert done.returncode == 0, done
    return status_of(folder)


def status_of(folder: Path) -> dict[str, Any]:
    shown = ordo("backup", "status", str(folder), "--json")
    assert shown.returncode == 0, shown
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def restore(folder: Path, cluster: LocalCluster, *options: str) -> str:
    """Makes the data folders of a cluster that never ran; what the command says."""
    configs = [part for one in cluster.member_ids for part in ("--config", str(cluster.config_path(one)))]
    done = ordo("restore", str(folder), *configs, *options)
    assert done.returncode == 0, done
    return done.stdout


def started_at(cluster: LocalCluster) -> list[int]:
    """Where the service of each member began to execute."""
    return [int(str(next(cluster.log_events(one, PID_EVENT))["position"])) for one in cluster.member_ids]


def test_a_new_cluster_goes_on_where_the_old_one_was(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster()
    with Writer(old.ingress_endpoints) as writer:
        writer.write(500)
        take_snapshot(old)
        writer.write(500)
        before = demand_agreement(old, [writer])
        found = back_up(old, tmp_path / "backup")
        assert len(found["snapshots"]) == 1
        assert found["log"][0]["start"] == 0
        assert found["log"][0]["end"] >= before.position
        assert ordo("backup", "verify", str(tmp_path / "backup")).returncode == 0
    old.close()
    new = LocalCluster(LEDGER, root=tmp_path / "new")
    said = restore(tmp_path / "backup", new)
    assert "sessions of the old one are closed" in said
    with new:
        new.await_leader(60)
        with Writer(new.ingress_endpoints, writer_id=2) as second:
            second.write(100)
            after = demand_agreement(new, [second, writer])
        assert started_at(new) == [found["snapshots"][0]["position"]] * 3, "from the snapshot, not from the beginning"
    assert after.entries == before.entries + 100

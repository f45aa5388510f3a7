"""Real disks that fill up, stand still, and take their time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ordo.service_api.service import OfferResult
from tests.cluster.integration.command import ordo
from tests.faults.lab import Lab, laboratory

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(120)]
LEFT_BYTES = 80 * 1024 * 1024  # between disk_low and a quarter of it
TIMEOUTS_S = 1.5
SLOW_SYNC_MS = 700  # longer than the leader heartbeat timeout


def make_leader(lab: Lab, member_id: int) -> None:
    """Makes a member the leader, by a transfer of leadership if it does not lead already."""
    leader = lab.leader()
    if leader != member_id:
        done = ordo("cluster", "transfer", "--to", str(member_id), "--config", str(lab.cluster.config_path(leader)))
        assert done.returncode == 0, done
    assert lab.leader() == member_id


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_full_disk(tmp_path: Path, role: str) -> None:
    """The others go on without the member, which keeps running, says why, and comes back by itself with room."""
    with laboratory(tmp_path / "lab", with_network=True, disks_of=[1]) as lab:
        make_leader(lab, 1 if role == "leader" else 0)
        lab.run(0.3)
        lab.fill_disk(1)
        lab.run_answered(50, "the others answer")
        assert lab.cluster.is_running(1)
        lab.make_room(1)
        lab.settle()
        lab.demand_everything()


def test_all_disks_full(tmp_path: Path) -> None:
    """Nothing is taken, which clients are told; queries are answered; with room all goes on by itself."""
    with laboratory(tmp_path / "lab", with_network=True, disks_of=[0, 1, 2]) as lab:
        lab.run(0.3)
        for member_id in lab.disks:
            lab.disks[member_id].fill(LEFT_BYTES)
        client = lab.writer.client
        lab.run_until(lambda: bool(client.ingress_trouble), "the client is told")
        assert client.offer(b"") == OfferResult.NO_ROOM
        assert "full" in client.ingress_trouble
        status = ordo("cluster", "status", "--config", str(lab.cluster.config_path(lab.leader())))
        assert "SHORT" in status.stdout and "CLOSED" in status.stdout, status
        assert all(lab.cluster.is_running(member_id) for member_id in lab.disks)
        lab.settle()
        assert client.ingress_trouble == ""
        lab.demand_everything()


def test_a_start_on_a_full_disk_waits_for_room(tmp_path: Path) -> None:
    """A node that was stopped and finds its disk full says so once, and starts when there is room."""
    with laboratory(tmp_path / "lab", with_network=True, disks_of=[1]) as lab:
        lab.run(0.3)
        lab.kill(1)
        lab.disks[1].fill_to_the_last()
        lab.start(1)
        lab.run_until(lambda: '"event": "node.waits"' in lab.cluster.logs(1), "the node waits")
        assert "Traceback" not in lab.cluster.logs(1)
        lab.settle()
        lab.demand_everything()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_disk_that_stands_still(tmp_path: Path, role: str) -> None:
    """Nothing of it can be acknowledged meanwhile; the others go on, and the member does when its disk does."""
    with laboratory(tmp_path / "lab", with_network=True, disks_of=[1]) as lab:
        make_leader(lab, 1 if role == "leader" else 0)
        lab.run(0.3)
        lab.disks[1].freeze()
        lab.run_answered(20, "the others answer")
        lab.run(TIMEOUTS_S)
        lab.disks[1].thaw()
        lab.settle()
        lab.demand_everything()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_slow_disk_costs_no_leader(tmp_path: Path, role: str) -> None:
    """Syncs that take longer than the heartbeat timeout delay no heartbeat. A leader's own answers wait for them."""
    library, switch = tmp_path / "slow_sync.so", tmp_path / "slow"
    source = Path(__file__).with_name("slow_sync.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    slowly = ["env", f"LD_PRELOAD={library}", f"SLOW_SYNC={switch}", f"SLOW_SYNC_MS={SLOW_SYNC_MS}"]
    with laboratory(tmp_path / "lab", with_network=True, prefixes={1: slowly}) as lab:
        make_leader(lab, 1 if role == "leader" else 0)
        leader = lab.leader()
        term_id = lab.cluster.leader_term(leader)
        switch.touch()
        lab.run(2 * TIMEOUTS_S)
        lab.run_answered(3 if role == "leader" else 100, "answers in spite of the slow disk")
        assert lab.cluster.leader_term(leader) == term_id
        switch.unlink()
        lab.settle()
        lab.demand_everything()

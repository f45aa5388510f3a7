"""Real disks that fill up, stand still, and take their time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.integration.command import ordo
from tests.faults.lab import Lab, is_about_space, laboratory

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(120)]
FAILED = 1
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
    """The member ends with one line about it, the others go on, and it comes back when there is room."""
    with laboratory(tmp_path / "lab", with_network=True, disks_of=[1]) as lab:
        make_leader(lab, 1 if role == "leader" else 0)
        lab.run(0.3)
        lab.fill_disk(1)
        lab.run_until(lambda: not lab.cluster.is_running(1), "the member ends")
        assert lab.cluster.wait(1) == FAILED, lab.cluster.logs(1)
        demand_one_line_about_space(lab)
        lab.run_answered(50, "the others answer")
        lab.start(1)
        lab.may_end.add(1)
        assert lab.cluster.wait(1) == FAILED, lab.cluster.logs(1)
        demand_one_line_about_space(lab)
        lab.settle()
        lab.demand_everything()


def demand_one_line_about_space(lab: Lab) -> None:
    assert is_about_space(lab.cluster.logs(1)), lab.cluster.logs(1)
    assert "Traceback" not in lab.cluster.logs(1)


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

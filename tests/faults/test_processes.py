"""Processes are killed and stand still, on loopback: what clients saw is linearizable, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cluster.integration.agreement import hold
from tests.clusters import STEADY
from tests.faults.lab import laboratory
from tests.faults.nemesis import KINDS_WITHOUT_ROOT, bring, draw_schedule
from tests.patience import factor
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PAUSE_S = 1.5  # three times the leader heartbeat timeout
STEADY_PAUSE_S = 2.0 * min(3.0, factor())  # twice that of STEADY
ROUNDS_S = 6.0


def test_killed_members(tmp_path: Path) -> None:
    with laboratory(tmp_path / "lab") as lab:
        lab.run(0.5)
        leader = lab.leader()
        lab.kill(leader)
        lab.run_answered(50, "a new leader answers")
        lab.start(leader)
        lab.run(0.5)
        for member_id in lab.cluster.member_ids:
            lab.kill(member_id)
        lab.run(0.3)
        lab.settle()
        lab.demand_everything()


def test_members_that_stand_still(tmp_path: Path) -> None:
    """Longer than every timeout: another leads, and the one that comes back follows it without harm."""
    with laboratory(tmp_path / "lab") as lab:
        lab.run(0.3)
        leader = lab.leader()
        lab.pause(leader)
        lab.run_answered(50, "a new leader answers")
        lab.run(PAUSE_S)
        lab.go_on(leader)
        assert lab.cluster.await_leader(other_than=leader) != leader
        follower = next(one for one in lab.cluster.member_ids if one not in (leader, lab.leader()))
        lab.pause(follower)
        lab.run(PAUSE_S)
        lab.settle()
        lab.demand_everything()


def test_a_container_that_stands_still_holds_up_no_election(tmp_path: Path) -> None:
    """The container's node leads on, and what was committed meanwhile is answered once the container runs again."""
    with laboratory(tmp_path / "lab", cluster=STEADY) as lab:
        lab.run(0.3)
        leader, pid = lab.leader(), lab.container_pid(lab.leader())
        assert pid is not None
        term_id = lab.cluster.leader_term(leader)
        hold(pid)
        lab.run(STEADY_PAUSE_S)
        assert lab.cluster.leader_term(leader) == term_id
        os.kill(pid, signal.SIGCONT)
        lab.settle()
        assert lab.cluster.leader_term(leader) == term_id
        lab.demand_everything()


@pytest.mark.parametrize("seed", few_of([1, 2], [1]))
def test_a_mix_drawn_from_a_seed(tmp_path: Path, seed: int) -> None:
    with laboratory(tmp_path / "lab", seed=seed) as lab:
        bring(lab, draw_schedule(seed, ROUNDS_S, 3, KINDS_WITHOUT_ROOT))

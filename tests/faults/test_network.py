"""Real processes, each in a network of its own: loss, links cut in one direction, partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.lab import Lab, laboratory

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(120)]
TIMEOUTS_S = 1.5  # longer than leader heartbeat timeout and election together


def settle(lab: Lab) -> None:
    """The end of every test here; a network that dropped nothing proves nothing."""
    assert lab.network.dropped() > 0
    lab.settle()
    lab.demand_everything()


@pytest.mark.parametrize("percent", [10, 30])
def test_random_loss(tmp_path: Path, percent: int) -> None:
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.network.lose(percent)
        lab.run(2.0)
        lab.run_answered(20, f"answers while {percent} of 100 datagrams are lost")
        settle(lab)


def test_crashes_while_every_tenth_datagram_is_lost(tmp_path: Path) -> None:
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.network.lose(10)
        leader = lab.leader()
        lab.kill(leader)
        lab.run_answered(50, "a new leader answers")
        lab.start(leader)
        wiped = next(one for one in lab.cluster.member_ids if one not in (leader, lab.leader()))
        lab.run_answered(50, "answers before the second crash")
        lab.demand_everything()
        lab.kill(wiped)
        lab.cluster.wipe(wiped)
        lab.start(wiped)
        lab.run(2.0)
        settle(lab)


def test_a_leader_cut_off_from_everybody(tmp_path: Path) -> None:
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        leader = lab.leader()
        lab.network.partition([[leader], [one for one in lab.network.hosts if one != leader]])
        lab.run_until(lambda: lab.cluster.leader() not in (None, leader), "another leads")
        lab.run_answered(20, "the majority answers")
        settle(lab)


def test_a_leader_that_only_its_clients_hear(tmp_path: Path) -> None:
    """What it takes from them is never committed."""
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        leader = lab.leader()
        lab.network.partition([[leader], [one for one in lab.cluster.member_ids if one != leader]])
        lab.run(TIMEOUTS_S)
        settle(lab)


@pytest.mark.parametrize("direction", ["deaf", "mute"])
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_one_way(tmp_path: Path, role: str, direction: str) -> None:
    """A member that hears no other, or that no other hears; with a leader the cluster must find another one."""
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        one = lab.leader() if role == "leader" else lab.follower()
        for other in set(lab.cluster.member_ids) - {one}:
            lab.network.block(*((other, one) if direction == "deaf" else (one, other)))
        if role == "leader":
            lab.run_until(lambda: lab.cluster.leader() not in (None, one), "another leads")
        else:
            lab.run(TIMEOUTS_S)
            lab.run_answered(20, f"answers although a follower is {direction}")
        settle(lab)


def test_two_members_that_do_not_hear_each_other(tmp_path: Path) -> None:
    """The third hears both: the cluster must not lose its leader over and over."""
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        leader, follower = lab.leader(), lab.follower()
        lab.network.block(leader, follower)
        lab.network.block(follower, leader)
        lab.run(TIMEOUTS_S)
        lab.run_answered(20, "answers while two do not hear each other")
        settle(lab)


def test_everybody_alone(tmp_path: Path) -> None:
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        lab.network.partition([[host] for host in lab.network.hosts])
        lab.run(TIMEOUTS_S)
        assert lab.cluster.leader() is None
        settle(lab)


def test_clients_that_lose_the_cluster(tmp_path: Path) -> None:
    with laboratory(tmp_path / "lab", with_network=True) as lab:
        lab.run(0.5)
        term_id, leader = lab.cluster.leader_term(lab.leader()), lab.leader()
        lab.network.partition([lab.cluster.member_ids, [lab.network.hosts[-1]]])
        lab.run(TIMEOUTS_S)
        settle(lab)
        assert lab.cluster.leader_term(leader) == term_id

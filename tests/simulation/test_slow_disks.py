"""Disks that slow by 100: syncs last, and commits of votes and terms and syncs of folders hold up their members."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ordo.runtime.native.clock import VirtualClock
from tests.simulation.faults import SLOWNESS, FaultSchedule
from tests.simulation.plants import BY_NAME
from tests.simulation.run import run_seed
from tests.simulation.storage import SimulatedDisk, SimulatedStorage
from tests.simulation.test_planted import MS, SLOWED, S
from tests.simulation.world import World

PLANT = "syncs_are_through_by_the_next_heartbeat"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cluster_keeps_its_word_and_comes_to_life_again(seed: int) -> None:
    outcome = run_seed(seed, replace(SLOWED))
    assert outcome.violation is None, outcome.violation
    assert outcome.faults["disk slows by 100"] > 0 and outcome.terms > 1


def test_disks_in_order_do_not_show_that_nobody_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_planted.py` finds it where they slow. Where syncs are slowed by other means it shows, too."""
    BY_NAME[PLANT](monkeypatch.setattr)
    others = replace(SLOWED, slow_disk_mean_ns=0, disk_mean_ns=SLOWED.slow_disk_mean_ns)
    assert [run_seed(seed, replace(SLOWED, slow_disk_mean_ns=0)).violation for seed in (1, 2)] == [None, None]
    assert (run_seed(1, others).violation or "").startswith("durable before acknowledged")


def test_a_disk_is_fast_again_and_keeps_its_other_faults() -> None:
    world = World(1, replace(SLOWED, clients=0))
    try:
        world.start()
        FaultSchedule(world).slow_disk()
        (slow,) = [node for node in world.nodes if node.disk.slowness == SLOWNESS]
        slow.kill()
        slow.disk.free_bytes, slow.disk.syncs_until_failure = 10_000, 5
        world.run(20 * S, lambda: slow.disk.slowness == 1)
        assert slow.disk.slowness == 1
        assert (slow.disk.free_bytes, slow.disk.syncs_until_failure, slow.is_alive) == (10_000, 5, False)
    finally:
        world.forget()


def test_a_slow_disk_holds_up_whoever_commits_until_it_is_mended() -> None:
    disk, stalls = SimulatedDisk(Random(1)), list[int]()
    disk.sync_delay_ns_min = disk.sync_delay_ns_max = MS
    disk.on_stall = stalls.append
    storage = SimulatedStorage(disk, VirtualClock())
    store = storage.open_metadata("/disk/store")
    for slowness in (1, SLOWNESS):
        disk.slowness = slowness
        with store.transaction() as transaction:
            transaction.put(b"term", b"7")
        storage.sync_directory("/disk")
    disk.slowness = 1
    with store.transaction() as transaction:
        transaction.put(b"term", b"8")
    assert len(stalls) == 2, "the commit, and the sync of the folder"
    assert all(0.9 * SLOWNESS * MS <= stall_ns <= 1.1 * SLOWNESS * MS for stall_ns in stalls)

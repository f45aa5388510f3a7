"""Disks that slow by 100: syncs last, and commits of votes and terms hold up their members."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ordo.runtime.native.clock import VirtualClock
from tests.simulation.faults import SLOWNESS
from tests.simulation.options import Options
from tests.simulation.plants import BY_NAME
from tests.simulation.run import run_seed
from tests.simulation.storage import SimulatedDisk, SimulatedStorage

MS = 1_000_000
S = 1_000_000_000
SLOWED = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, slow_disk_mean_ns=S // 2, kill_mean_ns=S, power_loss_mean_ns=2 * S,
    transfer_mean_ns=S, outage_mean_ns=500 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
PLANT = "syncs_are_through_by_the_next_heartbeat"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cluster_keeps_its_word_and_comes_to_life_again(seed: int) -> None:
    outcome = run_seed(seed, replace(SLOWED))
    assert outcome.violation is None, outcome.violation
    assert outcome.faults["disk slows by 100"] > 0 and outcome.terms > 1


def test_only_a_slow_disk_shows_that_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    BY_NAME[PLANT](monkeypatch.setattr)
    found = [run_seed(seed, replace(SLOWED)).violation for seed in (1, 2, 3)]
    assert any(one is not None and one.startswith("durable before acknowledged") for one in found)
    assert [run_seed(seed, replace(SLOWED, slow_disk_mean_ns=0)).violation for seed in (1, 2)] == [None, None]


def test_a_slow_disk_holds_up_whoever_commits_until_it_is_mended() -> None:
    disk, stalls = SimulatedDisk(Random(1)), list[int]()
    disk.sync_delay_ns_min = disk.sync_delay_ns_max = MS
    disk.on_stall = stalls.append
    store = SimulatedStorage(disk, VirtualClock()).open_metadata("/disk/store")
    for slowness in (1, SLOWNESS):
        disk.slowness = slowness
        with store.transaction() as transaction:
            transaction.put(b"term", b"7")
    disk.heal()
    with store.transaction() as transaction:
        transaction.put(b"term", b"8")
    assert len(stalls) == 1 and 0.9 * SLOWNESS * MS <= stalls[0] <= 1.1 * SLOWNESS * MS

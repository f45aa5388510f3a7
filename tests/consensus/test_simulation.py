"""Cores with an honest shell in virtual time: any faults, then none; safety at every step, then full recovery.

`ORDO_CONSENSUS_SEEDS=5000 pytest tests/consensus/test_simulation.py` runs more, as `make nightly` does; a failure names
its seed, which `ORDO_CONSENSUS_FIRST=<seed> ORDO_CONSENSUS_SEEDS=1` runs again.
"""

import os

import pytest

from ordo.consensus.state.states import TRANSITIONS
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from tests.consensus.world import World
from tests.thorough import few_of

FIRST_SEED = int(os.environ.get("ORDO_CONSENSUS_FIRST", "0"))
SEEDS = int(os.environ.get("ORDO_CONSENSUS_SEEDS", "60"))
SEEDS_PER_TEST = 10
FAULTS_NS = 12 * SECOND_NS
RECOVERY_NS = 20 * SECOND_NS
IN_TABLE = frozenset((old, new) for old, targets in TRANSITIONS.items() for new in targets)


def run_seed(seed: int) -> World:
    """One run: faults, then recovery; raises AssertionError naming the seed."""
    world = World(seed)
    try:
        world.start()
        world.schedule_fault()
        end_ns = FAULTS_NS
        for step in range(1, 61):
            world.run_until(end_ns * step // 60)
            world.check_log_matching()
        recover(world)
        assert world.transitions <= IN_TABLE, f"not in the table: {sorted(world.transitions - IN_TABLE)}"
    except Exception as error:
        raise AssertionError(f"seed {seed} at {world.now_ns / 1e6:.1f} ms: {error!r}; {world.faults}") from error
    return world


def recover(world: World) -> None:
    """Without faults there is one leader, all follow it, and all execute what is written now."""
    world.stop_faults()
    world.run_until(world.now_ns + 100 * MILLISECOND_NS)
    end_ns = world.now_ns + RECOVERY_NS
    if not world.run_until(end_ns, lambda: world.serving_leader() is not None):
        lines = [node.core.describe() if node.core else "down" for node in world.nodes]
        raise AssertionError(f"no leader that all follow: {lines}")
    goal = len(world.committed) + 5
    leader = world.serving_leader()
    assert leader is not None
    members = world.members_of(leader)
    if not world.run_until(end_ns, lambda: all(node.applied_count >= goal for node in members)):
        raise AssertionError(f"executed {[node.applied_count for node in world.nodes]}, wanted {goal}")
    world.check_log_matching()


@pytest.mark.parametrize("first", few_of(range(FIRST_SEED, FIRST_SEED + SEEDS, SEEDS_PER_TEST), [FIRST_SEED]))
def test_any_faults_then_recovery(first: int) -> None:
    for seed in range(first, min(first + SEEDS_PER_TEST, FIRST_SEED + SEEDS)):
        world = run_seed(seed)
        assert world.committed, f"seed {seed} committed nothing"


def test_same_seed_same_trace() -> None:
    """Two runs of one seed take the same steps."""
    assert run_seed(7).trace.hexdigest() == run_seed(7).trace.hexdigest()
    assert run_seed(7).trace.hexdigest() != run_seed(8).trace.hexdigest()


@pytest.mark.thorough
def test_few_transitions_of_the_table_are_missed_by_the_simulation() -> None:
    """The table is what happens, not what was once planned; that nothing else happens is checked in every run."""
    missed = set(IN_TABLE)
    for seed in range(40, 110):
        missed -= run_seed(seed).transitions
        if len(missed) <= 6:
            return
    raise AssertionError(f"never seen: {sorted(missed)}")

"""Most members are gone for good, and an operator goes on with what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ordo.runtime.random import RandomSource
from tests.simulation.options import Options, draw
from tests.simulation.run import Outcome, run_seed
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(600)
MS = 1_000_000
S = 1_000_000_000
SEEDS = range(1, 5)
PINNED = {
    419: "a member with a store of another cluster took up the identity of its snapshot, as its log had no first record"
}
"""Seeds that found a bug in the product, and what it was."""
QUIET = Options(duration_ns=S, operation_mean_ns=4 * MS, snapshot_every_bytes=40 * 1024, levels=True, spares=1)


def drawn(seed: int) -> Options:
    """The options of a seed, with what this is about."""
    options = draw(RandomSource(seed).stream("options"))
    nodes = options.nodes if options.nodes > 1 else 4
    apart: dict[str, Any] = {
        "applications": 0,
        "canary": False,
        "application_upgrade": False,
        "consumers": 0,
        "shared_consumers": 0,
    }
    apart |= {
        "consumer_mean_ns": 0,
        "application_mean_ns": 0,
        "levels": True,
        "old_members": 0,
        "lack_chance": 0.0,
    }  # a new epoch has the level of identities
    return replace(options, nodes=nodes, loses_most=False, leads_twice=False, loses_for_good=True, **apart)


def run(seed: int, options: Options) -> Outcome:
    return run_seed(seed, replace(options, nodes=2 + seed % 4, loses_for_good=True))


@pytest.mark.parametrize("seed", few_of(SEEDS, [1]))
def test_what_is_lost_was_told(seed: int) -> None:
    outcome = run_seed(seed, drawn(seed))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n" + "\n".join(list(outcome.events)[-30:])


@pytest.mark.parametrize("seed", PINNED, ids=PINNED.values())
def test_pinned_seed(seed: int) -> None:
    outcome = run_seed(seed, drawn(seed))
    assert outcome.violation is None, f"{PINNED[seed]}? {outcome.violation}"


def test_recoveries_fail_in_the_middle_and_are_given_again() -> None:
    faults: set[str] = set()
    for seed in range(1, 6):
        outcome = run(seed, QUIET)
        assert outcome.violation is None, outcome.violation
        faults |= outcome.faults.keys()
    assert {"recovered without a majority", "recovery failed in the middle", "member added to a new epoch"} <= faults
    assert "start refused in the middle of a recovery" in faults

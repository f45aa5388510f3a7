"""Schemas in the logs of drawn clusters, one member of which has code with schemas that contradict the others'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ordo.runtime.random import RandomSource
from tests.simulation.options import Options, draw
from tests.simulation.run import run_seed

MS = 1_000_000


def options_of(seed: int) -> Options:
    """What the seed draws, with schemas and upgrades."""
    options = draw(RandomSource(seed).stream("options"))
    return replace(
        options,
        nodes=max(3, options.nodes),
        schemas=True,
        has_other_code=True,
        levels=True,
        upgrade_mean_ns=400 * MS,
        snapshot_mean_ns=400 * MS,
    )


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_member_with_other_code_stops_nobody(seed: int) -> None:
    outcome = run_seed(seed, options_of(seed))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"

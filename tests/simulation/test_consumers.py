"""Durable consumers beside simulated clusters: every message has its effect, whoever is killed or stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.options import Options
from tests.simulation.run import run_seed
from tests.simulation.test_planted import CONSUMED, REFUSED
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("members", [(3, 0), (0, 3), (2, 2)], ids=["exclusive", "shared", "both"])
@pytest.mark.parametrize("options", [CONSUMED, REFUSED], ids=["tries", "refusals"])
@pytest.mark.parametrize("seed", few_of(range(1, 6), [1]))
def test_every_message_has_its_effect(options: Options, members: tuple[int, int], seed: int) -> None:
    outcome = run_seed(seed, replace(options, consumers=members[0], shared_consumers=members[1]))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.faults["consumer kill"] > 0


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = (run_seed(4, replace(CONSUMED)) for _ in range(2))
    assert first.violation is None
    assert first.digest == second.digest

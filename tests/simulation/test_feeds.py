"""Feeds beside simulated clusters: each message once and in order, whoever is killed, stopped or cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.run import run_seed
from tests.simulation.test_planted import FORGETFUL, MS, PUBLISHED
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("on_error", ["stop", "restore"])
@pytest.mark.parametrize("seed", few_of(range(1, 6), [1]))
def test_every_reader_has_everything_once(on_error: str, seed: int) -> None:
    options = replace(PUBLISHED, on_error=on_error, poison_chance=0.005 if on_error == "restore" else 0.0)
    outcome = run_seed(seed, options)
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.faults["reader kill"] > 0


@pytest.mark.parametrize("seed", few_of([12, 27, 30], [12]))
def test_readers_of_a_feed_that_is_deleted_go_on_with_what_is_left(seed: int) -> None:
    """Seeds in which a node that was cut off has more than the others, and in which a number is gone everywhere."""
    outcome = run_seed(seed, replace(FORGETFUL, feed_readers=2, reader_mean_ns=300 * MS))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = (run_seed(4, replace(PUBLISHED)) for _ in range(2))
    assert first.violation is None
    assert first.digest == second.digest

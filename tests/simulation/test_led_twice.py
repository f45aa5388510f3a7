"""A term is led twice, as most members forgot that they had voted in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.simulation.options import Options
from tests.simulation.run import run_seed

MS = 1_000_000
LED_TWICE = Options(
    duration_ns=500 * MS,
    operation_mean_ns=20 * MS,
    leads_twice=True,
    heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)
SEEDS = range(1, 7)


def test_the_first_leader_of_a_term_never_follows_the_log_of_the_second() -> None:
    faults: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = run_seed(seed, replace(LED_TWICE, nodes=3 + seed % 3))
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        faults.update(outcome.faults)
    assert 0 < faults["a term is led twice"] == faults["the first leader of a term ends"]

"""Clusters whose drivers make the files of logs later: nothing that waits for a stream takes it for granted."""

from __future__ import annotations

import pytest

from tests.simulation.options import Options
from tests.simulation.run import run_seed

MS = 1_000_000
S = 1_000_000_000
LATE = Options(
    duration_ns=2 * S,
    operation_mean_ns=10 * MS,
    spares=1,
    late_files=True,
    kill_mean_ns=S,
    partition_mean_ns=S,
    client_mean_ns=300 * MS,
    outage_mean_ns=300 * MS,
    heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)


@pytest.mark.parametrize("seed", (1, 2))
def test_a_cluster_whose_streams_begin_late_serves_its_clients(seed: int) -> None:
    outcome = run_seed(seed, LATE)
    assert outcome.violation is None
    assert outcome.answered > 0 and outcome.faults["a log's file is late"] > 0


def test_two_runs_of_a_seed_are_equal() -> None:
    one, same = run_seed(3, LATE), run_seed(3, LATE)
    assert one.violation is None and one.digest == same.digest

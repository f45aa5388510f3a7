"""The benchmark of a standby's cost, as small as it goes."""

from __future__ import annotations

import pytest

from benchmarks.standby import Run, measure_pairs, summarize


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_figure_is_there() -> None:
    figures = measure_pairs(pairs=2, seconds=0.5, rate=1000)
    lag_bytes = figures["lag_bytes_max"]
    assert figures["sync"] == "commit" and figures["pairs"] == 2 and isinstance(lag_bytes, int) and lag_bytes >= 0
    for name in ("p50_us", "p99_us", "nodes_us_per_message", "per_s"):
        found = figures[name]
        assert isinstance(found, dict)
        assert found["with"] > 0 and found["without"] > 0 and len(found["more_percent_of_pairs"]) == 2


def test_runs_are_compared_with_those_of_their_pair() -> None:
    def runs(*p99_us: float) -> list[Run]:
        return [Run(10.0, one, 5.0, 1000.0, 96) for one in p99_us]

    figures = summarize(runs(110.0, 300.0, 90.0), runs(100.0, 200.0, 100.0))
    assert figures["p99_us"] == {
        "with": 110.0,
        "without": 100.0,
        "more_percent": 10.0,
        "more_percent_of_pairs": [-10.0, 10.0, 50.0],
    }
    assert figures["lag_bytes_max"] == 96

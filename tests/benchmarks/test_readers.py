"""The benchmark of readers and applications, as small as it goes."""

from __future__ import annotations

import pytest

from benchmarks.readers import measure


@pytest.mark.soak  # six bursts that take both cores show little of the readers themselves
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_figure_is_there() -> None:
    figures = measure(readers=6, seconds=0.3, catch_up_mb=8, round_trips=60)
    readers, catch_up, application = (figures[name] for name in ("readers", "catch_up", "application"))
    assert isinstance(readers, dict) and isinstance(catch_up, dict) and isinstance(application, dict)
    assert readers["readers"] == 6
    assert readers["echoes_per_s"] > 0 and readers["echoes_per_s_with_readers"] > 0
    assert readers["lag_bytes_max"] >= 0 and readers["round_trip_us_with_readers"]["count"] == 200
    assert 0 <= readers["readers_live_at_the_end"] <= 6
    cost = figures["node_cost"]
    assert isinstance(cost, dict)
    assert all(cost[f"nodes_us_per_message{what}"] > 0 for what in ("", "_live_stream", "_own_replays"))
    full_load = figures["full_load"]
    assert isinstance(full_load, dict) and list(full_load["by_readers"]) == [0, 1, 6]
    for burst in full_load["by_readers"].values():
        assert burst["echoes_per_s"] > 0 and burst["p99_us"] > 0
        assert all(burst["node_us_per_message"][role] > 0 for role in ("leader", "serving", "other"))
    assert catch_up["log_mb"] >= 8 and catch_up["frames_mb_per_s"] > 0 and catch_up["entries_per_s"] > 0
    counts = [application[name]["count"] for name in ("inside_us", "application_us", "reply_us")]
    assert counts == [60, 60, 60]

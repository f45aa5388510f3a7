"""The whole benchmark suite, as small as it goes, so that it does not rot."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ordo.bench import suite

TINY = replace(
    suite.QUICK, floor_count=100, round_trip_count=20, warm_up_count=10, message_count=500, open_loop_s=0.1,
    archive_mb=8, idle_s=0.2, state_mb=8,
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_every_figure_is_there_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK", TINY)
    monkeypatch.setattr(suite, "SIZES_BYTES", (32, 288))
    monkeypatch.setattr(suite, "RATES", (500,))
    monkeypatch.setattr(suite, "COST_MODES", ("process",))
    monkeypatch.setattr(suite, "COST_RUNS", {"round trip": 1, "window 8": 8})
    monkeypatch.setattr(suite, "WINDOWS", (1, 64))
    monkeypatch.setattr(suite, "SESSION_COUNTS", (1, 32))
    monkeypatch.setattr(suite, "ROUND_TRIPS_OF_A_WINDOW", 20)
    console = Console(file=io.StringIO(), width=200)
    suite.run_suite("all", tmp_path / "figures.json", quick=True, console=console)
    figures = json.loads((tmp_path / "figures.json").read_text())
    percentiles = {"p50", "p90", "p99", "p999", "p9999"}
    assert percentiles <= figures["floor_rtt_us"].keys()
    for name in ("rtt_us", "rtt_inline_us"):
        for sync in ("none", "commit"):
            assert {"32", "288"} == figures[name][sync].keys()
            assert percentiles <= figures[name][sync]["32"].keys()
            assert figures[name][sync]["32"]["count"] == 20
    assert figures["throughput_msgs_per_s"].keys() == {"python", "cython"}
    assert figures["throughput_by_window"]["cython"]["none"]["32"].keys() == {"1", "64"}
    assert figures["throughput_by_sessions"].keys() == {"1", "32"}
    assert figures["throughput_by_mtu"].keys() == {"1408", "8192"}
    for run in ("process, round trip", "process, window 8"):
        assert {"leader", "follower", "client", "per_s"} <= figures["cost_us"][run].keys()
        if figures["system_calls"][run]:
            assert figures["system_calls"][run]["leader"]["sendmmsg"] > 0
    assert "leader_service" in figures["cost_us"]["process, round trip"]
    assert all(rate > 0 for modes in figures["throughput_msgs_per_s"].values() for rate in modes["commit"].values())
    assert figures["open_loop_us"]["500"]["count"] == 50
    for name in ("record_mb_per_s", "replay_mb_per_s", "idle_cpu_percent", "node_rss_mb", "node_pss_mb"):
        assert figures[name] > 0
    assert figures["configuration"]["sync"] == "commit"
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "raw floor" in shown
    assert "messages a second" in shown


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_encryption_is_measured_beside_a_plain_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK", TINY)
    monkeypatch.setattr(suite, "SIZES_BYTES", (32,))
    console = Console(file=io.StringIO(), width=200)
    figures = suite.run_suite("encryption", None, quick=True, console=console)
    for kind in ("plain", "encrypted"):
        assert figures["encryption"][kind]["msgs_per_s"]["32"] > 0
        assert figures["encryption"][kind]["rtt_us"]["32"].keys() == {"p50", "p99"}
    assert figures["encryption_cost"]["32"].keys() == {"throughput_lost_percent", "rtt_added_us"}
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("encrypted") == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_requests_are_measured_beside_raw_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK", TINY)
    console = Console(file=io.StringIO(), width=200)
    figures = suite.run_suite("requests", None, quick=True, console=console)
    for kind in ("raw", "typed", "request", "typed request"):
        assert figures["requests"][kind]["msgs_per_s"] > 0
        assert figures["requests"][kind]["cpu_us"] > 0
        assert figures["requests"][kind]["rtt_us"].keys() == {"p50", "p99"}
    assert figures["request_cost_percent"].keys() == {"p50", "p99"}
    for kind in ("raw", "request"):
        assert figures["typed_cost_percent"][kind].keys() == {"p50", "p99", "msgs_per_s", "cpu"}
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "request to raw, median of pairs" in shown
    assert "typed request to request" in shown


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_pause_of_a_snapshot_is_measured_forked_and_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK", TINY)
    console = Console(file=io.StringIO(), width=200)
    figures = suite.run_suite("snapshot", None, quick=True, console=console)
    forked, standing = (figures["snapshot_pause_ms"][kind] for kind in ("forked", "standing"))
    assert figures["snapshot_state_mb"] == 8
    assert forked["fork"] > 0 and "fork" not in standing
    assert forked["longest_during"] > 0 and standing["longest_during"] > 0
    assert isinstance(console.file, io.StringIO)
    assert "standing" in console.file.getvalue()

"""Where the time of a request went, from its spans."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import ordo.runtime.reporting.spans
from ordo.bench import suite, waterfall
from ordo.bench.waterfall import BAR_WIDTH, MOMENTS, describe, draw_bar, measure_waterfall, show_waterfall
from ordo.cli import run
from ordo.runtime.errors import ConfigurationError


def trace(begin_ns: int, step_ns: int) -> dict[str, Any]:
    """The spans of a request of which every step takes `step_ns`."""
    spans: dict[str, Any] = {
        name: SimpleNamespace(start_time_unix_nano=begin_ns, end_time_unix_nano=begin_ns)
        for name in ("request", *(moment.span for moment in MOMENTS))
    }
    for index, moment in enumerate(MOMENTS):
        end = "end_time_unix_nano" if moment.is_end else "start_time_unix_nano"
        setattr(spans[moment.span], end, begin_ns + step_ns * (index + 1))
    return spans


def test_each_step_has_when_it_was_and_what_it_took() -> None:
    steps = describe([trace(10**18, 1_000), trace(10**18, 2_000), trace(10**18, 9_000)])
    assert [step["at"] for step in steps] == [
        pytest.approx(2.0 * (index + 1), rel=0.01) for index in range(len(MOMENTS))
    ]
    assert {step["took"] for step in steps} == {2.0}
    assert {step["p99"] for step in steps} == {9.0}


def test_bars_follow_one_another_and_fill_the_line() -> None:
    bars = [draw_bar(step, 120.0) for step in describe([trace(0, 10_000)])]
    assert [len(bar) - len(bar.lstrip()) for bar in bars] == [0, 2, 3, 5, 7, 8, 10, 12, 13, 15, 17, 18]
    assert len(bars[-1]) == BAR_WIDTH
    assert draw_bar({"at": 0.1, "took": 0.1}, 80.0) == "━", "a step that took nothing is still seen"


def test_a_table_fits_a_terminal_of_eighty_columns() -> None:
    output = io.StringIO()
    show_waterfall(Console(file=output, width=80), {"waterfall_us": {"inline": describe([trace(0, 1_234_567)])}})
    lines = output.getvalue().splitlines()
    assert "one request, inline" in lines[0]
    assert "…" not in output.getvalue()
    assert [moment.label in line for moment, line in zip(MOMENTS, lines[4:], strict=False)] == [True] * len(MOMENTS)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_command_measures_a_real_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK", replace(suite.QUICK, round_trip_count=20))
    monkeypatch.setattr(waterfall, "KINDS", {"inline, sync none": ("inline", "none")})
    monkeypatch.setattr(waterfall, "RATE", 1.0)
    assert run(["bench", "top", "--quick", "--json", str(tmp_path / "figures.json")]) == 0
    steps = json.loads((tmp_path / "figures.json").read_text())["waterfall_us"]["inline, sync none"]
    assert [step["step"] for step in steps] == [moment.label for moment in MOMENTS]
    assert steps[-1]["at"] > 0


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordo.runtime.reporting.spans, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"ordo bench top: needs .*ordo-sequencer\[otel\]"):
        measure_waterfall(32, 10)

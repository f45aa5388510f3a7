"""The benchmark of what syncing costs, as small as it goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.syncs import main, price_percent


def test_the_price_is_what_is_lost() -> None:
    figures = {"none": {"per_s": 200.0}, "commit": {"per_s": 150.0}}
    assert price_percent(figures) == 25


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_figure_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "syncs.json"
    main(["--sizes", "32", "--windows", "64", "256", "--rounds", "1", "--seconds", "0.05", "--json", str(path)])
    by_window = json.loads(path.read_text())["sizes"]["32"]
    assert list(by_window) == ["64", "256"]
    for figures in by_window.values():
        assert all(figures[sync][name] > 0 for sync in ("none", "commit") for name in ("per_s", "cpu_us"))
        assert figures["commit"]["per_sync"] > 0
    printed = capsys.readouterr().out
    assert "| 32 | 64 |" in printed and "| 32 | 256 |" in printed

"""The searches in a long log find what they look for, whatever they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.log_search import main, run


def test_each_kind_of_search_finds_its_record(tmp_path: Path) -> None:
    """A search that found another one would end the measurement."""
    figures = run(tmp_path, gib=0.25, searches=20)
    assert list(figures) == ["number, warm", "number, cold", "time, warm", "time, cold"]
    assert all(0 < found.p50 <= found.p99 for found in figures.values())
    sparse = sum(file.stat().st_blocks * 512 for file in tmp_path.iterdir())
    assert sparse < 1 << 24, "the log takes as much disk as its records alone"


def test_it_is_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gib", "0.125", "--searches", "5", "--folder", str(tmp_path)]) == 0
    assert "0.125 GiB of log" in capsys.readouterr().out and not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        main(["--gib", "0"])
    assert "--gib and --searches must be above 0" in capsys.readouterr().err

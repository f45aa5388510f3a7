"""The benchmark of duty cycles while streams begin and end, as small as it goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.log_buffers import Cycles, main, measure_streams, room_for


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_phase_has_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--streams", "3", "--sessions", "3", "--json", str(tmp_path / "figures.json")]) == 0
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [row["phase"] for row in rows] == ["open", "close"] * 13
    assert rows[-1]["what"] == "sessions" and rows[0]["what"] == "IPC, 64k, sparse"
    assert all(row["cycles"] > row["used_long"] and row["elapsed_max_ms"] > 0 for row in rows)
    assert "| IPC, 16m, allocated | 3 | close |" in capsys.readouterr().out


def test_the_cycles_of_both_phases_are_those_of_the_driver() -> None:
    found = measure_streams("aeron:ipc?term-length=64k", 2)
    assert list(found) == ["open", "close"] and all(figures["cycles"] > 2 for figures in found.values())


def test_phases_are_counted_apart() -> None:
    cycles = Cycles()
    for _ in range(3):
        cycles.time(lambda: None)
    assert cycles.take()["cycles"] == 3
    cycles.time(lambda: None)
    assert cycles.take()["cycles"] == 1


def test_allocated_streams_fit_into_memory() -> None:
    assert room_for(1000, 64 << 10, sparse=True) == 1000
    assert 1 <= room_for(1 << 40, 16 << 20, sparse=False) < 1 << 40


def test_none_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--streams", "0"])
    assert "--streams and --sessions must be above 0" in capsys.readouterr().err

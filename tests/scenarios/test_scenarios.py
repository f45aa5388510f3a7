"""Every scenario prints what its file says; `python -m tests.scenarios --rewrite` after a wanted change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.runner import duration_ns, parse, play, render

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    assert render(play(path)) == path.read_text()


def test_a_wrong_trace_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("cluster nodes=1\nrun until steady\nstatus\n----\nno leader\n")
    assert play(path) != parse(path.read_text())


def test_unknown_commands_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "unknown.txt"
    path.write_text("cluster nodes=1\nexplode\n")
    with pytest.raises(ValueError, match="unknown command 'explode'"):
        play(path)


def test_durations() -> None:
    assert [duration_ns(text) for text in ("50us", "20ms", "1.5s")] == [50_000, 20_000_000, 1_500_000_000]
    with pytest.raises(ValueError, match="no duration"):
        duration_ns("fast")

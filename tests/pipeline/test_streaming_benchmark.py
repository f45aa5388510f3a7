"""The measurement of streaming judges what it saw, and runs, small, so that it does not rot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.streaming import Row, describe_memory, judge
from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]
RATE = 1000


def rows(*behind: int, offered: int = RATE) -> list[Row]:
    return [Row(10 * number, offered, offered, one, 50, 400, 300, 1.0) for number, one in enumerate(behind)]


@pytest.mark.parametrize(
    ("found", "missing", "said"),
    [
        (rows(900, 800, 1000, 900, 1000, 700), 0, []),
        (rows(900, 12_000, 11_000, 900, 12_000, 700), 0, []),
        (rows(0, 0, 11_000, 12_000, 13_000, 12_500), 0, ["the query fell behind: 12,500 messages at the end"]),
        (rows(0, 0, 2_000, 4_000, 8_000, 16_000), 0, ["the query fell behind: 16,000 messages at the end"]),
        (rows(0, 0, 0, 0, 0, 0), 3, ["3 messages did not come"]),
        (rows(0, 0, 0, 0, 0, 0), -2, ["2 messages came twice"]),
        (
            rows(0, 0, 0, offered=900), 0,
            ["the cluster took 900 messages a second of 1,000: the machine has too little left"],
        ),
    ],
)  # fmt: skip
def test_what_went_wrong_is_said(found: list[Row], missing: int, said: list[str]) -> None:
    assert judge(found, RATE, 10.0, missing) == said


def test_memory_of_the_last_third_is_compared_with_that_of_the_second() -> None:
    some = [Row(1, 1, 1, 1, 900, 900, 900, 1.0), Row(2, 1, 1, 1, 50, 400, 300, 1.0), Row(3, 1, 1, 1, 51, 390, 310, 1.0)]
    assert describe_memory(some).endswith("driver 50 -> 51 MB, jvm 400 -> 390 MB, workers 300 -> 310 MB")


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_query_is_watched_beside_a_load(tmp_path: Path) -> None:
    """How fast does not matter here: every message is processed once."""
    command = [sys.executable, "-m", "benchmarks.streaming", "--rate", "2000", "--minutes", "0.2", "--every", "2"]
    command += ["--json", str(tmp_path / "facts.json"), "--folder", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=patient(290))
    assert done.returncode in (0, 1), done.stderr[-3000:]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["missing"] == 0 and facts["messages"] > 0 and facts["rows"]


def test_a_rate_that_cannot_be_offered_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.streaming", "--rate", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 2 and "--rate 30: allowed are multiples of 20" in done.stderr

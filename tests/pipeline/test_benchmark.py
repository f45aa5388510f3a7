"""The benchmark of the pipeline runs, small, so that it does not rot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_every_measure_is_taken(tmp_path: Path) -> None:
    """Each counts its rows itself and ends the run when some are missing."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--messages", "200000", "--repeat", "1", "--cores", "2"]
    command += ["--json", str(tmp_path / "facts.json"), "--folder", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=patient(290))
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert set(facts["share_of_bare_generator"]) == {"count(), all columns", "count(), 5 columns", "aggregate"}
    assert len(facts["results"]) == 21 and all(result["seconds"] > 0 for result in facts["results"])
    assert set(facts["rate_to_parquet"]) == {
        "to Parquet, bare generator, all columns", "to Parquet, log, 5 columns", "to Parquet, log, all columns"
    }  # fmt: skip
    assert 0 < facts["planning_bytes"] < 50e6

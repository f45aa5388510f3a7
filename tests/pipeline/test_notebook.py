"""The notebook of docs/PIPELINE.md runs from beginning to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks" / "pipeline.ipynb"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Runs the cells in order, in one namespace, and in a process of its own, since they stop their Spark session."""
    cells = [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(cells))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=patient(280)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "checksum" in done.stdout

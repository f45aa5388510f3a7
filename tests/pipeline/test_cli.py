"""The command line: what needs no Spark in this process, one job in a process of its own, and errors in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app, plain_error
from pipeline.errors import PipelineError
from pipeline.session import check_java

ROOT = Path(__file__).resolve().parents[2]


def test_generate_and_index(tmp_path: Path, index_folder: Path) -> None:
    folder = str(tmp_path / "node0" / "archive")
    made = CliRunner().invoke(app, ["generate", folder, "--messages", "1000"])
    assert made.exit_code == 0 and "recording 0: 1,000 messages" in made.output
    indexed = CliRunner().invoke(app, ["index", folder])
    assert indexed.exit_code == 0 and f"indexes are in {index_folder}" in indexed.output
    assert list(index_folder.rglob("0-0.idx"))


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PipelineError, match="needs Java"):
        check_java()


def test_java_that_is_too_old_is_one_line(tmp_path: Path) -> None:
    """As Java 8 and 11 end: before Spark could say anything."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Error: UnsupportedClassVersionError: class file version 61.0' >&2\nexit 1\n")
    java.chmod(0o755)
    command = [sys.executable, "-c", "from cluster.cli import main; main()", "pipeline", "sessions", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "Spark did not start: Error: UnsupportedClassVersionError" in done.stderr
    assert "it needs Java 17 or later" in done.stderr


def test_our_error_is_taken_out_of_sparks() -> None:
    wrapped = RuntimeError(
        "An exception was thrown\n  File x\npipeline.errors.PipelineError: no archive in /x\n at java"
    )
    assert str(plain_error(wrapped)) == "no archive in /x"
    other = RuntimeError("disk full")
    assert plain_error(other) is other


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("damage", [False, True])
def test_audit_tells_by_its_exit_status(tmp_path: Path, damage: bool) -> None:
    folder = tmp_path / "node0" / "archive"
    CliRunner().invoke(app, ["generate", str(folder), "--messages", "1000"])
    if damage:
        with open(folder / "0-0.rec", "r+b") as file:
            file.seek(96 + 40)
            file.write(b"\xff")
    command = [sys.executable, "-c", "from pipeline.cli import app; app()", "audit", str(folder), "--cores", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--report", str(tmp_path / "report")], env=environment, capture_output=True, text=True, timeout=220
    )
    assert done.returncode == int(damage), done.stderr[-2000:]
    assert ("first problem at position 96: " in done.stdout) == damage
    assert not re.search("WARN|log4j|incubator", done.stderr), "Spark's own words are not for the user's terminal"
    assert (tmp_path / "report" / "audit.html").exists() and (tmp_path / "report" / "audit.json").exists()

"""The measurement of what jobs hold in memory runs, small, so that it does not rot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pipeline_memory import main, run, sample
from ordo.pipeline.generate import LogShape
from tests.cluster.integration.agreement import await_value


def test_planning_and_a_job_are_measured(tmp_path: Path) -> None:
    planning, audit = run([LogShape(20_000)], ["planning", "audit --engine local"], tmp_path)
    assert planning["tasks"] == 1 and 0 < planning["read_bytes"] < 50e6
    assert audit["driver_mb"] > 20 and audit["jvm_mb"] == audit["workers_mb"] == 0
    assert not (tmp_path / "node0").exists()


def test_what_a_process_below_holds_is_counted() -> None:
    script = "data = bytearray(b'x' * (64 << 20)); print(flush=True); input()"
    shell = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, script]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        found = sample(process.pid)
        process.stdin.close()
    assert found["workers"] > 64 << 20 > found["driver"] and found["jvm"] == 0


def test_what_a_jvm_starts_does_not_count_its_memory_again(tmp_path: Path) -> None:
    """Spark has files' modes set by `chmod`: seen a moment before it was that, it once made the workers 3 GB larger."""
    shutil.copy(shutil.which("dash") or "/bin/sh", tmp_path / "java")
    jvm = "(echo; read line); true"
    shell = ["sh", "-c", '"$0" -c "$1"; true', str(tmp_path / "java"), jvm]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

        def settled() -> dict[str, int] | None:
            """What is found, once it is what the child has: that may still grow between two looks."""
            found = sample(process.pid)
            own = next(line for line in Path(f"/proc/{child}/status").read_text().splitlines() if "RssAnon" in line)
            return found if found["jvm"] == int(own.split()[1]) * 1024 > 0 else None

        found = await_value(settled, "the memory of the child")
        process.stdin.close()
    assert found["workers"] == 0


def test_a_job_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pipeline_memory", "--jobs", "audti"])
    with pytest.raises(SystemExit):
        main()
    assert "no such job: audti; choose from planning, audit" in capsys.readouterr().err

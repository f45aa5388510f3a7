"""The command line: what needs no Spark in this process, one job in a process of its own, and errors in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.job_run import plain_error
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.spark import session
from ordo.pipeline.spark.session import check_java
from ordo.runtime.errors import ArchiveError
from tests.patience import patient
from tests.pipeline.exchange import write_exchange
from tests.pipeline.test_replay import ENGINE, ITCH

ROOT = Path(__file__).resolve().parents[2]


def generated(folder: Path) -> str:
    archive = str(folder / "node0" / "archive")
    assert CliRunner().invoke(app, ["generate", archive, "--messages", "1000"]).exit_code == 0
    return archive


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
    """Java 8 and 11 end like this, before Spark can say anything."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Error: UnsupportedClassVersionError: class file version 61.0' >&2\nexit 1\n")
    java.chmod(0o755)
    folder = generated(tmp_path)
    command = [sys.executable, "-c", "from ordo.cli import main; main()", "pipeline", "sessions", folder]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(100))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "Spark did not start: Error: UnsupportedClassVersionError" in done.stderr
    assert "it needs Java 17 or later" in done.stderr


def test_missing_pyspark_is_one_line_that_says_how_to_get_it(tmp_path: Path) -> None:
    script = "import sys; sys.modules['pyspark'] = None; from ordo.cli import main; main()"
    command = [sys.executable, "-c", script, "pipeline", "sessions", generated(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(100))
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert re.search(r"pyspark\S* is not installed; run: pip install 'ordo-sequencer\[pipeline\]'", done.stderr)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *((f"{job} nothere", "nothere") for job in ("audit", "sessions", "latency", "export --to out")),
        ("audit LOG/..", "/archive"),
        ("decode nothere/* --decoder struct:<q:a --to out", "no folder matches 'nothere/*'"),
        ("decode LOG --decoder words --to out", "decoder 'words'"),
        ("sessions ordo://node0", "node0"),
        ("latency LOG --sent soon", "sent='soon'"),
        ("replay LOG --service nothere:Service", "service='nothere:Service' cannot be loaded"),
        ("replay LOG --service ordo.bench.loads.echo:Echo --baseline my", "service='my': must be module:Class"),
        ("alerts nothere --checkpoint w --terms", "no folder 'nothere'"),
        ("alerts LOG --checkpoint w --terms --start soon", "soon"),
        ("market LOG --service nothere:Service", "service='nothere:Service' cannot be loaded"),
    ],
)
def test_mistakes_are_said_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("ordo.pipeline.spark.session.local_session", start)
    refused = CliRunner().invoke(app, line.replace("LOG", generated(tmp_path)).split())
    assert isinstance(refused.exception, PipelineError | ArchiveError), refused.exception
    assert said in str(refused.exception)


def test_our_error_is_taken_out_of_sparks() -> None:
    wrapped = RuntimeError(
        "An exception was thrown\n  File x\nordo.pipeline.decoding.errors.PipelineError: no archive in /x\n at java"
    )
    assert str(plain_error(wrapped)) == "no archive in /x"
    refused = RuntimeError(
        "job aborted\nordo.pipeline.spark.sink.WriteRefusedError: write 'w', partition 0: other rows\n at java"
    )
    assert str(plain_error(refused)) == "write 'w', partition 0: other rows"
    other = RuntimeError("disk full")
    assert plain_error(other) is other


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "damage", [pytest.param(False, marks=pytest.mark.soak), pytest.param(True, marks=pytest.mark.thorough)]
)
def test_audit_tells_by_its_exit_status(tmp_path: Path, damage: bool) -> None:
    folder = tmp_path / "node0" / "archive"
    CliRunner().invoke(app, ["generate", str(folder), "--messages", "1000"])
    if damage:
        with open(folder / "0-0.rec", "r+b") as file:
            file.seek(96 + 40)
            file.write(b"\xff")
    command = [
        sys.executable,
        "-c",
        "from ordo.pipeline.pipeline_commands import app; app()",
        "audit",
        str(folder),
        "--cores",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--report", str(tmp_path / "report")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patient(220),
    )
    assert done.returncode == int(damage), done.stderr[-2000:]
    assert ("first problem at position 96: " in done.stdout) == damage
    assert not re.search("WARN|log4j|incubator", done.stderr), "Spark's own words are not for the user's terminal"
    assert (tmp_path / "report" / "audit.html").exists() and (tmp_path / "report" / "audit.json").exists()


JOBS = """
import sys
from typer.testing import CliRunner
from ordo.pipeline.pipeline_commands import app
for line in sys.argv[1:]:
    done = CliRunner().invoke(app, line.split())
    print(f"{line.split()[0]} exit={done.exit_code} {done.exception or ''} {done.stdout}")
"""


def job_lines(folder: Path) -> list[str]:
    """Return a line of each job, over a log of an exchange; the first exports twice, and the last goes on."""
    log, to = str(folder / "node0" / "archive"), str(folder)
    write_exchange(log, ITCH, (2000, 5000))
    return [
        f"export {log} --to {to}/parquet", f"export {log} --to {to}/parquet", f"sessions {log} --report {to}/r",
        f"latency {log} --report {to}/r", f"decode {log} --decoder struct:<BB:kind,flags --to {to}/decoded",
        f"replay {log} --service {ENGINE} --report {to}/partly",
        f"replay {log} --service {ENGINE} --end snapshot --report {to}/r",
        f"replay {log} --service tests.pipeline.exchange:FewerShares --baseline {ENGINE} --report {to}/differs",
        f"market {log} --report {to}/r", f"audit {log} --report {to}/r",
        f"alerts {log} --checkpoint {to}/watch --terms --start earliest --once",
        f"alerts {log} --checkpoint {to}/watch --terms --once",
    ]  # fmt: skip


def check_jobs(folder: Path, lines: list[str], said: str) -> None:
    """Demand the exit status of each job, what some of them say, and their reports."""
    found = re.findall(r"^(\w+) exit=(\d)", said, re.MULTILINE)
    finds = ("differs", "earliest")
    expected = [
        (line.split()[0], "1" if any(word in line for word in finds) else "3" if "partly" in line else "0")
        for line in lines
    ]
    assert found == expected, said
    assert re.search(r"^2 snapshots|, 2 snapshots$", said, re.MULTILINE)
    assert re.search(
        r"^not checked: positions \d+ to \d+, \d[\d,]* records: no snapshot at its end", said, re.MULTILINE
    )
    assert "differs first at position" in said and "term node0/0: leadership term" in said
    for name in ("sessions", "latency", "replay", "market", "audit"):
        assert (folder / "r" / f"{name}.html").stat().st_size > 0 and (folder / "r" / f"{name}.json").exists()


@pytest.mark.thorough  # the jobs themselves are tested one by one
@pytest.mark.spark
@pytest.mark.shared_data
@pytest.mark.timeout(300)
def test_every_job_runs_from_the_command_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the session of all tests, which the jobs stop in vain; at night each has one of its own."""
    if not ITCH.exists():
        pytest.skip(f"shared data is not beside the checkout: {ITCH}")
    monkeypatch.setattr(session, "local_session", lambda *_, **__: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    lines, said = job_lines(tmp_path), []
    for line in lines:
        done = CliRunner().invoke(app, line.split())
        said.append(f"{line.split()[0]} exit={done.exit_code} {done.exception or ''} {done.stdout}")
    check_jobs(tmp_path, lines, "\n".join(said))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.timeout(300)
def test_every_job_has_a_session_of_its_own(tmp_path: Path) -> None:
    """One after another in one process, each with a Spark session of its own and a report where it writes one."""
    if not ITCH.exists():
        pytest.skip(f"shared data is not beside the checkout: {ITCH}")
    lines = job_lines(tmp_path)
    command = [sys.executable, "-c", JOBS, *(f"{line} --cores 2" for line in lines)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(290))
    assert done.returncode == 0, done.stderr[-2000:]
    check_jobs(tmp_path, lines, done.stdout)

"""`--engine local`: audit and replay in this process, without Spark and without a JVM."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ordo
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.pipeline import pipeline_commands
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.engine import Engine, choose_engine
from ordo.pipeline.generate import RecordingBuilder, session_close, session_message, session_open
from ordo.pipeline.job_run import describe_missing
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.recordings import recordings
from tests.pipeline.test_replay_verdict import HERE, write_log

ROOT = Path(__file__).resolve().parents[2]


def test_audit_of_three_nodes(tmp_path: Path) -> None:
    first, ends = write_log(tmp_path / "a", ())
    folders = [first, *(str(tmp_path / name / "node1" / "archive") for name in ("b", "c"))]
    for folder in folders[1:]:
        shutil.copytree(first, folder)
    report = ["--engine", "local", "--report", str(tmp_path / "report")]
    clean = CliRunner().invoke(app, ["audit", *folders, *report])
    assert clean.exit_code == 0 and "clean; report: " in clean.output, clean.output
    with open(f"{folders[1]}/0-0.rec", "r+b") as file:
        file.seek(ends[3] + 70)
        file.write(b"\xff")
    damaged = CliRunner().invoke(app, ["audit", *folders, *report])
    assert damaged.exit_code == 1 and f"first problem at position {ends[3]}: " in damaged.output


def test_audit_finds_sessions_that_send_when_they_may_not(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "node0" / "archive")) as builder:
        early = builder.append(session_message(0, 2, 6, b"early"))
        builder.append(session_open(0, 2, 2, 7, b"", b""))
        builder.append(session_close(0, 2, 8, 0))
        late = builder.append(session_message(0, 2, 9, b"late"))
    done = CliRunner().invoke(app, ["audit", builder.directory, "--engine", "local", "--report", str(tmp_path / "r")])
    assert done.exit_code == 1
    assert f"session 2 of node0: message before open at position {early}" in done.output
    assert f"session 2 of node0: message after close at position {late}" in done.output


@pytest.mark.parametrize(("service", "end", "status"), [("Tally", [], 3), ("Tally", ["--end", "snapshot"], 0),
                                                        ("DoubleTally", [], 1), ("Picky", [], 1)])  # fmt: skip
def test_replay_tells_by_its_exit_status(tmp_path: Path, service: str, end: list[str], status: int) -> None:
    folder, _ = write_log(tmp_path, (4, 8))
    options = ["--service", f"{HERE}:{service}", "--engine", "local", "--report", str(tmp_path / "r"), *end]
    done = CliRunner().invoke(app, ["replay", folder, *options])
    assert done.exit_code == status, done.output
    assert ("what else was sent to clients is not on record" in done.output) == (status != 1)
    assert (tmp_path / "r" / "replay.html").exists()


@pytest.mark.parametrize(
    ("given", "spark_from_bytes", "chosen"),
    [(Engine.AUTO, 1 << 30, Engine.LOCAL), (Engine.AUTO, 1, Engine.SPARK), (Engine.SPARK, 1 << 30, Engine.SPARK),
     (Engine.LOCAL, 1, Engine.LOCAL)],
)  # fmt: skip
def test_the_size_of_the_log_chooses(
    given: Engine, spark_from_bytes: int, chosen: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = write_log(tmp_path, (4, 8))
    assert choose_engine(given, [folder], spark_from_bytes) is chosen
    said = capsys.readouterr().err
    assert ("--engine chooses" in said) == (given is Engine.AUTO)
    assert ("in Spark" in said) == (given is Engine.AUTO and chosen is Engine.SPARK)


def test_options_that_only_spark_has_choose_it(tmp_path: Path) -> None:
    folder, _ = write_log(tmp_path, (4, 8))
    assert choose_engine(Engine.AUTO, [folder], 1 << 30, on_spark=True) is Engine.SPARK
    refused = CliRunner().invoke(app, ["audit", folder, "--engine", "local", "--cores", "2"])
    assert "--engine local runs in this process: leave out --master and --cores" in str(refused.exception)


@pytest.mark.parametrize("engine", [["--engine", "spark"], ["--cores", "2"], []])
@pytest.mark.parametrize("job", [["audit"], ["replay", "--service", f"{HERE}:Tally"]])
def test_an_archive_is_opened_once_before_spark_is_started(
    job: list[str], engine: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its size and for what is wrong with it at the same time."""
    folder, _ = write_log(tmp_path, (4, 8))
    opened: list[str] = []
    read_catalog = recordings.read_catalog

    def noting(directory: str) -> list[RecordingDescriptor]:
        opened.append(directory)
        return read_catalog(directory)

    def starting(name: str, master: str | None, cores: int | None) -> None:
        raise PipelineError(f"{name} starts Spark")

    monkeypatch.setattr(recordings, "read_catalog", noting)
    monkeypatch.setattr(pipeline_commands, "running", starting)
    monkeypatch.setattr(pipeline_commands, f"{job[0].upper()}_SPARK_FROM_BYTES", 1)
    done = CliRunner().invoke(app, [job[0], folder, *job[1:], *engine])
    assert str(done.exception) == f"{job[0]} starts Spark" and opened == [folder]


def run_without_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`ordo` where pyspark cannot be imported, and there is no Java."""
    script = "import sys; sys.modules['pyspark'] = None; from ordo.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    environment.pop("JAVA_HOME", None)
    return subprocess.run(
        [sys.executable, "-c", script, "pipeline", *arguments], env=environment, capture_output=True, text=True
    )


@pytest.mark.thorough
def test_neither_pyspark_nor_java_is_needed(tmp_path: Path) -> None:
    """For anything that the page says goes without Spark."""
    folder, _ = write_log(tmp_path, (4, 8))
    local = ["--engine", "local", "--report", str(tmp_path / "r")]
    service = ["--service", f"{HERE}:Tally", "--end", "snapshot"]
    sql = "SELECT kind, count(*) FROM log GROUP BY ALL"
    for arguments in (
        ["audit", folder, *local],
        ["audit", folder, *local[2:]],
        ["replay", folder, *service, *local],
        ["query", folder, "--sql", sql],
        ["diff", folder, folder],
        ["copy", folder, "--to", str(tmp_path / "copied")],
        ["fetch", str(tmp_path / "copied"), str(tmp_path / "back")],
        ["index", folder],
        ["generate", str(tmp_path / "made"), "--messages", "100"],
    ):
        done = run_without_spark(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def test_a_difference_an_error_and_a_missing_library_have_statuses_of_their_own(tmp_path: Path) -> None:
    folder, _ = write_log(tmp_path, (4, 8))
    local, report = ["--engine", "local"], ["--report", str(tmp_path / "r")]
    assert run_without_spark("replay", folder, "--service", f"{HERE}:DoubleTally", *local, *report).returncode == 1
    nowhere = run_without_spark("replay", str(tmp_path / "no"), "--service", f"{HERE}:Tally", *local, *report)
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (6, 1), nowhere.stderr
    spark = ["--engine", "spark"]
    missing = run_without_spark("replay", folder, "--service", f"{HERE}:Tally", *spark, *report)
    assert (missing.returncode, missing.stderr.strip().count("\n")) == (7, 0), missing.stderr
    assert "pyspark" in missing.stderr and "pip install 'ordo-sequencer[pipeline]'" in missing.stderr


@pytest.mark.parametrize("name", ["a, b", "data [1]", "what?*"])
def test_folders_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder, _ = write_log(tmp_path / name, (4, 8))
    count = ordo.read(folder, columns="kind").to_arrow().num_rows
    assert count > 5
    other, _ = write_log(tmp_path / f"other {name}", (4, 8))
    assert ordo.read([folder, other], columns="kind", nodes="x,y").to_arrow().num_rows == 2 * count
    done = CliRunner().invoke(app, ["query", folder, "--sql", "SELECT count(*) AS n FROM log", "--format", "csv"])
    assert done.exit_code == 0 and done.output.split() == ["n", str(count)], done.output
    report = ["--engine", "local", "--report", str(tmp_path / "report")]
    assert CliRunner().invoke(app, ["audit", folder, *report]).exit_code == 0


def test_sparks_options_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(tmp_path), "--engine", "local", "--cores", "2"])
    assert done.exit_code != 0 and "leave out --master and --cores" in str(done.exception)


def test_a_package_that_is_there_and_too_old_is_told_so() -> None:
    """pyspark 4.1 has no `pyspark.sql.streaming.datasource`; to say that it is not installed would be no help."""
    text = describe_missing("pyarrow.never_there", "pipeline")
    assert text == (
        f"pyarrow {version('pyarrow')} is too old, it has no pyarrow.never_there; run: pip install "
        "'ordo-sequencer[pipeline]'"
    )
    assert describe_missing("not_there", "local").startswith("not_there is not installed; run: pip install")


@pytest.mark.parametrize("decoder", ["sbe:{0}/no.xml", "protobuf:{0}/no.pb:my.Message"])
def test_a_schema_that_is_not_there_is_told_of_before_spark_is_started(
    decoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = write_log(tmp_path, (4, 8))

    def starting(name: str, master: str | None, cores: int | None) -> None:
        raise PipelineError(f"{name} starts Spark")

    monkeypatch.setattr(pipeline_commands, "running", starting)
    arguments = ["decode", folder, "--decoder", decoder.format(tmp_path), "--to", str(tmp_path / "to")]
    assert "No such file or directory" in str(CliRunner().invoke(app, arguments).exception)

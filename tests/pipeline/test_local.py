"""The log on this machine without Spark: the same rows by every way."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ordo
from ordo import OrdoError
from ordo.cli import run as run_command
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.generate import LogShape, generate_log

ROOT = Path(__file__).resolve().parents[2]


def test_every_way_gives_the_same_rows(archive: str, shape: LogShape) -> None:
    log = ordo.read(archive, partition_bytes=1 << 18)
    table = log.to_arrow()
    assert table.num_rows == shape.messages + shape.terms * (2 + 2 * shape.sessions)
    assert table.column_names == list(log.schema.names)
    positions = table["position"].to_pylist()
    assert positions == sorted(positions)
    assert log.to_reader().read_all() == table
    assert log.to_arrow(threads=1) == table
    assert log.to_polars()["position"].to_list() == positions
    assert log.to_pandas()["payload_length"].sum() == sum(table["payload_length"].to_pylist())


def test_options_are_those_of_the_source(archive: str, shape: LogShape) -> None:
    moment = datetime.fromtimestamp(shape.first_time / 1000 + 0.1, UTC)
    columns = ["position", "timestamp"]
    table = ordo.read([Path(archive)], columns=columns, kinds="message", start_time=moment, verify=False).to_arrow()
    assert table.column_names == columns
    assert 0 < table.num_rows < shape.messages
    assert min(table["timestamp"].to_pylist()) >= moment


def test_sql(archive: str, shape: LogShape) -> None:
    log = ordo.read(archive, columns="kind,position")
    found = log.sql("SELECT kind, count(*) AS n FROM log GROUP BY ALL ORDER BY kind").to_pylist()
    assert {row["kind"]: row["n"] for row in found}["message"] == shape.messages
    twice = log.sql("WITH m AS (SELECT * FROM log) SELECT count(*) AS n FROM m a JOIN m b USING (position)")
    assert twice["n"].to_pylist() == [shape.messages + shape.terms * (2 + 2 * shape.sessions)]
    with pytest.raises(PipelineError, match=r'^query: Binder Error: Referenced column "nothing" not found.*\Z'):
        log.sql("SELECT nothing FROM log")


def test_damage_is_an_error_at_its_position(tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    generate_log(folder, LogShape(messages=100, sessions=1, terms=1))
    with open(f"{folder}/0-0.rec", "r+b") as file:
        file.seek(96 + 40)
        file.write(b"\xff")
    with pytest.raises(CorruptRecordingError, match="fault=checksum position=96"):
        ordo.read(folder).to_arrow()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"color": "red"}, "unknown option 'color'"),
        ({"starting_position": "latest"}, "for streams, which need Spark"),
        ({"kinds": "mesage"}, "kinds"),
    ],
)
def test_wrong_options_are_named(archive: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        ordo.read(archive, **options)


def test_a_folder_that_is_given_twice_is_refused(archive: str, tmp_path: Path) -> None:
    """Each of its rows came twice, and an audit compared it with itself."""
    link = tmp_path / "archive"
    link.symlink_to(archive)
    for paths in ([archive, archive], [archive, f"{archive}/"], [archive, str(link)], f"{archive},{archive}"):
        with pytest.raises(PipelineError, match="is given twice; give each folder once"):
            ordo.read(paths).to_arrow()
    assert run_command(["pipeline", "audit", archive, archive, "--report", str(tmp_path / "page")]) == 6


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_is_imported_before_it_is_needed(archive: str) -> None:
    """`import ordo` stays light, and `read` needs neither pyspark nor a JVM."""
    named = "[name for name in ('pyarrow', 'pyspark', 'duckdb', 'polars') if name in sys.modules]"
    assert run(f"import sys, ordo; print({named})") == "[]"
    program = f"import sys, ordo; ordo.read({archive!r}).to_arrow(); print({named})"
    assert run(program) == "['pyarrow']"


def test_missing_libraries_are_one_line(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(PipelineError, match=r"polars is not installed; run: pip install 'ordo-sequencer\[local\]'"):
        ordo.read(archive).to_polars()
    monkeypatch.delitem(sys.modules, "ordo.pipeline.sql.local")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OrdoError, match=r"ordo.read needs pyarrow; run: pip install 'ordo-sequencer\[local\]'"):
        _ = ordo.read


@pytest.mark.parametrize("command", [("pipeline", "audit"), ("pipeline", "index"), ("lake", "run"), ("lake", "check")])
def test_a_command_without_its_library_says_which_extra_brings_it(
    archive: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """They ended with a traceback and status 1, which says that the log is damaged."""
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('No module', name='pyarrow')\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from ordo.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command, archive], cwd=ROOT, capture_output=True, text=True, check=False
    )
    line = "ordo: pyarrow is not installed; run: pip install 'ordo-sequencer[local]'\n"
    assert (done.returncode, done.stderr) == (7, line)

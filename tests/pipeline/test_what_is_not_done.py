"""Orders of `ordo pipeline` that cannot do all that was asked for say so, in one line and by their exit status."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ordo.cli import EXIT_NOT_DONE, run
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError, own_error
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.pipeline.generate import LogShape, RecordingBuilder, generate_log, session_message, session_open
from ordo.pipeline.pipeline_commands import EXIT_FOUND, EXIT_NOT_CHECKED
from ordo.pipeline.recordings.object_copy import FETCHING, copy_archive
from ordo.pipeline.recordings.object_store import Store


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDO_INDEX_DIR", str(tmp_path / "indexes"))
    folder = tmp_path / "node0" / "archive"
    generate_log(str(folder), LogShape(messages=200))
    return folder


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Status, output and the lines of errors of a command."""
    status = run(["pipeline", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def demand_one_line(capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str) -> None:
    found, _, errors = told(capsys, *words)
    (line,) = errors.splitlines()
    assert found == status and line.startswith("ordo: ") and said in line, (found, line)


def test_two_logs_with_nothing_to_compare_are_not_the_same(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = told(capsys, "diff", str(log), str(log), "--kinds", "session_open")
    assert same[0] == 0 and same[1].startswith("same: ")
    nothing = told(capsys, "diff", str(log), str(log), "--kinds", "membership")
    assert nothing[0] == EXIT_NOT_CHECKED
    assert nothing[1].splitlines() == [
        "not compared: 0 and 0 records, 0 differ", "neither log has a record of these kinds",
    ]  # fmt: skip


def test_a_report_that_cannot_be_written_is_no_damage(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ["audit", str(log), "--engine", "local", "--report", str(tmp_path / "file" / "r")]
    demand_one_line(capsys, words, EXIT_NOT_DONE, "audit.html cannot be written: Not a directory")


def test_an_audit_with_violations_is_not_called_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RecordingBuilder(str(tmp_path / "node0" / "archive")) as builder:
        builder.append(session_message(0, 1, 1000, b"before its session was opened"))
        builder.append(session_open(0, 1, 1, 1000, b"c", b""))
    status, out, _ = told(
        capsys, "audit", builder.directory, "--engine", "local", "--report", str(tmp_path / "r")
    )  # fmt: skip
    assert status == EXIT_FOUND and "violations by sessions; report: " in out and "clean" not in out, out


def test_damage_is_one_line_and_status_1_also_where_a_library_wraps_it(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.remove(log / "0-0.rec")
    words = ["query", str(log), "--sql", "SELECT count(*) FROM log"]
    demand_one_line(capsys, words, EXIT_FOUND, "damaged segment: fault=the segment file is missing position=0")
    pytest.importorskip("deltalake")
    with pytest.raises(CorruptRecordingError, match=r"the segment file is missing position=0 file=[^ ]*; run [^\n]*$"):
        export_delta([str(log)], str(tmp_path / "lake"), LakeSettings())
    other = own_error(RuntimeError("worker\nordo.pipeline.decoding.errors.DataLossError: purged\n  at x"))
    assert type(other) is PipelineError and str(other) == "purged"
    assert own_error(RuntimeError("disk full")) is None


def test_an_index_that_was_not_built_is_told(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "index", str(log))[0] == 0
    (tmp_path / "other").touch()
    os.environ["ORDO_INDEX_DIR"] = str(tmp_path / "other")  # the fixture puts it back
    demand_one_line(capsys, ["index", str(log)], EXIT_NOT_DONE, f"indexes cannot be written to {tmp_path}/other")
    os.environ["ORDO_INDEX_DIR"] = str(tmp_path / "third")
    with open(log / "0-0.rec", "r+b") as file:
        file.write(b"\xff" * 40)
    status, out, _ = told(capsys, "index", str(log))
    assert status == EXIT_FOUND and "0-0.rec: damaged at position 0, and has no index" in out
    os.remove(log / "0-0.rec")
    status, out, _ = told(capsys, "index", str(log))
    assert status == EXIT_FOUND and "0-0.rec: missing, and has no index" in out


def test_a_log_is_generated_into_a_new_folder_only(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir(log))
    demand_one_line(capsys, ["generate", str(log), "--messages", "5"], EXIT_NOT_DONE, "is not empty; give a new folder")
    assert sorted(os.listdir(log)) == before


def test_states_of_one_member_are_not_compared(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["alerts", str(log), "--checkpoint", str(tmp_path / "c"), "--states"]
    demand_one_line(capsys, words, EXIT_NOT_DONE, "--states compares members: give the archive folders of two or more")


def test_a_fetch_that_ends_half_way_leaves_no_folder(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, target = tmp_path / "copy", tmp_path / "back"
    (segment,) = copy_archive(str(log), Store(f"file://{place}"))
    data = (place / segment.name).read_bytes()
    (place / segment.name).write_bytes(data[:-1] + b"\xff")
    words = ["fetch", f"file://{place}", str(target)]
    demand_one_line(capsys, words, EXIT_NOT_DONE, "is damaged: its SHA-256 is not the manifest's")
    assert not target.exists() and not Path(f"{target}{FETCHING}").exists()
    (place / segment.name).write_bytes(data)
    target.mkdir()  # an empty one is as good as none
    assert told(capsys, *words)[0] == 0 and "catalog.mdb" in os.listdir(target)
    assert (target / "0-0.rec").read_bytes()[: len(data)] == data
    (tmp_path / "file").touch()
    words[-1] = str(tmp_path / "file" / "back")
    demand_one_line(capsys, words, EXIT_NOT_DONE, "cannot be written: Not a directory; nothing was fetched")

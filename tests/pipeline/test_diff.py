"""Two logs compared by what they say, wherever it lies in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs.diff import checked_columns, diff
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.sql.local import read


def write(folder: Path, payloads: list[bytes], time: int = 5, term: int = 1 << 20) -> str:
    with RecordingBuilder(str(folder / "archive"), term_length=term, segment_length=1 << 20) as builder:
        builder.append(new_term(0, 0, time, 0, 1))
        for payload in payloads:
            builder.append(session_message(0, 1, time, payload))
    return builder.directory


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["diff", *arguments, "--kinds", "message"])
    return done.exit_code, done.output


def test_the_same_messages_at_other_times_and_positions(tmp_path: Path) -> None:
    payloads = [bytes([number]) * 900 for number in range(200)]
    left = write(tmp_path / "a", payloads)
    right = write(tmp_path / "b", payloads, time=999, term=1 << 16)
    assert run(left, right) == (0, "same: 200 and 200 records, 0 differ\n")
    status, said = run(left, right, "--compare", "timestamp")
    assert status == 1 and "200 and 200 records, 200 differ" in said
    assert read(left).to_arrow()["position"].to_pylist() != read(right).to_arrow()["position"].to_pylist()


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    left = write(tmp_path / "a", [b"a", b"b", b"c"])
    right = write(tmp_path / "b", [b"a", b"X", b"c"])
    status, said = run(left, right)
    assert status == 1
    assert said.splitlines()[0] == "record 1: left at position 288: payload=62; right at position 288: payload=58"
    assert said.splitlines()[-1] == "differs: 3 and 3 records, 1 differ"


def test_one_log_goes_on(tmp_path: Path) -> None:
    left = write(tmp_path / "a", [b"a"])
    right = write(tmp_path / "b", [b"a", b"b"])
    status, said = run(left, right)
    assert status == 1
    assert said.startswith("record 1: left has no record; right at position 288: kind=message\n")
    facts = diff(read(right), read(left), limit=0)
    assert (facts["left_records"], facts["right_records"], facts["differing"]) == (3, 2, 1)
    assert facts["status"] == "differs" and facts["differences"] == []


@pytest.mark.parametrize("columns", [["colour"], [], ["node"]])
def test_columns_that_cannot_be_compared(columns: list[str]) -> None:
    with pytest.raises(PipelineError, match="kind, session_id, payload"):
        checked_columns(columns)

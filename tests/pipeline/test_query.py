"""SQL over the log from the command line, without Spark."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ordo.pipeline.generate import LogShape, RecordingBuilder, session_message
from ordo.pipeline.pipeline_commands import app


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["query", *arguments])
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_counts_by_kind(archive: str, shape: LogShape) -> None:
    sql = "SELECT kind, count(*) AS n FROM log GROUP BY ALL ORDER BY kind"
    assert f"message,{shape.messages}\n" in run(archive, "--sql", sql, "--format", "csv", "--columns", "kind")
    shown = run(archive, "--sql", sql)
    assert "session_open" in shown and str(shape.messages) in shown
    only = run(archive, "--sql", sql, "--format", "json", "--kinds", "timer")
    assert json.loads(only) == {"kind": "timer", "n": shape.terms}


def test_a_log_named_twice_is_read_twice(archive: str, shape: LogShape) -> None:
    """A stream of batches would be empty the second time."""
    sql = "WITH m AS (SELECT position FROM log) SELECT count(*) AS n FROM m a JOIN m b USING (position)"
    assert run(archive, "--sql", sql, "--format", "csv", "--kinds", "message") == f"n\n{shape.messages}\n"


def test_payloads_in_columns(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for number in range(10):
            builder.append(session_message(0, 1, 1000, struct.pack("<Iq", number, number * number)))
        builder.append(session_message(0, 1, 1000, b"odd"))
    decoder = ("--decoder", "struct:<Iq:number,square", "--kinds", "message", "--format", "json")
    rows = run(builder.directory, "--sql", "SELECT sum(record.square) AS s, count(problem) AS bad FROM log", *decoder)
    assert json.loads(rows) == {"s": "285", "bad": 1} or json.loads(rows) == {"s": 285, "bad": 1}
    whole = run(builder.directory, "--sql", "SELECT payload, record FROM log LIMIT 1", *decoder)
    assert json.loads(whole) == {"payload": "00" * 12, "record": {"number": 0, "square": 0}}


def test_a_long_table_says_so(archive: str, shape: LogShape) -> None:
    shown = run(archive, "--sql", "SELECT position FROM log", "--columns", "position", "--kinds", "message")
    assert f"the first 1,000 of {shape.messages:,} rows" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sql", "SELECT nothing FROM log"], 'query: Binder Error: Referenced column "nothing"'),
        (["--sql", "SELECT 1", "--format", "xml"], "allowed are table, csv, json"),
        (["--sql", "SELECT 1", "--decoder", "xml:a"], "decoder 'xml:a'"),
    ],
)
def test_mistakes_are_one_line(archive: str, arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["query", archive, *arguments])
    assert done.exit_code != 0 and words in str(done.exception)

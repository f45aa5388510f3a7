"""A replay names the messages of its first difference by the schemas of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ordo.follow.log_schemas import LogSchemas
from ordo.messages import encode
from ordo.pipeline.jobs.replay import replay, say_messages
from ordo.pipeline.pipeline_commands import app
from tests.debugging.logs import new_term, session_open
from tests.debugging.test_typed_records import HERE, message
from tests.pipeline.typed_logs import Record, event, logged, write_log
from tests.service_api.messages.typed import FIRST, Position


def write(folder: Path, *schemas: Record) -> str:
    head = [Record(new_term(0)), Record(session_open())]
    return write_log(folder, [*head, *schemas, message(3), message(4)], initial_term_id=0)


def test_a_difference_shows_messages(tmp_path: Path) -> None:
    facts = replay(None, write(tmp_path, event(FIRST)), f"{HERE}:Counter", f"{HERE}:Miscounter")
    first = facts["first_difference"]
    assert first["record"]["message"] == "Position(account=4)"
    assert first["record"]["payload"] == encode(Position(4)).hex()
    assert (first["expected"], first["actual"]) == ("egress 7: Position(account=8)", "egress 7: Position(account=7)")


def test_without_a_schema_it_shows_bytes(tmp_path: Path) -> None:
    facts = replay(None, write(tmp_path), f"{HERE}:Counter", f"{HERE}:Miscounter")
    first = facts["first_difference"]
    assert "message" not in first["record"] and first["actual"] == f"egress 7: {encode(Position(7)).hex()}"


def test_what_the_schema_sees_no_difference_in_stays_bytes() -> None:
    longer = bytearray(encode(Position(7)) + b"\x09")
    longer[0] += 1  # a field of a newer version
    longer[6] = 1
    first: dict[str, Any] = {"record": None, "expected": f"egress 7: {encode(Position(7)).hex()}"}
    first["actual"] = f"egress 7: {longer.hex()}"
    before = dict(first)
    say_messages(first, LogSchemas([logged(FIRST, 0)]))
    assert first == before


def test_the_command_prints_the_message(tmp_path: Path) -> None:
    folder = write(tmp_path, event(FIRST))
    words = ["replay", folder, "--service", f"{HERE}:Counter", "--baseline", f"{HERE}:Miscounter"]
    done = CliRunner().invoke(app, [*words, "--engine", "local", "--report", str(tmp_path / "report")])
    assert done.exit_code == 1 and ": Position(account=4)\n" in done.output

"""What cannot be read of a log may have been a schema: behind it no message has values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ordo
from ordo.errors import MessageError
from ordo.follow.log_schemas import schemas_of_folder
from ordo.messages import encode
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.runtime.errors import CorruptFrameError
from ordo.service_api.messages.logged import pack_schema
from tests.debugging.logs import builder_from
from tests.pipeline.typed_logs import Record, event, logged, payload_of, write_log, write_snapshot
from tests.service_api.messages.typed import FIRST, OTHER, Position, Transfer

BEGIN = 1 << 16
"""Where a log begins whose first segment was let go."""


def rows_of(folder: str, **options: Any) -> list[tuple[Any, str]]:
    """Value and problem of each message of a client."""
    rows = ordo.read(folder, decoder="log", kinds="message", **options).to_arrow().to_pylist()
    return [(row["Position_1"], row["problem"] or "") for row in rows]


@pytest.mark.parametrize("service_id", [0, 1])
def test_behind_a_schema_that_cannot_be_read_nothing_is_vouched_for(tmp_path: Path, service_id: int) -> None:
    """It may contradict what is known, or be another service's reading of the same message."""
    records = [event(FIRST), Position(1), event(OTHER, service_id, packed=b"none"), Transfer(77)]
    (before, _), (behind, problem) = rows_of(write_log(tmp_path, records))
    assert before == {"account": 1} and behind is None
    assert problem.startswith("from position ") and "cannot be unpacked" in problem


def test_behind_the_record_of_a_schema_that_is_cut_nothing_is_vouched_for(tmp_path: Path) -> None:
    records = [event(FIRST), Position(1), Record(event(OTHER)[:-30]), Position(2)]
    (before, _), (behind, problem) = rows_of(write_log(tmp_path, records))
    assert before == {"account": 1} and behind is None and "the record of a schema at position" in problem


@pytest.mark.parametrize("place", [-16, 4])
def test_a_search_for_schemas_verifies_checksums(tmp_path: Path, place: int) -> None:
    """Damage in the record's own header, or in its schema, which a read that begins later does not come by."""
    folder = str(tmp_path / "archive")
    with RecordingBuilder(folder, term_length=BEGIN, segment_length=BEGIN, initial_term_id=0) as builder:
        for one in (event(FIRST), session_message(0, 1, 5, encode(Position(1))), event(OTHER, 1)):
            builder.append(one)
        builder.writer.end_term()
        start = builder.writer.position
        builder.append(session_message(0, 1, 5, encode(Transfer(77))))
    (segment,) = (one for one in Path(folder).glob("*.rec") if pack_schema(OTHER).packed in one.read_bytes())
    data = bytearray(segment.read_bytes())
    at = data.index(bytes(event(OTHER, 1))[:40]) + 2 if place < 0 else data.index(pack_schema(OTHER).packed) + place
    data[at : at + 3] = b"DAM"
    segment.write_bytes(data)
    with pytest.raises(CorruptFrameError, match="is damaged at position="):
        schemas_of_folder(Path(folder))
    ((value, problem),) = rows_of(folder, start_position=start)
    assert value is None and "damaged segment: fault=checksum position=" in problem


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_schemas_between_a_snapshot_and_the_logs_beginning_are_lost(tmp_path: Path, has_snapshot: bool) -> None:
    with builder_from(tmp_path, BEGIN) as builder:
        for one in (session_message(0, 1, 5, payload_of(Transfer(77))), event(FIRST)):
            builder.append(one)
        builder.append(session_message(0, 1, 5, encode(Position(2))))
    folder = str(tmp_path / "archive")
    if has_snapshot:
        write_snapshot(folder, 96, [logged(FIRST, 64)])
        write_snapshot(folder, BEGIN, [logged(FIRST, 64), logged(OTHER, 5000, 1)], is_whole=False)
    position = 96 if has_snapshot else 0
    reason = f"from position {position} on it is not known what messages are: the log begins at {BEGIN}, and its newest"
    assert [(value, problem.startswith(reason)) for value, problem in rows_of(folder)] == [(None, True)] * 2
    schemas = schemas_of_folder(Path(folder))
    assert schemas.decode(encode(Position(2))) == {}, "for ordo log --decode and the debugger, too"
    with pytest.raises(MessageError, match=reason):
        schemas.read(encode(Position(2)), BEGIN + 1000)
    write_snapshot(folder, BEGIN, [logged(FIRST, 64)])
    assert [value for value, _ in rows_of(folder)] == [{"account": 77}, {"account": 2}]


def test_a_log_whose_schemas_are_all_lost_is_refused(tmp_path: Path) -> None:
    with builder_from(tmp_path, BEGIN) as builder:
        builder.append(session_message(0, 1, 5, encode(Position(2))))
    with pytest.raises(PipelineError, match=f"^decoder log: the log begins at {BEGIN}, and its newest whole snapshot"):
        ordo.read(str(tmp_path / "archive"), decoder="log")

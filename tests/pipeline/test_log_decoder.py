"""Columns by the schemas that the log has: each value as it was written, or null and a reason."""

from __future__ import annotations

import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import ordo
from ordo.messages import encode
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.recordings.object_copy import copy_archive
from ordo.pipeline.recordings.object_store import Store
from ordo.service_api.messages.logged import pack_schema
from tests.pipeline.typed_logs import event, logged, write_log, write_snapshot
from tests.service_api.messages.typed import (
    FIRST,
    ORDER,
    ORDER_VALUES,
    OTHER,
    SECOND,
    SEVENTH,
    WRONG,
    LongPosition,
    Order7,
    Ping,
    Position,
    PositionWithCents,
)


def rows_of(folder: str, **options: Any) -> list[dict[str, Any]]:
    """Rows of clients' messages."""
    rows: list[dict[str, Any]] = ordo.read(folder, decoder="log", kinds="message", **options).to_arrow().to_pylist()
    return rows


def test_each_value_is_as_it_was_written(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), ORDER, Position(3), Ping()])
    table = ordo.read(folder, decoder="log", columns="position").to_arrow()
    assert table.column_names == ["position", "message", "version", "problem", "Order", "Position_1"]
    order = table.schema.field("Order").type
    assert order.field("id").type == pa.decimal128(20, 0) and order.field("price").type == pa.decimal128(20, 2)
    assert order.field("digest").type == pa.binary() and order.field("sizes").type == pa.list_(pa.int32())
    schema, first, second, third = table.to_pylist()
    assert schema["message"] is schema["problem"] is None, "a record that is no message"
    assert (first["message"], first["version"], first["problem"]) == ("Order", 0, None)
    assert first["Order"] == ORDER_VALUES and first["Position_1"] is None
    assert (second["message"], second["Position_1"], second["Order"]) == ("Position_1", {"account": 3}, None)
    assert (third["message"], third["problem"]) == ("Ping", None), "a message without fields has no column"


def test_messages_of_all_versions_are_read_by_the_newest_schema(tmp_path: Path) -> None:
    records = [
        event(FIRST),
        Position(1),
        PositionWithCents(2, 20),
        event(SECOND),
        Position(3),
        PositionWithCents(4, 40),
    ]
    rows = rows_of(write_log(tmp_path, records))
    found = [(row["version"], row["Position_1"]["account"], row["Position_1"]["cents"]) for row in rows]
    assert found == [(0, 1, None), (1, 2, Decimal(20)), (0, 3, None), (1, 4, Decimal(40))]


def test_what_is_in_front_of_its_schema_is_null_with_a_reason(tmp_path: Path) -> None:
    first, second = rows_of(write_log(tmp_path, [Position(1), event(FIRST), Position(2)]))
    assert (first["message"], first["version"], first["Position_1"]) == (None, None, None)
    assert first["problem"].startswith("schema 1 is in the log from position ")
    assert first["problem"].endswith("which code wrote what is in front of it is not known")
    assert second["Position_1"] == {"account": 2}


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_log_that_was_let_go_has_its_schemas_in_a_snapshot(tmp_path: Path, is_whole: bool) -> None:
    """A newer snapshot that is not whole, or is above what may be read, is left aside."""
    folder = write_log(tmp_path, [Position(1), Position(2)])
    position = ordo.read(folder).to_arrow()["position"].to_pylist()[0]
    write_snapshot(folder, position, [logged(FIRST, position)])
    write_snapshot(folder, position + 1 if not is_whole else 1 << 40, [logged(WRONG, 0)], is_whole=is_whole)
    first, second = rows_of(folder)
    assert first["Position_1"] is None and second["Position_1"] == {"account": 2}


def test_schemas_behind_the_snapshot_are_found_too(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [Position(1), event(SECOND), PositionWithCents(2, 20)])
    write_snapshot(folder, 96, [logged(FIRST, 0)])
    assert [row["Position_1"]["cents"] for row in rows_of(folder)] == [None, Decimal(20)]


def test_what_cannot_be_decoded_is_null_and_ends_nothing(tmp_path: Path) -> None:
    order = encode(ORDER)
    payloads = [b"", b"12345", order[:40], order[:2] + b"\x09" + order[3:], order + b"more", encode(Order7("A")), order]
    rows = rows_of(write_log(tmp_path, [event(FIRST), *payloads]))
    assert [row["message"] for row in rows] == [None] * 6 + ["Order"]
    assert all(row["Order"] is None for row in rows[:-1])
    reasons = [row["problem"] for row in rows[:-1]]
    assert reasons[0] == "0 bytes are no message: its header alone has 8"
    assert reasons[5] == "schema 7 is not in the log, which has 1"
    assert all(reasons) and [row["payload"] for row in rows] == payloads, "nothing is lost"


def test_each_cut_of_a_message_is_null_with_a_reason() -> None:
    decoder, order = LogDecoder((logged(FIRST, 0),)), encode(ORDER)
    for length in range(len(order)):
        with pytest.raises(ValueError, match=r"bytes|beyond|end"):
            decoder.decode(order[:length], 1)


def test_schemas_that_contradict_each_other_vouch_for_nothing_behind(tmp_path: Path) -> None:
    before, behind = rows_of(write_log(tmp_path, [event(FIRST), Position(1), event(WRONG), LongPosition(2)]))
    assert before["Position_1"] == {"account": 1}
    assert behind["message"] is None
    assert "service 0 has schemas that contradict each other: LongPosition.account is 8 bytes at 0" in behind["problem"]


def test_services_that_read_a_message_differently_give_none(tmp_path: Path) -> None:
    records = [event(FIRST), Position(1), event(OTHER, service_id=1), Position(2), ORDER]
    alone, both, order = rows_of(write_log(tmp_path, records))
    assert alone["Position_1"] == {"account": 1}, "the other service had no such message yet"
    assert both["message"] is None
    said = "services 0 and 1 read it differently, as Position and Transfer: give their schemas ids of their own"
    assert both["problem"] == said
    assert order["Order"] == ORDER_VALUES, "only one of them knows it"


def test_services_with_the_same_messages_share_their_columns(tmp_path: Path) -> None:
    """One is a version behind the other, as for a while in an upgrade."""
    rows = ordo.read(
        write_log(tmp_path, [event(FIRST), event(SECOND, service_id=1), PositionWithCents(2, 20)]), decoder="log"
    ).to_arrow()
    assert rows.column_names[-2:] == ["Order", "Position_1"]
    assert rows["Position_1"].to_pylist()[-1] == {"account": 2, "cents": Decimal(20)}


def test_other_messages_of_one_name_have_columns_of_their_own(tmp_path: Path) -> None:
    rows = rows_of(write_log(tmp_path, [event(FIRST), event(SEVENTH, service_id=1), ORDER, Order7("A")]))
    assert [(row["message"], row["Order"] is None, row["Order_7"]) for row in rows] == [
        ("Order", False, None),
        ("Order_7", True, {"symbol": "A"}),
    ]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (b"no zlib", "cannot be unpacked"),
        (zlib.compress(b"<a/>"), "is damaged: its bytes are not those of its digest"),
        (pack_schema(FIRST).packed[:-9], "is damaged"),
        (zlib.compress(bytes(1 << 20)), "is damaged"),
    ],
)
def test_a_damaged_schema_is_one_line(tmp_path: Path, packed: bytes, words: str) -> None:
    alone = write_log(tmp_path / "alone", [event(FIRST, packed=packed), Position(1)])
    with pytest.raises(PipelineError, match=rf"^decoder log: the log at position \d+: schema [0-9a-f]+ .*{words}.*$"):
        ordo.read(alone, decoder="log")
    beside = write_log(tmp_path / "beside", [event(SEVENTH), Order7("A"), event(FIRST, packed=packed), Order7("B")])
    before, behind = rows_of(beside)
    assert before["Order"] == {"symbol": "A"}
    assert words in behind["problem"] and behind["message"] is None, "it may be one of this message"


def test_a_clients_bytes_that_look_like_a_schema_event_are_no_schema(tmp_path: Path) -> None:
    rows = rows_of(write_log(tmp_path, [event(FIRST), bytes(event(WRONG)), Position(2)]))
    assert [row["Position_1"] for row in rows] == [None, {"account": 2}]


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ([ORDER], {"decoder": "log"}, "decoder log: the log has no schema of messages yet; .* as sbe:<schema.xml>"),
        (
            [event(FIRST)],
            {"decoder": "log", "recording": "all"},
            "decoder log: .*/1 is not the log, which alone has schemas",
        ),
        ([event(FIRST)], {"decoder": "logs"}, "decoder 'logs': write log, sbe:"),
        ([event(FIRST)], {"decoder": "sbe:nowhere.xml"}, "nowhere.xml cannot be read as an SBE schema"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    tmp_path: Path, records: list[Any], options: dict[str, str], words: str
) -> None:
    folder = write_log(tmp_path, records)
    write_snapshot(folder, 0, [])
    with pytest.raises(PipelineError, match=words) as error:
        ordo.read(folder, **options)
    assert "\n" not in str(error.value)


def test_any_decoder_is_an_option_of_a_read(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [b"\x07"])
    log = ordo.read(folder, decoder="struct:<B:number", columns="kind")
    assert log.to_arrow().to_pylist() == [
        {"kind": "message", "message": "record", "version": 0, "problem": None, "record": {"number": 7}}
    ]
    assert log.sql("SELECT record.number AS n FROM log").to_pylist() == [{"n": 7}]


def test_decoders_travel_as_text() -> None:
    decoder = LogDecoder((logged(FIRST, 96), logged(OTHER, 192, 1)))
    assert LogDecoder.parse(decoder.text()) == decoder


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_query(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), ORDER, ORDER, Position(3)])
    sql = "SELECT \"Order\".price AS price, count(*) AS n FROM log WHERE message = 'Order' GROUP BY ALL"
    shown = invoke("query", folder, "--decoder", "log", "--format", "json", "--sql", sql)
    assert json.loads(shown) == {"price": "-12.50", "n": 2}


def test_a_copy_has_the_schemas_of_its_snapshots(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [Position(1), event(SECOND), PositionWithCents(2, 20)])
    write_snapshot(folder, 96, [logged(FIRST, 0)])
    copy = f"file://{tmp_path / 'copy'}"
    assert len(list(copy_archive(folder, Store(copy)))) == 2
    here, there = (
        ordo.read(source, decoder="log", kinds="message").to_arrow().drop_columns(["node"]) for source in (folder, copy)
    )
    assert there == here and [row["account"] for row in there["Position_1"].to_pylist()] == [1, 2]

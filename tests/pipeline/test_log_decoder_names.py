"""Names of columns by the log's schemas: once given they stay; and what has no column says so alone."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pytest

import ordo
from ordo.messages import Fixed, Schema, UInt8, UInt32, UInt64, composite, encode, field, group, message
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.decoding.payloads import decode_batches, decoded_schema
from tests.pipeline.typed_logs import event, logged, write_log
from tests.service_api.messages.typed import FIRST, ORDER, ORDER_VALUES, SECOND, Position


@composite
class Place:
    x: UInt8
    X: UInt8


@group
class Leg:
    at: Place
    AT: UInt8


@message(id=1)
class Quote:
    price: UInt32
    Price: UInt32
    legs: list[Leg]
    Legs: str = ""


@message(id=1, schema_id=1)
class Account:
    number: UInt32


@message(id=1, schema_id=1, version=1)
class LaterAccount:
    number: UInt32


@message(id=2, schema_id=1, version=1)
class Trade:
    pence: UInt64


@message(id=1, schema_id=2)
class Trade2:
    pence: UInt64


Trade2.__name__ = "Trade"


@message(id=9)
class Precise:
    value: Annotated[Decimal, Fixed(40)]


@group
class Late:
    account: UInt32 | None = field(since=1, default=None)


@message(id=1, version=1)
class Basket:
    id: UInt32
    legs: list[Late]


def rows_of(folder: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ordo.read(folder, decoder="log", kinds="message").to_arrow().to_pylist()
    return rows


def test_fields_that_differ_in_large_and_small_letters_have_numbers(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'ordo-sequencer[local]'")
    folder = write_log(tmp_path, [event(Schema("one", Quote)), Quote(1, 2, [Leg(Place(3, 4), 5)], "six")])
    (row,) = rows_of(folder)
    leg = {"at": {"x": 3, "X_2": 4}, "AT_2": 5}
    assert row["Quote"] == {"price": 1, "Price_2": 2, "legs": [leg], "Legs_2": "six"}
    sql = 'SELECT "Quote".price AS a, "Quote"."Price_2" AS b FROM log WHERE message = \'Quote\''
    assert ordo.read(folder, decoder="log").sql(sql).to_pylist() == [{"a": 1, "b": 2}]


def test_a_name_that_was_given_stays_when_an_older_schema_grows() -> None:
    """Also where the messages have the same fields, which they may not have for long."""
    first = (logged(Schema("one", Account), 10), logged(Schema("two", Trade2), 20, 1))
    later = (*first, logged(Schema("one", LaterAccount, Trade), 30))
    for known in (first, later):
        assert LogDecoder(known).decode(encode(Trade2(500)), 40) == ("Trade", 0, {"pence": 500})
        assert list(LogDecoder(known).columns())[:2] == ["Account", "Trade"]
    assert LogDecoder(later).decode(encode(Trade(600)), 40) == ("Trade_1", 1, {"pence": 600})
    assert list(LogDecoder(later).columns()) == ["Account", "Trade", "Trade_1"]


def test_a_message_keeps_its_column_when_it_is_called_otherwise() -> None:
    first = (logged(FIRST, 10),)
    for known in (first, (*first, logged(SECOND, 20))):
        assert LogDecoder(known).decode(encode(Position(1)), 40)[0] == "Position_1"


def test_a_decimal_too_long_for_a_column_takes_away_its_message_alone(tmp_path: Path) -> None:
    records = [event(Schema("some", Precise, Position)), Precise(Decimal("1E-40")), Position(1)]
    precise, position = rows_of(write_log(tmp_path, records))
    said = "Precise has no column: value has 40 digits after the point: columns have up to 38"
    assert (precise["message"], precise["problem"]) == (None, said)
    assert "Precise" not in position and position["Position_1"] == {"account": 1}


def test_rows_without_bytes_are_as_many_as_the_payload_has_bytes(tmp_path: Path) -> None:
    """Sixteen bytes that say 65,535 rows would take a second and 20 MB, each time."""
    payloads = [struct.pack("<HHHHIHH", 4, 1, 1, 0, 1, 0, count) for count in (16, 17)]
    allowed, refused = rows_of(write_log(tmp_path, [event(Schema("one", Basket)), *payloads]))
    assert allowed["Basket"] == {"id": 1, "legs": [{"account": None}] * 16}
    assert refused["Basket"] is None and refused["problem"] == "legs has over 16 rows without bytes"


def test_rows_of_several_messages_in_one_batch() -> None:
    decoder = LogDecoder((logged(FIRST, 0),))
    payloads = [encode(Position(1)), b"", encode(ORDER), encode(Position(2))]
    batch = pa.RecordBatch.from_pydict({"position": [10, 20, 30, 40], "payload": payloads})
    schema = decoded_schema(batch.schema, decoder)
    (found,) = decode_batches(decoder, "payload", schema, iter([batch]))
    assert found["Position_1"].to_pylist() == [{"account": 1}, None, None, {"account": 2}]
    assert found["Order"].to_pylist() == [None, None, ORDER_VALUES, None]
    (only,) = decode_batches(decoder, "payload", schema, iter([batch.slice(0, 1)]))
    assert only["Order"].to_pylist() == [None] and only["Position_1"].to_pylist() == [{"account": 1}]

"""Messages with types beside SBE's own Java tool: it takes the schema that Ordo writes, and reads the same values."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from ordo.messages import (
    Array,
    Bytes,
    Chars,
    Float32,
    Int32,
    Int64,
    Schema,
    TimestampNs,
    UInt8,
    UInt16,
    composite,
    encode,
    field,
    message,
    number,
)
from ordo.service_api.messages.logged import pack_schema, unpack_schema
from ordo.service_api.messages.plain import values_of
from ordo.service_api.messages.schema_xml import to_xml
from tests.peers.test_sbe_tool import sbe_tool
from tests.service_api.messages.orders import NEW, Leg, Order, Party, Side
from tests.service_api.messages.random_schemas import draw

__all__ = ["sbe_tool"]


class Flag(IntEnum):
    """An enumeration that looks like SBE's Boolean."""

    F = 0
    T = 1


@composite
class Pair:
    levels: Annotated[tuple[int, ...], Array(UInt16, 2)]
    at: TimestampNs
    side: Side | None


@composite
class Nested:
    first: Pair
    key: Annotated[bytes, Bytes(2)]
    name: Annotated[str, Chars(3)]


@message(id=1)
class Before:
    number: UInt8


@message(id=1, version=1)
class Rich:
    number: UInt8
    counts: Annotated[tuple[int, ...], Array(UInt8, 3)] = field(since=1, default=(0, 0, 0))
    single: Annotated[tuple[int, ...], Array(Int32, 1)] = field(since=1, default=(0,))
    reals: Annotated[tuple[float, ...], Array(Float32, 2)] = field(since=1, default=(0.0, 0.0))
    times: Annotated[tuple[int, ...], Array(TimestampNs, 2)] = field(since=1, default=(0, 0))
    ranged: Annotated[tuple[int, ...], Array(number("int64", null=0, low=1), 2)] = field(since=1, default=(1, 1))
    key: Annotated[bytes, Bytes(4)] | None = field(since=1, default=None)
    byte: Annotated[bytes, Bytes(1)] = field(since=1, default=b"\0")
    flag: Flag = field(since=1, default=Flag.F)
    wide: Annotated[Side, UInt16] = field(since=1, default=Side.BUY)
    narrow: Side = field(since=1, default=Side.BUY)
    pair: Pair | None = field(since=1, default=None)
    nested: Nested | None = field(since=1, default=None)
    zero_is_none: Annotated[int, number("int64", null=0)] | None = field(since=1, default=None)
    total: Int64 = field(since=1, default=0)


RICH = Schema("rich", Rich)


@pytest.mark.peers
def test_the_java_tool_reads_what_classes_wrote(
    sbe_tool: Callable[[Path, list[bytes]], list[dict[str, Any]]], tmp_path: Path
) -> None:
    schema = tmp_path / "schema.xml"
    schema.write_text(to_xml(NEW))
    orders = [
        Order(7, Side.SELL, 500, True, [Leg(1, -2, [Party(9)], "note")], [Party(4)], "text", b"\0\1"),
        Order(1 << 62, Side.BUY, 0, False),
    ]
    first, second = sbe_tool(schema, [encode(order) for order in orders])
    assert (first["account"], first["side"], first["quantity"], first["urgent"]) == (7, "SELL", 500, "T")
    assert [(leg["instrument"], leg["ratio"], leg["note"]) for leg in first["legs"]] == [(1, -2, "note")]
    assert [one["party_id"] for leg in first["legs"] for one in leg["parties"]] == [9]
    assert ([one["party_id"] for one in first["tags"]], first["note"]) == ([4], "text")
    assert (second["account"], second["side"], second["legs"], second["note"]) == (1 << 62, "BUY", [], "")


@pytest.mark.peers
def test_the_java_tool_reads_arrays_bytes_and_composites_that_came_later(
    sbe_tool: Callable[[Path, list[bytes]], list[dict[str, Any]]], tmp_path: Path
) -> None:
    schema = tmp_path / "schema.xml"
    schema.write_text(to_xml(RICH))
    pair = Pair((1, 65_535), 1 << 60, None)
    value = Rich(
        *(7, (1, 2, 255), (-5,), (0.5, -1.5), (1, 1 << 61), (1, -1), b"\0\1\2\xff", b"x"),
        *(Flag.T, Side.SELL, Side.BUY, pair, Nested(pair, b"\7\x08", "abc"), None, 9),
    )
    (found,) = sbe_tool(schema, [encode(value)])
    read_pair = {"levels": [1, 65_535], "at": 1 << 60, "side": "null"}
    assert found == {
        "number": 7, "counts": [1, 2, 255], "single": -5, "reals": [0.5, -1.5], "times": [1, 1 << 61],
        "ranged": [1, -1], "key": [0, 1, 2, 255], "byte": 120, "flag": "T", "wide": "SELL", "narrow": "BUY",
        "pair": read_pair, "nested": {"first": read_pair, "key": [7, 8], "name": "abc"}, "zero_is_none": 0, "total": 9,
    }  # fmt: skip
    read = unpack_schema(*pack_schema(RICH)).decode(encode(Before(8)))
    assert [getattr(read, name) for name in Rich.__slots__] == [8, *[None] * 14]  # type: ignore[attr-defined]


@pytest.mark.peers
@pytest.mark.thorough
def test_the_java_tool_takes_schemas_of_any_types(
    sbe_tool: Callable[[Path, list[bytes]], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """It reads the same numbers, wherever they stand: were a place or a length another, it would not."""
    for seed in range(12):
        drawn, values = draw(seed, is_plain=True)
        schema = tmp_path / f"{seed}.xml"
        schema.write_text(to_xml(drawn))
        ours = unpack_schema(*pack_schema(drawn))
        for value, read in zip(values, sbe_tool(schema, [encode(value) for value in values]), strict=True):
            assert_same(values_of(ours.decode(encode(value))), read)


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Compare whole numbers, arrays of them, enumerations, groups and composites; the tool writes others in its way."""
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        read = theirs[name]
        if isinstance(value, dict):
            assert_same(value, read)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for own, row in zip(value, read, strict=True):
                assert_same(own, row)
        elif type(value) is int or (isinstance(value, str) and isinstance(read, str) and value.isascii()):
            assert value == read, name
        elif isinstance(value, list) and value and type(value[0]) is int:
            numbers = (
                read if isinstance(read, list) else [read]
            )  # the tool's printer takes a uint64 in an array for an int64
            assert [one % (1 << 64) for one in value] == [one % (1 << 64) for one in numbers], name

"""Schemas as exchanges publish them: layouts with offsets, constants by reference, null values, hostile counts."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.sbe_schema import EMPTY_ROWS_MAX, SbeSchema
from tests.pipeline.everything import NULLS, SCHEMA, Everything

VALUES = {
    "code": "A", "name": "AB", "sized": 5, "price": 1.5, "market": 2, "constantSide": "SELL", "constantNumber": 1,
    "venue": "XLON", "side": "SELL", "kind": "MARKET", "flags": ["post", "hidden"],
    "money": {"mantissa": 123, "exponent": -7, "currency": "EUR"}, "late": 7,
    "legs": [{"ratio": 1, "legSide": "BUY"}, {"ratio": -2, "legSide": "SELL"}], "text": "hi",
}  # fmt: skip
NULLABLE = ("code", "name", "sized", "price", "side", "kind", "late")


def load(folder: Path, text: str = SCHEMA) -> SbeSchema:
    path = folder / "schema.xml"
    path.write_text(text)
    return SbeSchema.load(str(path))


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_construct_is_read(order: str, tmp_path: Path) -> None:
    text = SCHEMA if order == "<" else SCHEMA.replace("littleEndian", "bigEndian")
    assert load(tmp_path, text).decode(Everything().encode(order)) == ("Everything", 3, VALUES)


def test_null_values_are_null(tmp_path: Path) -> None:
    _, _, values = load(tmp_path).decode(NULLS.encode())
    assert {name: values[name] for name in NULLABLE} == dict.fromkeys(NULLABLE)
    assert values["money"]["mantissa"] is None and values["legs"] == []


def test_what_an_older_version_lacks_is_null(tmp_path: Path) -> None:
    assert load(tmp_path).decode(Everything(version=1).encode()) == ("Everything", 1, {**VALUES, "late": None})


def test_a_null_value_may_be_given_as_a_character_or_its_number(tmp_path: Path) -> None:
    for given in ("A", "65"):
        text = SCHEMA.replace('<type name="Code" ', f'<type name="Code" nullValue="{given}" ')
        assert load(tmp_path, text).decode(Everything().encode())[2]["code"] is None


def test_every_cut_of_a_message_is_an_error(tmp_path: Path) -> None:
    schema, message = load(tmp_path), Everything().encode()
    for length in range(len(message)):
        with pytest.raises(ValueError):
            schema.decode(message[:length])


def test_a_header_that_is_cut_is_an_error_wherever_its_parts_are(tmp_path: Path) -> None:
    last = '<type name="numVarDataFields" primitiveType="uint16"'
    text = SCHEMA.replace(last, f'{last} offset="0"').replace('name="version" ', 'name="version" offset="100" ')
    with pytest.raises(ValueError, match="cut short"):
        load(tmp_path, text).decode(Everything().encode())


def test_rows_without_bytes_are_bounded(tmp_path: Path) -> None:
    """A count of rows that take no bytes is bounded by nothing that a message has to hold."""
    schema = load(
        tmp_path, SCHEMA.replace('name="numInGroup" primitiveType="uint8"', 'name="numInGroup" primitiveType="uint32"')
    )
    whole = Everything(legs=()).encode()
    start = len(whole) - len(b"\2hi") - 5
    hostile = whole[:start] + struct.pack("<H2xI", 0, 0xFFFFFFFF) + b"\2hi"
    with pytest.raises(ValueError, match=f"legs has over {EMPTY_ROWS_MAX} rows without bytes"):
        schema.decode(hostile)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name="numInGroup"', 'name="count"'), "composite groupSizeEncoding has no numInGroup"),
        (('name="schemaId"', 'name="schema"'), "composite messageHeader has no schemaId"),
        (('"Kind.MARKET"', '"Kind.STOP"'), "valueRef 'Kind.STOP' names no value of an enum"),
        (('type="Money"', 'type="Cash"'), "there is no 'Cash'"),
        (('"UTF-8"', '"nope"'), "varData of varText cannot be text: unknown encoding: nope"),
        (('"UTF-8"', '"hex"'), "varData of varText cannot be text: 'hex' is not a text encoding"),
        ((">-7<", ">-129<"), "int8 has no value -129, which a constant has"),
        (('"int8" presence="constant">-7', '"uint64" presence="constant">-7'), "uint64 has no value -7, which a"),
        (('"int8" presence="constant">-7', '"uint64" presence="constant">x'), "invalid literal for int() with base 10"),
    ],
)
def test_what_a_schema_lacks_is_named(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=f"cannot be read as an SBE schema: {re.escape(said)}"):
        load(tmp_path, SCHEMA.replace(*change))

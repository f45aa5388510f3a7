"""Schemas as exchanges publish them: layouts with offsets, constants by reference, null values, hostile counts."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import SbeDecoder, decode_batches, decoded_schema
from ordo.pipeline.decoding.sbe_schema import SbeSchema
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
    with pytest.raises(ValueError, match=f"legs has over {len(hostile)} rows without bytes"):
        schema.decode(hostile)
    few = hostile.replace(struct.pack("<I", 0xFFFFFFFF), struct.pack("<I", 3))
    assert schema.decode(few)[2]["legs"] == [{"ratio": None, "legSide": None}] * 3


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


TYPED = """<messageSchema id="1" version="0"><types>
<composite name="messageHeader"><type name="blockLength" primitiveType="{length}"/>
<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>
<type name="version" primitiveType="{version}"/></composite>
<composite name="dimension"><type name="blockLength" primitiveType="{length}"/>
<type name="numInGroup" primitiveType="uint32"/></composite>
<composite name="text"><type name="length" primitiveType="{length}"/>
<type name="varData" primitiveType="uint8" length="0" characterEncoding="{charset}"/></composite></types>
<message name="Some" id="1"><group name="rows" id="2" dimensionType="dimension"><field name="a" id="3" type="uint8"/>
</group><data name="note" id="4" type="text"/></message></messageSchema>"""
"""A schema whose lengths and version are integers of any type."""


def typed(length: str = "uint16", version: str = "uint16", charset: str = "UTF-8") -> str:
    return TYPED.format(length=length, version=version, charset=charset)


@pytest.mark.parametrize(
    ("block_length", "row_length", "text_length", "said"),
    [(-1, 1, 2, "Some has -1 bytes"), (0, -1, 2, "rows has -1 bytes"), (0, 1, -2, "note has -2 bytes")],
)
def test_lengths_below_zero_are_refused(
    block_length: int, row_length: int, text_length: int, said: str, tmp_path: Path
) -> None:
    """Each row would go back by a byte, and be read again: four billions of them from a few bytes."""
    schema = load(tmp_path, typed("int16"))
    message = struct.pack("<hHHHhIBh2s", block_length, 1, 1, 0, row_length, 1, 7, text_length, b"hi")
    with pytest.raises(ValueError, match=said):
        schema.decode(message)
    whole = struct.pack("<hHHHhIBh2s", 0, 1, 1, 0, 1, 1, 7, 2, b"hi")
    assert schema.decode(whole)[2] == {"rows": [{"a": 7}], "note": "hi"}


@pytest.mark.parametrize(
    ("version_type", "code", "version"),
    [("uint32", "I", (1 << 32) - 1), ("uint32", "I", 1 << 31), ("uint64", "Q", (1 << 64) - 1), ("int64", "q", -1)],
)
def test_a_version_that_no_column_holds_is_the_problem_of_its_row(
    version_type: str, code: str, version: int, tmp_path: Path
) -> None:
    whole, wrong = (struct.pack(f"<HHH{code}HIH2s", 0, 1, 1, one, 1, 0, 2, b"hi") for one in ((1 << 31) - 1, version))
    first, second = rows_of(tmp_path, typed(version=version_type), whole, wrong)
    assert (first["version"], first["Some"]["note"], first["problem"]) == ((1 << 31) - 1, "hi", None)
    assert second["Some"] is None and second["problem"] == f"version {version}: from 0 to 2147483647 are known"


@pytest.mark.parametrize(("charset", "data"), [("UTF-7", b"+2AA-"), ("unicode_escape", rb"\ud800")])
def test_halves_of_characters_end_no_query(charset: str, data: bytes, tmp_path: Path) -> None:
    message = struct.pack("<HHHHHIH", 0, 1, 1, 0, 1, 0, len(data)) + data
    (row,) = rows_of(tmp_path, typed(charset=charset), message)
    assert row["Some"]["note"] == "?" and row["problem"] is None


def rows_of(folder: Path, text: str, *payloads: bytes) -> list[dict[str, Any]]:
    """Decode payloads as a query does, whose columns have Arrow types."""
    path = folder / "schema.xml"
    path.write_text(text)
    decoder = SbeDecoder(str(path))
    batch = pa.RecordBatch.from_pydict({"payload": pa.array(payloads, pa.binary())})
    (found,) = decode_batches(decoder, "payload", decoded_schema(batch.schema, decoder), iter([batch]))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows

"""Files of SBE that would not end or lack something are refused in one line, whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import OrdoError
from ordo.service_api.messages.schema_file import NamedValues, SchemaFile
from ordo.service_api.messages.schema_source import source_of

HEADER = """\
<composite name="messageHeader">
  <type name="blockLength" primitiveType="uint16"/>
  <type name="templateId" primitiveType="uint16"/>
  <type name="schemaId" primitiveType="uint16"/>
  <type name="version" primitiveType="uint16"/>
</composite>
"""


def pipeline_reader(path: Path) -> Any:
    sbe_schema = pytest.importorskip("ordo.pipeline.decoding.sbe_schema")
    return sbe_schema.SbeSchema.load(str(path))


READERS = pytest.mark.parametrize("reader", [source_of, pipeline_reader])


def schema(folder: Path, types: str, field_type: str = "uint8", more: str = "") -> Path:
    path = folder / "schema.xml"
    path.write_text(
        f'<messageSchema package="p" id="1">{more}<types>{HEADER}{types}</types>'
        f'<message name="One" id="1"><field name="value" id="1" type="{field_type}"/></message></messageSchema>'
    )
    return path


@READERS
@pytest.mark.parametrize(
    ("types", "field_type", "more", "said"),
    [
        ("", "uint8", '<include href="schema.xml"/>', "files include one another"),
        ('<composite name="Loop"><ref name="again" type="Loop"/></composite>', "Loop", "", "Loop has itself as a part"),
        ('<enum name="Side" encodingType="Side"/>', "Side", "", "Side has itself as a part"),
        ('<type name="Wide" primitiveType="int128"/>', "Wide", "", "there is no 'int128'"),
        (
            '<type name="Odd" primitiveType="uint8" length="-1"/>', "Odd", "",
            "Odd has the length -1: allowed are 0 to 16777216",
        ),
        (
            '<composite name="Odd"><type name="part" primitiveType="uint8" offset="-4"/></composite>', "Odd", "",
            "part has the offset -4: allowed are 0 to 16777216",
        ),
        (
            '<type name="Odd" primitiveType="uint16" length="99999999999999999999"/>', "Odd", "",
            "Odd has the length 99999999999999999999: allowed are 0 to 16777216",
        ),
        (
            '<set name="Odd" encodingType="uint8"><choice name="A">-1</choice></set>', "Odd", "",
            "Odd.A is bit -1: allowed are 0 to 7 of uint8",
        ),
        (
            '<set name="Odd" encodingType="uint16"><choice name="A">99999999999</choice></set>', "Odd", "",
            "Odd.A is bit 99999999999: allowed are 0 to 15 of uint16",
        ),
        (
            '<set name="Odd" encodingType="double"><choice name="A">1</choice></set>', "Odd", "",
            "the set Odd has the encoding double: allowed are integers",
        ),
        ('<data name="Odd"/>', "Odd", "", "Odd is a data: allowed are type, enum, set and composite"),
        (
            '<composite name="Money"/><enum name="Side" encodingType="Money"/>', "Side", "",
            "Side has the encoding Money, which is no primitive type",
        ),
    ],
)  # fmt: skip
def test_a_file_that_no_reader_can_read(
    types: str, field_type: str, more: str, said: str, reader: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = schema(tmp_path, types, field_type, more)
    with pytest.raises(OrdoError) as caught:
        reader(path)
    assert str(caught.value).startswith(f"{path} cannot be read as an SBE schema: {said}")
    assert "\n" not in str(caught.value)


@READERS
@pytest.mark.parametrize("is_included", [False, True])
def test_a_file_in_an_encoding_that_there_is_not(
    is_included: bool, reader: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = schema(tmp_path, "", more='<include href="types.xml"/>' if is_included else "")
    odd = tmp_path / "types.xml" if is_included else path
    odd.write_text('<?xml version="1.0" encoding="foo"?><types/>')
    with pytest.raises(OrdoError, match=r"schema\.xml cannot be read as an SBE schema: unknown encoding: foo; write"):
        reader(path)


def doubled(levels: int) -> str:
    """Composites of which each has the one before it twice."""
    first = '<composite name="C0"><type name="a" primitiveType="uint8"/></composite>'
    return first + "".join(
        f'<composite name="C{level}"><ref name="a" type="C{level - 1}"/><ref name="b" type="C{level - 1}"/></composite>'
        for level in range(1, levels)
    )


def test_composites_that_double_one_another_end_in_one_line(tmp_path: Path) -> None:
    """Twenty levels are 2**19 values; classes are written once for each composite."""
    assert "class C19:" in source_of(schema(tmp_path, doubled(20), "C19"))
    with pytest.raises(OrdoError, match="its messages have over 65536 values, with those of composites within"):
        pipeline_reader(schema(tmp_path, doubled(20), "C19"))
    assert pipeline_reader(schema(tmp_path, doubled(8), "C7")).columns().keys() == {"One"}


def test_descriptions_are_no_values_and_an_included_file_has_types(tmp_path: Path) -> None:
    (tmp_path / "sides.xml").write_text(
        '<types><enum name="Side" encodingType="uint8" description="of an order"><description>x</description>'
        '<validValue name="BUY">1</validValue></enum></types>'
    )
    path = schema(tmp_path, "", "Side", '<include href="sides.xml"/>')
    found = SchemaFile(path).type("Side")
    assert found == NamedValues("Side", False, "uint8", None, (("BUY", "1"),), "of an order")
    assert "class Side(IntEnum):" in source_of(path)


def test_a_type_goes_before_one_of_its_name_within_a_composite(tmp_path: Path) -> None:
    within = '<composite name="Pair"><enum name="Side" encodingType="char"/></composite>'
    own = '<enum name="Side" encodingType="uint8"/>'
    for types in (within + own, own + within):
        found = SchemaFile(schema(tmp_path, types, "Side")).type("Side")
        assert isinstance(found, NamedValues) and found.primitive == "uint8"


@READERS
def test_a_constant_of_a_set_is_refused_by_both(reader: Callable[[Path], Any], tmp_path: Path) -> None:
    types = (
        '<set name="Flags" encodingType="uint8"><choice name="A">0</choice></set>'
        '<type name="Fixed" primitiveType="uint8" presence="constant" valueRef="Flags.A"/>'
    )
    with pytest.raises(OrdoError, match=r"valueRef 'Flags\.A' names no value of an enum"):
        reader(schema(tmp_path, types, "Fixed"))

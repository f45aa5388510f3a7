"""Schemas in XML say what the classes do: another decoder reads the same values, and classes made of them are alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum, IntFlag
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ordo.messages import Schema, UInt32, encode, field, message
from ordo.runtime.errors import MessageError
from ordo.service_api.messages.evolution import breaks
from ordo.service_api.messages.message import layout_of_message
from ordo.service_api.messages.schema_source import source_of
from ordo.service_api.messages.schema_xml import to_xml
from tests.service_api.messages.orders import NEW, OLD, Everything, Order, Reversed
from tests.service_api.messages.values import everything, orders

numbers = count()


def classes_of(xml: str, folder: Path) -> ModuleType:
    """A module of the classes that `ordo schema import` writes."""
    path = folder / "schema.xml"
    path.write_text(xml)
    module = ModuleType(f"imported_{next(numbers)}")
    sys.modules[module.__name__] = module
    exec(compile(source_of(path), "imported", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def xml_schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The schema as the pipeline's decoder reads it, which shares no code with the classes."""
    sbe_schema = pytest.importorskip("ordo.pipeline.decoding.sbe_schema")
    path = tmp_path_factory.mktemp("schema") / "orders.xml"
    path.write_text(to_xml(NEW))
    return sbe_schema.SbeSchema.load(str(path))


def plain(value: Any) -> Any:
    """A value as the pipeline has it."""
    if isinstance(value, IntFlag):
        return [one.name for one in type(value) if one in value]
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return value


def as_classes(values: dict[str, Any]) -> dict[str, Any]:
    """The pipeline's values: decimals from mantissa and exponent, names of groups' rows as they are."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and set(value) == {"mantissa", "exponent"}:
            mantissa = value["mantissa"]
            found[name] = None if mantissa is None else Decimal(mantissa).scaleb(value["exponent"])
        elif name == "digest":
            found[name] = bytes(value)
        else:
            found[name] = value
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=everything | orders)
def test_another_decoder_reads_the_same_values(value: Everything | Order, xml_schema: Any) -> None:
    name, version, values = xml_schema.decode(encode(value))
    assert (name, version) == (type(value).__name__, 2)
    assert as_classes(values) == plain(value)


@pytest.mark.parametrize("schema", [NEW, OLD, Schema("reversed", Reversed)], ids=["new", "old", "reversed"])
def test_classes_that_are_made_of_the_schema_are_alike(schema: Schema, tmp_path: Path) -> None:
    xml = to_xml(schema)
    imported = classes_of(xml, tmp_path)
    # A field that came later is optional in the classes that are made, for a schema gives no default.
    assert to_xml(imported.SCHEMA).replace(' presence="optional" since', " since") == xml.replace(
        ' presence="optional" since', " since"
    )
    for ours, theirs in zip(schema, imported.SCHEMA, strict=True):
        assert [one.place for one in layout_of_message(ours).fields] == [
            one.place for one in layout_of_message(theirs).fields
        ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(value=orders)
def test_imported_classes_read_what_the_others_wrote(value: Order, imported: ModuleType) -> None:
    payload = encode(value)
    assert encode(imported.SCHEMA.decode(payload)) == payload


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    yield classes_of(to_xml(NEW), tmp_path_factory.mktemp("imported"))


EXCHANGE = """\
<messageSchema package="exchange" id="9" version="4" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <composite name="groupSize8Byte">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="numInGroup" primitiveType="uint8" offset="7"/>
    </composite>
    <composite name="PRICENULL9">
      <type name="mantissa" primitiveType="int64" presence="optional" nullValue="9223372036854775807"/>
      <type name="exponent" primitiveType="int8" presence="constant">-9</type>
    </composite>
    <type name="uInt8" primitiveType="uint8"/>
    <type name="Asset" primitiveType="char" length="6"/>
    <type name="Venue" primitiveType="char" length="4" presence="constant">XORD</type>
    <enum name="AggressorSide" encodingType="uInt8">
      <validValue name="Buy">1</validValue>
      <validValue name="None">0</validValue>
    </enum>
  </types>
  <message name="list" id="46" blockLength="32">
    <field name="AggressorSide" id="1" type="AggressorSide"/>
    <field name="class" id="2" type="uint16"/>
    <field name="Price" id="3" type="PRICENULL9" offset="8"/>
    <field name="Asset" id="4" type="Asset" sinceVersion="3"/>
    <field name="Venue" id="5" type="Venue"/>
    <group name="NoEntries" id="6" dimensionType="groupSize8Byte" blockLength="5">
      <field name="size" id="7" type="int32" presence="optional"/>
    </group>
  </message>
</messageSchema>
"""


def test_a_schema_as_exchanges_write_them(tmp_path: Path) -> None:
    """Names that Python keeps, fields called as their types, gaps, odd dimensions, null values and constants."""
    module = classes_of(EXCHANGE, tmp_path)
    row = module.list_NoEntries(-5)
    value = module.list_(module.AggressorSide.Buy, 7, Decimal("1.5"), Asset="GOLD", NoEntries=[row])
    payload = encode(value)
    block = "01070000000000000" + "02f685900000000" + "474f4c440000" + "00" * 10
    assert payload.hex() == "20002e0009000400" + block + "0500000000000001" + "fbffffff00"
    assert module.SCHEMA.decode(payload) == value
    assert module.list_.Venue == "XORD"
    assert module.SCHEMA.decode(payload[:6] + b"\2\0" + payload[8:]).Asset is None, "of a version that had none"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("<messageSchema", "<schema", "mismatched tag"),
        ('type="uint16"/>\n    <field name="Price"', 'type="none"/>\n    <field name="Price"', "there is no 'none'"),
        ('name="version" primitiveType="uint16"', 'name="version" primitiveType="uint32"', "its message header is"),
        ('name="class"', 'name="a-b"', "'a-b' is no name that a class or a field can have"),
        ('id="46"', 'id="x"', "invalid literal"),
        ('<message name="list"', '<other name="list"', "mismatched tag"),
        ('length="6"/>', 'length="6" nullValue="32"/>', "char has the null value 32: allowed is 0"),
        ("int8byte", "x", ""),
    ],
)
def test_a_file_that_cannot_be_imported(old: str, new: str, text: str, tmp_path: Path) -> None:
    if not text:
        with pytest.raises(MessageError, match=r"cannot be read as an SBE schema: .*No such file"):
            source_of(tmp_path / "missing.xml")
        return
    assert old in EXCHANGE
    with pytest.raises(MessageError) as caught:
        classes_of(EXCHANGE.replace(old, new, 1), tmp_path)
    assert text in caught.value.message and "\n" not in caught.value.message


def changed(tmp_path: Path, *replacements: tuple[str, str]) -> Schema:
    xml = to_xml(NEW)
    for old, new in replacements:
        assert old in xml
        xml = xml.replace(old, new)
    found: Schema = classes_of(xml, tmp_path).SCHEMA
    return found


def test_what_was_added_breaks_nothing() -> None:
    assert breaks(OLD, NEW) == []
    assert breaks(NEW, NEW) == []


@pytest.mark.parametrize(
    ("replacements", "text"),
    [
        ([('name="account"', 'name="owner"')], "Order.account is missing: keep what old messages have"),
        ([('id="1" version="2"', 'id="4" version="2"')], "the schema's id is 4, it was 1"),
        ([("littleEndian", "bigEndian")], "the byte order is another"),
        ([('name="Order" id="1"', 'name="Order" id="7"')], "Order: the message of id 1 is missing"),
        ([('type="uint32" offset="9"', 'type="int32" offset="9"')], "Order.quantity is 4 bytes at 9"),
        ([('<validValue name="SELL">2<', '<validValue name="SELL">3<')], "Order.side: SELL is 3, it was 2"),
        ([('<validValue name="SELL">2</validValue>', "")], "Order.side: SELL (2) is missing: keep what old messages"),
        ([('name="HIDDEN">9', 'name="HIDDEN">8')], "Everything.flags: HIDDEN is 256, it was 512"),
        ([(' presence="optional" sinceVersion="1"', "")], "Order.quantity is 4 bytes at 9 (0 to 4294967294), it was"),
        ([('name="units"', 'name="cash"')], "Everything.money.units is missing: keep what old messages have"),
        ([('name="legs"', 'name="arms"')], "Order.arms is where legs was: add a group after those that are there"),
    ],
)
def test_what_breaks_old_programs_is_named(replacements: list[tuple[str, str]], text: str, tmp_path: Path) -> None:
    found = breaks(NEW, changed(tmp_path, *replacements))
    assert any(line.startswith(text) for line in found), found


def test_a_renamed_member_of_an_enumeration_breaks_nothing(tmp_path: Path) -> None:
    assert breaks(NEW, changed(tmp_path, ('name="SELL"', 'name="ASK"'))) == []


def test_an_older_version_and_what_is_new_without_a_version(tmp_path: Path) -> None:
    assert "the version is 0, below 2" in breaks(NEW, OLD)
    late = changed(tmp_path, *((f' sinceVersion="{version}"', "") for version in (1, 2)))
    assert breaks(OLD, late) == [
        f"Order.{name} is new: it needs field(since=...) above 0" for name in ("quantity", "urgent", "tags", "trail")
    ]


@message(id=1, version=1)
class Grown:
    """Two numbers that came later."""

    number: UInt32
    known: UInt32 = field(since=1, default=7)
    perhaps: UInt32 | None = field(since=1, default=None)


def test_a_later_number_is_required_where_it_has_a_default_and_optional_where_it_may_be_none() -> None:
    """Which of the two it is decides whether objects that SBE's tool generates read older messages."""
    assert '<field name="known" id="2" type="uint32" offset="4" sinceVersion="1" />' in to_xml(Schema("g", Grown))
    assert 'offset="8" presence="optional" sinceVersion="1" />' in to_xml(Schema("g", Grown))


ODD = """\
<messageSchema package="odd" id="9" version="1">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <enum name="Truth" encodingType="uint8">
      <validValue name="F">0</validValue><validValue name="T">1</validValue>
    </enum>
    <enum name="Side" encodingType="uint8" nullValue="0"><validValue name="BUY">1</validValue></enum>
    <type name="Digest" primitiveType="uint8" length="4"/>
    <composite name="First">
      <enum name="Kind" encodingType="uint8"><validValue name="A">1</validValue></enum>
    </composite>
    <composite name="Other">
      <enum name="Kind" encodingType="uint8"><validValue name="B">1</validValue></enum>
    </composite>
  </types>
  <message name="First" id="1">
    <field name="first" id="1" type="First"/>
    <field name="other" id="2" type="Other"/>
    <field name="side" id="3" type="Side" presence="optional"/>
    <field name="sure" id="4" type="Truth" presence="constant" valueRef="Truth.T"/>
    <field name="digest" id="5" type="Digest" sinceVersion="1"/>
    <field name="late" id="6" type="Other" sinceVersion="1"/>
  </message>
</messageSchema>
"""


def test_types_of_one_name_are_told_apart_and_null_values_are_those_of_the_schema(tmp_path: Path) -> None:
    module = classes_of(ODD, tmp_path)
    older = module.SCHEMA.decode(bytes([3, 0, 1, 0, 9, 0, 0, 0, 1, 1, 0]))
    assert (older.first.Kind.name, older.other.Kind.name, older.side) == ("A", "B", None)
    assert (older.digest, older.late, module.First.sure) == (None, None, True)
    newer = module.SCHEMA.decode(bytes([8, 0, 1, 0, 9, 0, 1, 0, 1, 1, 1, 9, 8, 7, 6, 1]))
    assert (newer.side.name, newer.digest, newer.late.Kind.name) == ("BUY", b"\t\x08\x07\x06", "B")
    assert encode(newer)[8:] == bytes([1, 1, 1, 9, 8, 7, 6, 1])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('name="side"', 'name="first"', "First has two fields or values called first"),
        (
            'name="BUY">1<',
            'name="BUY">1</validValue><validValue name="BUY">2<',
            "Side has two fields or values called BUY",
        ),
        ("</messageSchema>", '<message name="First" id="2"/></messageSchema>', "there are two messages called First"),
    ],
)
def test_names_that_python_cannot_tell_apart_are_refused(old: str, new: str, text: str, tmp_path: Path) -> None:
    assert old in ODD
    with pytest.raises(MessageError, match=text):
        classes_of(ODD.replace(old, new, 1), tmp_path)

"""Schemas as the log keeps them: packed, named by a digest, and read back from bytes that nobody vouches for."""

from __future__ import annotations

import html
import random
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from enum import IntEnum
from hashlib import sha256
from typing import Annotated, Any

import pytest

from ordo.errors import MessageError
from ordo.messages import (
    Array,
    Bytes,
    Chars,
    Fixed,
    Float64,
    Schema,
    UInt8,
    UInt32,
    UInt64,
    composite,
    encode,
    field,
    message,
)
from ordo.service_api.messages import logged
from ordo.service_api.messages.logged import (
    PACKED_BYTES_MAX,
    SCHEMA_BYTES_MAX,
    LoggedSchema,
    PackedSchema,
    describe_conflict,
    extends,
    pack_schema,
    unpack_schema,
)
from ordo.service_api.messages.schema_source import source_of_element
from ordo.service_api.messages.schema_xml import to_xml
from tests.service_api.messages.orders import NEW as ORDERS


class Side(IntEnum):
    BUY = 1
    SELL = 2


@message(id=1)
class Order:
    account: UInt32
    side: Side
    text: str = ""


@message(id=2)
class Ack:
    number: UInt64


@message(id=1, version=1)
class LaterOrder:
    account: UInt32
    side: Side
    price: UInt64 | None = field(since=1, default=None)
    text: str = ""


@message(id=1, version=1)
class OtherOrder:
    account: UInt64
    side: Side
    text: str = ""


@message(id=1, version=1)
class RivalOrder:
    account: UInt32
    side: Side
    quantity: UInt32 | None = field(since=1, default=None)
    text: str = ""


HEADER = ("blockLength", "templateId", "schemaId", "version")
FIRST = Schema("orders", Order, Ack)
LATER = Schema("orders", LaterOrder, Ack)


def packed(xml: str) -> PackedSchema:
    return PackedSchema(sha256(xml.encode()).digest(), zlib.compress(xml.encode()))


@pytest.mark.parametrize("schema", [FIRST, LATER, ORDERS], ids=["first", "later", "orders"])
def test_it_reads_back_and_reads_what_was_written(schema: Schema) -> None:
    found = unpack_schema(*pack_schema(schema))
    assert (found.id, found.version, found.name) == (schema.id, schema.version, schema.name)
    assert describe_conflict(found, schema) == "" and extends(found, schema) and extends(schema, found)
    assert LoggedSchema(96, 0, *pack_schema(schema)).schema is found, "the classes are made once"


def test_its_messages_are_objects_with_the_same_fields() -> None:
    found = unpack_schema(*pack_schema(FIRST)).decode(encode(Order(7, Side.SELL, "note")))
    assert repr(found) == "Order(account=7, side=<Side.SELL: 2>, text='note')"


def test_a_newer_one_extends_and_an_older_one_goes_with_it() -> None:
    assert extends(LATER, FIRST) and not extends(FIRST, LATER)
    assert describe_conflict(LATER, FIRST) == describe_conflict(FIRST, LATER) == ""


def test_a_conflict_names_message_and_field() -> None:
    said = describe_conflict(Schema("orders", OtherOrder, Ack), FIRST)
    assert said.startswith("OtherOrder.account is 8 bytes at 0") and "it was 4 bytes at 0" in said
    assert "schema 1 is in force in version 0" in said and "another schema_id" in said and "\n" not in said
    lost = describe_conflict(Schema("orders", Order), FIRST)
    assert lost == "", "one that lacks a message is of a program of before"
    assert "RivalOrder.price is missing" in describe_conflict(Schema("orders", RivalOrder, Ack), LATER)


def test_what_the_log_cannot_keep_is_refused() -> None:
    @message(id=1)
    class Real:
        price: Annotated[Decimal, Fixed(2, Float64)]

    with pytest.raises(MessageError, match=r"schema real is not the same once it is XML: Real\.price is 8 bytes at 0"):
        pack_schema(Schema("real", Real))


@composite
class Money:
    units: UInt64
    currency: Annotated[str, Chars(3)]


@message(id=1)
class Keyed:
    number: UInt8


@message(id=1, version=1)
class LaterKeyed:
    number: UInt8
    key: Annotated[bytes, Bytes(16)] = field(since=1, default=b"\0" * 16)
    levels: Annotated[tuple[int, ...], Array(UInt8, 2)] = field(since=1, default=(0, 0))
    money: Money = field(since=1, default_factory=lambda: Money(0, "EUR"))


def test_bytes_arrays_and_composites_that_came_later_are_kept_and_are_none_in_older_messages() -> None:
    first, later = Schema("keyed", Keyed), Schema("keyed", LaterKeyed)
    found = unpack_schema(*pack_schema(later))
    assert extends(found, unpack_schema(*pack_schema(first)))
    assert repr(found.decode(encode(Keyed(7)))) == "LaterKeyed(number=7, key=None, levels=None, money=None)"
    whole = LaterKeyed(7, b"0123456789abcdef", (1, 255), Money(3, "CHF"))
    read = found.decode(encode(whole))
    assert repr(read) == repr(whole) and encode(read) == encode(whole)
    read.levels = None
    with pytest.raises(MessageError, match=r"LaterKeyed\.levels is None: allowed are 2 numbers"):
        encode(read)


def test_one_that_is_too_long_is_refused() -> None:
    rng = random.Random(1)
    names = [f"field_{rng.getrandbits(128):x}" for _ in range(800)]
    wide: type = message(id=1)(type("Wide", (), {"__annotations__": dict.fromkeys(names, UInt8)}))
    with pytest.raises(MessageError, match=f"the log takes {SCHEMA_BYTES_MAX} and {PACKED_BYTES_MAX}"):
        pack_schema(Schema("wide", wide))


def test_damage_is_one_error() -> None:
    digest, whole = pack_schema(FIRST)
    rng = random.Random(2)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        with pytest.raises(MessageError):
            unpack_schema(sha256(damaged).digest(), bytes(damaged))
    for length in range(0, len(whole), 7):
        with pytest.raises(MessageError):
            unpack_schema(b"\1" * 32, whole[:length])
    with pytest.raises(MessageError, match="damaged"):
        unpack_schema(b"\0" * 32, whole)
    with pytest.raises(MessageError, match="damaged"):
        unpack_schema(sha256(b"x").digest(), whole + b"more")
    assert unpack_schema(digest, whole).id == 1


def test_what_is_longer_than_anything_that_is_written_is_not_read() -> None:
    digest, packed = pack_schema(Schema("some", Order))
    longer = zlib.compress(zlib.decompress(packed), 0) + bytes(PACKED_BYTES_MAX)
    with pytest.raises(MessageError, match=f"has {len(longer)} bytes: allowed are {PACKED_BYTES_MAX}"):
        unpack_schema(digest, longer)


def test_damaged_bytes_of_a_schema_that_was_read_before_are_refused() -> None:
    digest, packed = pack_schema(Schema("some", Order))
    assert unpack_schema(digest, packed).id == 1
    with pytest.raises(MessageError, match="damaged"):
        unpack_schema(digest, packed[:-9])


def test_xml_that_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = zlib.compress(b" " * (7 << 20), 9)
    with pytest.raises(MessageError, match="damaged"):
        unpack_schema(b"\2" * 32, bomb)


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ('<!DOCTYPE m [<!ENTITY a "b">]><messageSchema/>', "a DOCTYPE, an entity"),
        ('<m xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></m>', "includes files"),
        ("<messageSchema", "cannot be read: ParseError"),
        ("<other/>", "the root element is not messageSchema"),
        ("<a>" * 5000 + "</a>" * 5000, "cannot be read"),
    ],
)
def test_xml_of_strangers_can_do_nothing(xml: str, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        unpack_schema(*packed(xml))


def test_names_of_a_schema_are_no_code() -> None:
    """Each text of a schema is replaced in turn by what would be an expression in the source of its classes."""
    whole = zlib.decompress(pack_schema(ORDERS).packed).decode()
    evil = "__import__(&quot;sys&quot;).modules.setdefault(&quot;ordo_was_run&quot;)"
    refused = 0
    places = [index for index in range(len(whole)) if whole[index : index + 2] == '="']
    try:
        for place in places:
            end = whole.index('"', place + 2)
            try:
                unpack_schema(*packed(f"{whole[: place + 2]}{evil}{whole[end:]}"))
            except MessageError:
                refused += 1
            assert "ordo_was_run" not in sys.modules, whole[place - 20 : end]
        assert 0 < refused < len(places), "descriptions are allowed to be anything"
        eval(html.unescape(evil))
        assert "ordo_was_run" in sys.modules, "which running it would have shown"
    finally:
        sys.modules.pop("ordo_was_run", None)


def test_threads_may_read_the_same_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """One begins to read a schema while another one has not ended to."""
    found = packed(to_xml(Schema("read twice", Order)))
    began, may_end = threading.Event(), threading.Event()

    def wait_once(*given: Any) -> str:
        if not began.is_set():
            began.set()
            assert may_end.wait(60)
        return source_of_element(*given)

    monkeypatch.setattr(logged, "source_of_element", wait_once)
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(unpack_schema, *found)
        assert began.wait(60)
        assert unpack_schema(*found).name == "read twice"
        may_end.set()
        assert reading.result(60).name == "read twice"


def nested(depth: int, leaf: str) -> str:
    """Return a schema whose composites refer twice to one another, with as many values as two to the depth."""
    types = [f'<composite name="C0">{leaf}</composite>']
    types += [
        f'<composite name="C{level}"><ref name="a" type="C{level - 1}"/><ref name="b" type="C{level - 1}"/></composite>'
        for level in range(1, depth + 1)
    ]
    header = "".join(f'<type name="{part}" primitiveType="uint16"/>' for part in HEADER)
    return (
        f'<messageSchema package="p" id="1"><types><composite name="messageHeader">{header}</composite>'
        f'{"".join(types)}</types><message name="M" id="1"><field name="f" id="1" type="C{depth}"/></message>'
        "</messageSchema>"
    )


@pytest.mark.parametrize("leaf", ["", '<type name="v" primitiveType="uint8" presence="constant">1</type>'])
def test_composites_that_have_no_end_of_values_are_refused(leaf: str) -> None:
    """They need no bytes in a message, so that no length bounds them."""
    assert unpack_schema(*packed(nested(10, leaf))).decode(bytes([0, 0, 1, 0, 1, 0, 0, 0])) is not None
    with pytest.raises(MessageError, match="has over 65536 values, with those of composites"):
        unpack_schema(*packed(nested(25, leaf)))

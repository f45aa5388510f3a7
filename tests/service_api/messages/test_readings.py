"""Whether two readings of the same bytes say the same; and decimals whose exponent no int8 has."""

from __future__ import annotations

import struct
import zlib
from decimal import Decimal
from hashlib import sha256
from typing import Annotated

import pytest

from ordo.errors import MessageError
from ordo.follow.log_schemas import LogSchemas
from ordo.messages import Fixed, Float32, Schema, UInt8, encode, field, message
from ordo.service_api.messages.logged import LoggedSchema, pack_schema, unpack_schema
from ordo.service_api.messages.plain import values_of
from ordo.service_api.messages.schema_xml import to_xml


@message(id=1)
class Real:
    x: Float32


@message(id=1, version=1)
class RealY:
    x: Float32
    y: UInt8 | None = field(since=1, default=None)


@message(id=1, version=1)
class RealZ:
    x: Float32
    z: UInt8 | None = field(since=1, default=None)


RealY.__name__ = RealZ.__name__ = "Real"


@message(id=2)
class Flag:
    x: bool


@message(id=2)
class Number:
    x: UInt8


Number.__name__ = "Flag"


@message(id=3)
class Price:
    value: Annotated[Decimal, Fixed(2)]


def schemas(*classes: type) -> LogSchemas:
    """Schemas of services, from service 0 on."""
    return LogSchemas(LoggedSchema(96, index, *pack_schema(Schema("some", one))) for index, one in enumerate(classes))


def test_readings_of_other_types_differ() -> None:
    """Python's True is equal to 1."""
    with pytest.raises(MessageError, match="services 0 and 1 read it differently, as Flag and Flag"):
        schemas(Flag, Number).read(encode(Flag(True)), 960)


def test_fields_that_the_messages_version_does_not_have_make_no_difference() -> None:
    known = schemas(RealY, RealZ)
    assert values_of(known.read(encode(Real(1.5)), 960)) == {"x": 1.5, "y": None}
    with pytest.raises(MessageError, match="services 0 and 1 read it differently"):
        known.read(encode(RealY(1.5, 2)), 960)


def test_nan_is_the_same_as_nan() -> None:
    payload = encode(Real(1.5))[:8] + struct.pack("<f", float("nan"))
    assert str(values_of(schemas(RealY, RealZ).read(payload, 960))["x"]) == "nan"


@pytest.mark.parametrize("digits", [128, 1_000_000_000])
def test_a_decimal_that_no_exponent_can_say_is_refused_where_its_schema_is_read(digits: int) -> None:
    xml = to_xml(Schema("some", Price)).replace(">-2</", f">-{digits}</").encode()
    with pytest.raises(MessageError, match=rf"exponent -{digits} of .*: an int8 has none below -127"):
        unpack_schema(sha256(xml).digest(), zlib.compress(xml, 9))


@pytest.mark.parametrize("scale", [-1, 128, 1_000_000_000])
def test_a_decimal_that_no_exponent_can_say_is_refused_where_its_class_is_made(scale: int) -> None:
    made = type("Precise", (), {"__annotations__": {"value": Annotated[Decimal, Fixed(scale)]}})
    with pytest.raises(MessageError, match=rf"Precise.value: Fixed\({scale}\): allowed are 0 to 127 digits"):
        message(id=3)(made)

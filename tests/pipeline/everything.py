"""An SBE schema with every construct that exchanges use, and messages of it laid out by hand."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, field

SCHEMA = """\
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="everything" id="77" version="3"
    byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
      <type name="numGroups" primitiveType="uint16"/>
      <type name="numVarDataFields" primitiveType="uint16"/>
    </composite>
    <composite name="groupSizeEncoding">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="numInGroup" primitiveType="uint8" offset="4"/>
    </composite>
    <composite name="varText">
      <type name="length" primitiveType="uint8"/>
      <type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/>
    </composite>
    <enum name="Side" encodingType="char">
      <validValue name="BUY">B</validValue>
      <validValue name="SELL">S</validValue>
    </enum>
    <enum name="Kind" encodingType="uint8">
      <validValue name="LIMIT">1</validValue>
      <validValue name="MARKET">2</validValue>
    </enum>
    <set name="Flags" encodingType="uint16">
      <choice name="post">0</choice>
      <choice name="hidden">9</choice>
    </set>
    <type name="Code" primitiveType="char" presence="optional"/>
    <type name="Name" primitiveType="char" length="4" presence="optional"/>
    <type name="Sized" primitiveType="uint16" presence="optional" nullValue="0"/>
    <type name="Price" primitiveType="double" presence="optional"/>
    <type name="Market" primitiveType="uint8" presence="constant" valueRef="Kind.MARKET"/>
    <type name="Venue" primitiveType="char" length="4" presence="constant">XLON</type>
    <composite name="Money">
      <type name="mantissa" primitiveType="int64" presence="optional"/>
      <type name="exponent" primitiveType="int8" presence="constant">-7</type>
      <type name="currency" primitiveType="char" length="3" offset="10"/>
    </composite>
  </types>
  <sbe:message name="Everything" id="1">
    <field name="code" id="1" type="Code"/>
    <field name="name" id="2" type="Name"/>
    <field name="sized" id="3" type="Sized" offset="8"/>
    <field name="price" id="4" type="Price"/>
    <field name="market" id="5" type="Market"/>
    <field name="constantSide" id="6" type="Side" presence="constant" valueRef="Side.SELL"/>
    <field name="constantNumber" id="16" type="uint8" presence="constant" valueRef="Kind.LIMIT"/>
    <field name="venue" id="7" type="Venue"/>
    <field name="side" id="8" type="Side"/>
    <field name="kind" id="9" type="Kind"/>
    <field name="flags" id="10" type="Flags"/>
    <field name="money" id="11" type="Money"/>
    <field name="late" id="12" type="int32" presence="optional" sinceVersion="2"/>
    <group name="legs" id="13" dimensionType="groupSizeEncoding">
      <field name="ratio" id="14" type="int8"/>
      <field name="legSide" id="17" type="Side"/>
    </group>
    <data name="text" id="15" type="varText"/>
  </sbe:message>
</sbe:messageSchema>
"""
"""Header and dimension have parts that they need not have, offsets leave gaps, constants are given in three ways."""
VERSION = 3
LATE_SINCE = 2


@dataclass(frozen=True)
class Everything:
    """Values of one message; the defaults are no null values."""

    version: int = VERSION
    code: bytes = b"A"
    name: bytes = b"AB"
    sized: int = 5
    price: float = 1.5
    side: bytes = b"S"
    kind: int = 2
    flags: int = 0x201
    mantissa: int = 123
    currency: bytes = b"EUR"
    late: int = 7
    legs: tuple[tuple[int, bytes], ...] = field(default=((1, b"B"), (-2, b"S")))
    text: bytes = b"hi"

    def encode(self, order: str = "<") -> bytes:
        """Return the message with its header, in little (`<`) or big (`>`) endian."""
        block = struct.pack(f"{order}c4s3xHdcBHq2x3s", self.code, self.name, self.sized, self.price, self.side,
                            self.kind, self.flags, self.mantissa, self.currency)  # fmt: skip
        if self.version >= LATE_SINCE:
            block += struct.pack(order + "i", self.late)
        header = struct.pack(order + "6H", len(block), 1, 77, self.version, 1, 1)
        rows = b"".join(struct.pack("bc", *leg) for leg in self.legs)
        return header + block + self._dimension(order) + rows + bytes([len(self.text)]) + self.text

    def _dimension(self, order: str) -> bytes:
        return struct.pack(order + "H2xB", 2, len(self.legs))


NULLS = Everything(
    code=b"\0", name=b"", sized=0, price=math.nan, side=b"\0", kind=255, mantissa=-(2**63), late=-(2**31), legs=()
)


def any_message(generator: random.Random) -> Everything:
    """Return a message of random values, a tenth of them null."""

    def one(value: object, null: object) -> object:
        return null if generator.random() < 0.1 else value

    sides = (b"B", b"S", b"\0")
    legs = tuple((generator.randrange(-128, 128), generator.choice(sides)) for _ in range(generator.randrange(4)))
    values = {
        "version": generator.choice((LATE_SINCE - 1, LATE_SINCE, VERSION)),
        "code": one(generator.choice((b"A", b"z")), NULLS.code),
        "name": one(generator.choice((b"A", b"ABCD", b"XY")), NULLS.name),
        "sized": one(generator.randrange(1, 65536), NULLS.sized),
        "price": one(generator.randrange(-(10**6), 10**6) / 8, NULLS.price),
        "side": generator.choice(sides),
        "kind": generator.choice((1, 2, NULLS.kind)),
        "flags": generator.choice((0, 1, 0x200, 0x201)),
        "mantissa": one(generator.randrange(-(2**62), 2**62), NULLS.mantissa),
        "late": one(generator.randrange(-(2**30), 2**30), NULLS.late),
        "legs": legs,
        "text": generator.choice((b"", b"hi", "grün".encode())),
    }
    return Everything(**values)  # type: ignore[arg-type]

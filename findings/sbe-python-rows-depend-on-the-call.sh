#!/usr/bin/env bash
# Two libraries on PyPI read messages of SBE by its XML schema: sbe 0.4.3, by `decode` (a dictionary of all) or by `wrap`
# (fields as they are asked for, its README's way for speed), and sbedecoder 0.1.10, made for CME's feed.
#
# The surprise: which rows and which nulls a message has depends on the call, in one and the same library, and nothing
# fails. sbe's `wrap` looks for a message's second group without counting the header of the first, so it takes the end of
# the first group's last row for a header: here the second group is empty, elsewhere it has rows that nobody sent. It also
# gives the raw null values that `decode` gives as None. sbedecoder yields one object again and again: rows that are read
# in the loop are right, and rows that are kept (`list`, `sorted`, two at a time) all have the values of the last. And a
# null value of 0 is none there, for it is asked for with `if`.
#
# Seen with: sbe 0.4.3, sbedecoder 0.1.10, CPython 3.11; lots is null (its null value is 0), level too (65535):
#                          lots   level   legs    fills
#   sent                   null   null    1 2     100 200
#   sbe, decode            None   None    1 2     100 200
#   sbe, wrap              0      65535   1 2     none
#   sbedecoder, in a loop  0      None    1 2     100 200
#   sbedecoder, by list    0      None    2 2     200 200
#
# What follows: with sbe use `decode` where messages have more than one group, and with sbedecoder copy the values of a row
# before the next one is asked for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check sbe==0.4.3 sbedecoder==0.1.10

cat >report.xml <<'XML'
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="report" id="7" version="0" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <composite name="groupSizeEncoding">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="numInGroup" primitiveType="uint16"/>
    </composite>
    <type name="Number" primitiveType="uint32"/>
    <type name="Lots" primitiveType="uint16" presence="optional" nullValue="0"/>
    <type name="Level" primitiveType="uint16" presence="optional" nullValue="65535"/>
  </types>
  <sbe:message name="Report" id="1" blockLength="4">
    <field name="lots" id="1" type="Lots"/>
    <field name="level" id="2" type="Level"/>
    <group name="legs" id="3" dimensionType="groupSizeEncoding"><field name="ratio" id="4" type="Number"/></group>
    <group name="fills" id="5" dimensionType="groupSizeEncoding"><field name="price" id="6" type="Number"/></group>
  </sbe:message>
</sbe:messageSchema>
XML
cat >ask.py <<'PYTHON'
import struct

import sbe
from sbedecoder import SBEMessage, SBESchema

MESSAGE = struct.pack("<HHHHHH", 4, 1, 7, 0, 0, 65535)
MESSAGE += struct.pack("<HHII", 4, 2, 1, 2) + struct.pack("<HHII", 4, 2, 100, 200)


def say(what, lots, level, legs, fills):
    print(f"{what}: {lots} {level} {list(legs)} {list(fills)}")


with open("report.xml") as file:
    schema = sbe.Schema.parse(file)
value = schema.decode(MESSAGE).value
say("sbe, decode", value["lots"], value["level"], (row["ratio"] for row in value["legs"]), (row["price"] for row in value["fills"]))
body = schema.wrap(MESSAGE).body
say("sbe, wrap", body["lots"], body["level"], (row["ratio"] for row in body["legs"]), (row["price"] for row in body["fills"]))

schema = SBESchema(include_message_size_header=False)
schema.parse("report.xml")
message = SBEMessage.parse_message(schema, MESSAGE, 0)
values = {field.name: field.value for field in message.fields}
for what, rows_of in (("in a loop", iter), ("by list", list)):
    legs, fills = (rows_of(group.repeating_groups) for group in message.groups)
    legs, fills = (row.ratio.value for row in legs), (row.price.value for row in fills)
    say(f"sbedecoder, {what}", values["lots"], values["level"], legs, fills)
PYTHON

seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='sbe, decode: None None [1, 2] [100, 200]
sbe, wrap: 0 65535 [1, 2] []
sbedecoder, in a loop: 0 None [1, 2] [100, 200]
sbedecoder, by list: 0 None [2, 2] [200, 200]'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

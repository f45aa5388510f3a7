#!/usr/bin/env bash
# A program with version 1 of an SBE schema reads a message of version 0, which is what versions are for: fields that are
# newer than the message are then absent. What a program gets for them depends on which of the targets of SBE's own tool
# (sbe-all 1.38.1) it was generated with, and on what it had read before.
#
# The surprise: only Java's codecs answer absent for every type. C++ does so for numbers and enumerations; for sets, and
# for a composite that another message of the schema has from the start, it returns the bytes that come next, here a
# piece of the text (without that other message it is the null value). So does Java's own JsonPrinter, for numbers of a required field as well, in the same process in
# which the codec is right. Go resets numbers and leaves all the rest as it was: an object that is used again, as its
# Decode is made for (it keeps the slices), has the side, the marks, the price and the memo of the message before. A new
# object has zeros there, and with the range check on, Go refuses the old message for a side that it does not have.
#
# Seen with: sbe-all 1.38.1 on JDK 17, GCC 12, Go 1.26; the message before had side SELL, price 1999, memo "memo":
#   field (version 1)   java         json         c++          go, new object   go, used object
#   lots, uint32        4294967295   1769144336   4294967295   4294967295       4294967295
#   side, enum          NULL_VAL     "null"       NULL_VALUE   0                2 (SELL)
#   marks, set          null         LATE         116          none             the two of before
#   price, composite    null         544105829    544105829    0                1999
#   memo, var data      empty        empty        empty        empty            memo
#
# What follows: in Go and C++ ask `InActingVersion` before each such field; in Go read each message into a new object, and
# without the range check while messages of older versions are about. Give new fields presence="optional" for the JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn -q -B dependency:copy -Dartifact=uk.co.real-logic:sbe-all:1.38.1 -DoutputDirectory=. >mvn.txt || { cat mvn.txt; exit 1; }

cat >tick.xml <<'XML'
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="tick" id="6" version="1" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <composite name="varText">
      <type name="length" primitiveType="uint16"/>
      <type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/>
    </composite>
    <composite name="Price"><type name="cents" primitiveType="uint32"/></composite>
    <enum name="Side" encodingType="uint8">
      <validValue name="BUY">1</validValue>
      <validValue name="SELL">2</validValue>
    </enum>
    <set name="Marks" encodingType="uint8"><choice name="LATE">2</choice></set>
  </types>
  <sbe:message name="Close" id="1"><field name="price" id="1" type="Price"/></sbe:message>
  <sbe:message name="Tick" id="2">
    <field name="number" id="1" type="uint32"/>
    <field name="lots" id="2" type="uint32" sinceVersion="1"/>
    <field name="side" id="3" type="Side" sinceVersion="1"/>
    <field name="marks" id="4" type="Marks" sinceVersion="1"/>
    <field name="price" id="5" type="Price" sinceVersion="1"/>
    <data name="text" id="6" type="varText"/>
    <data name="memo" id="7" type="varText" sinceVersion="1"/>
  </sbe:message>
</sbe:messageSchema>
XML
open=--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED
for language in java golang cpp; do
    java "$open" -Dsbe.target.language=$language -Dsbe.output.dir=. -jar sbe-all-1.38.1.jar tick.xml
done
# Version 1 with all fields, then version 0, which has number and text alone.
python3 - <<'PYTHON'
import struct

text, memo = struct.pack("<H", 16) + b"sixteen letters!", struct.pack("<H", 4) + b"memo"
new = struct.pack("<HHHHIIBBI", 14, 2, 6, 1, 1, 500, 2, 3, 1999) + text + memo
old = struct.pack("<HHHHI", 4, 2, 6, 0, 2) + text
open("new.bin", "wb").write(new)
open("old.bin", "wb").write(old)
PYTHON

cat >Ask.java <<'JAVA'
import java.io.BufferedInputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.agrona.concurrent.UnsafeBuffer;
import tick.MessageHeaderDecoder;
import tick.TickDecoder;
import uk.co.real_logic.sbe.json.JsonPrinter;
import uk.co.real_logic.sbe.xml.IrGenerator;
import uk.co.real_logic.sbe.xml.ParserOptions;
import uk.co.real_logic.sbe.xml.XmlSchemaParser;

public class Ask {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of("old.bin"));
        TickDecoder tick = new TickDecoder().wrapAndApplyHeader(new UnsafeBuffer(bytes), 0, new MessageHeaderDecoder());
        System.out.printf("java: lots %d side %s marks %s price %s text %s memo (%s)%n",
            tick.lots(), tick.side(), tick.marks(), tick.price(), tick.text(), tick.memo());
        var schema = new BufferedInputStream(Files.newInputStream(Path.of("tick.xml")));
        var parsed = XmlSchemaParser.parse(schema, ParserOptions.builder().stopOnError(true).build());
        var json = new StringBuilder();
        new JsonPrinter(new IrGenerator().generate(parsed)).print(ByteBuffer.wrap(bytes), json);
        System.out.println("json: " + json.toString().replaceAll("\\s+", ""));
    }
}
JAVA
cat >ask.cpp <<'CPP'
#include <fstream>
#include <iostream>
#include <iterator>
#include "tick/MessageHeader.h"
#include "tick/Tick.h"

int main() {
    std::ifstream file("old.bin", std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    tick::MessageHeader header(bytes.data(), bytes.size());
    tick::Tick tick;
    tick.wrapForDecode(bytes.data(), 8, header.blockLength(), header.version(), bytes.size());
    std::cout << "c++: lots " << tick.lots() << " side " << tick.side() << " marks " << int(tick.marks().rawValue())
              << " price " << tick.price().cents() << " text " << tick.getTextAsString() << " memo ("
              << tick.getMemoAsString() << ")\n";
}
CPP
mkdir go
cat >go/go.mod <<'GO'
module ask

go 1.21
GO
mkdir go/tick && mv tick/*.go go/tick
cat >go/ask.go <<'GO'
package main

import (
	"ask/tick"
	"bytes"
	"fmt"
	"os"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func read(name string, message *tick.Tick, check bool) error {
	data, err := os.ReadFile(name)
	must(err)
	coder, in, header := tick.NewSbeGoMarshaller(), bytes.NewBuffer(data), tick.SbeGoMessageHeader{}
	must(header.Decode(coder, in))
	return message.Decode(coder, in, header.Version, header.BlockLength, check)
}

func say(name string, t tick.Tick) {
	marks := 0
	for bit, is := range t.Marks {
		if is {
			marks |= 1 << bit
		}
	}
	fmt.Printf("%s: lots %d side %d marks %d price %d text %s memo (%s)\n", name, t.Lots, t.Side, marks,
		t.Price.Cents, string(t.Text), string(t.Memo))
}

func main() {
	var fresh, used, checked tick.Tick
	must(read("old.bin", &fresh, false))
	say("go, new object", fresh)
	must(read("new.bin", &used, true))
	must(read("old.bin", &used, true))
	say("go, used object", used)
	fmt.Println("go, range check:", read("old.bin", &checked, true))
}
GO
javac -nowarn -cp sbe-all-1.38.1.jar:. Ask.java tick/*.java
g++ -std=c++17 -w -I. ask.cpp -o ask-cpp
(cd go && GOTOOLCHAIN=local go build -o ../ask-go .)
seen=$(
    java "$open" -cp sbe-all-1.38.1.jar:. Ask
    ./ask-cpp
    ./ask-go
)
echo "$seen"
expected='java: lots 4294967295 side NULL_VAL marks null price null text sixteen letters! memo ()
json: {"number":2,"lots":1769144336,"side":"null","marks":{"LATE":true},"price":{"cents":544105829},"text":"sixteenletters!","memo":""}
c++: lots 4294967295 side NULL_VALUE marks 116 price 544105829 text sixteen letters! memo ()
go, new object: lots 4294967295 side 0 marks 0 price 0 text sixteen letters! memo ()
go, used object: lots 4294967295 side 2 marks 3 price 1999 text sixteen letters! memo (memo)
go, range check: Range check failed on Side, unknown enumeration value 0'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

#!/usr/bin/env bash
# SBE's own tool (sbe-all 1.38.1) also generates plain objects for messages, "DTOs", with
# -Dsbe.java.generate.dtos=true and -Dsbe.cpp.generate.dtos=true: they hold the values of a whole message, where a codec
# points into a buffer. Both check each value that they are given against the range of its type.
#
# The surprise: the objects go by other rules than the codecs that they are made from, beside which they stand.
# - A field that a newer version added is set to its null value when an older message is read, and then checked. So an
#   object refuses every older message if the field is a required number (here uint32), in Java and in C++, and whoever
#   reads a log from its beginning stops there. The codecs read these messages.
# - In Java a number that nobody has set is 0, also where it is optional: what was left out is sent as a price of 0 and
#   read as one by all. In C++ it is null.
# - In C++ an optional number is a std::optional, and has no value where it is null, but for a double: its null value is
#   NaN, which the object looks for by comparing, so that an absent price has a value, and sums are NaN.
#
# Seen with: sbe-all 1.38.1 on JDK 17, GCC 12; Trade has a required uint32 since version 1, Quote an optional one:
#                                       Java                            C++
#   Trade of version 0, codec           4294967295                      4294967295
#   Trade of version 0, object          IllegalArgumentException        std::invalid_argument
#   Quote of version 0, object          4294967295                      no value
#   int64 and double are null, read     -9223372036854775808 and NaN    no value, and the value NaN
#   int64 and double not set, sent      0 and 0.0                       null and null
#
# What follows: make fields that a newer version adds presence="optional" where such objects are used. In Java set each
# optional field of a new object, to its null value if need be (`TickDecoder.centsNullValue()`), and in C++ ask
# std::isnan, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
artifact=uk.co.real-logic:sbe-all:1.38.1
mvn -q -B dependency:copy -Dartifact=$artifact -DoutputDirectory=. >mvn.txt || { cat mvn.txt; exit 1; }

cat >tick.xml <<'XML'
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="tick" id="7" version="1">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <type name="Lots" primitiveType="uint32" presence="optional"/>
    <type name="Cents" primitiveType="int64" presence="optional"/>
    <type name="Price" primitiveType="double" presence="optional"/>
  </types>
  <sbe:message name="Tick" id="1">
    <field name="cents" id="1" type="Cents"/>
    <field name="price" id="2" type="Price"/>
  </sbe:message>
  <sbe:message name="Trade" id="2">
    <field name="number" id="1" type="uint32"/>
    <field name="lots" id="2" type="uint32" sinceVersion="1"/>
  </sbe:message>
  <sbe:message name="Quote" id="3">
    <field name="number" id="1" type="uint32"/>
    <field name="lots" id="2" type="Lots" sinceVersion="1"/>
  </sbe:message>
</sbe:messageSchema>
XML
open=--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED
for language in java cpp; do
    java "$open" -Dsbe.target.language=$language -Dsbe.$language.generate.dtos=true -Dsbe.output.dir=. \
        -jar sbe-all-1.38.1.jar tick.xml
done

cat >Ask.java <<'JAVA'
import org.agrona.concurrent.UnsafeBuffer;
import tick.*;

public class Ask {
    public static void main(String[] arguments) {
        // Messages of version 0 have a number alone, in a block of 4 bytes.
        UnsafeBuffer old = new UnsafeBuffer(new byte[8]);
        old.putInt(0, 5);
        System.out.println("java: codec, Trade of version 0: lots " + new TradeDecoder().wrap(old, 0, 4, 0).lots());
        try {
            System.out.println("java: Trade of version 0: lots " + TradeDto.decodeFrom(old, 0, 4, 0).lots());
        } catch (IllegalArgumentException error) {
            System.out.println("java: Trade of version 0: " + error.getMessage());
        }
        System.out.println("java: Quote of version 0: lots " + QuoteDto.decodeFrom(old, 0, 4, 0).lots());

        UnsafeBuffer absent = new UnsafeBuffer(new byte[16]);
        new TickEncoder().wrap(absent, 0).cents(TickEncoder.centsNullValue()).price(TickEncoder.priceNullValue());
        TickDto read = TickDto.decodeFrom(absent, 0, 16, 1);
        System.out.println("java: null, read: cents " + read.cents() + " price " + read.price());
        TickDecoder sent = new TickDecoder().wrap(new UnsafeBuffer(TickDto.bytes(new TickDto())), 0, 16, 1);
        System.out.println("java: not set, sent: cents " + sent.cents() + " price " + sent.price());
    }
}
JAVA
cat >ask.cpp <<'CPP'
#include <cmath>
#include <iostream>
#include "tick/QuoteDto.h"
#include "tick/TickDto.h"
#include "tick/TradeDto.h"

template <typename Value> std::string show(const std::optional<Value> &value) {
    return value.has_value() ? "has a value, " + std::to_string(*value) : "has none";
}

int main() {
    char old[8] = {5};
    tick::Trade trade;
    trade.wrapForDecode(old, 0, 4, 0, sizeof(old));
    std::cout << "c++: codec, Trade of version 0: lots " << trade.lots() << "\n";
    try {
        auto read = tick::TradeDto::decodeFrom(old, 0, 4, 0, sizeof(old));
        std::cout << "c++: Trade of version 0: lots " << read.lots() << "\n";
    } catch (const std::invalid_argument &error) {
        std::cout << "c++: Trade of version 0: " << error.what() << "\n";
    }
    auto quote = tick::QuoteDto::decodeFrom(old, 0, 4, 0, sizeof(old));
    std::cout << "c++: Quote of version 0: lots " << show(quote.lots()) << "\n";

    char absent[16] = {};
    tick::Tick null;
    null.wrapForEncode(absent, 0, sizeof(absent));
    null.cents(tick::Tick::centsNullValue()).price(tick::Tick::priceNullValue());
    tick::TickDto read = tick::TickDto::decodeFrom(absent, 0, 16, 1, sizeof(absent));
    std::cout << "c++: null, read: cents " << show(read.cents()) << " price " << show(read.price()) << "\n";
    char out[16] = {};
    tick::TickDto::encodeInto(tick::TickDto{}, out, 0, sizeof(out));
    tick::Tick sent;
    sent.wrapForDecode(out, 0, 16, 1, sizeof(out));
    std::cout << "c++: not set, sent: cents " << sent.cents() << " price " << sent.price() << "\n";
}
CPP
javac -nowarn -cp sbe-all-1.38.1.jar:. Ask.java tick/*.java
g++ -std=c++17 -w -I. ask.cpp -o ask-cpp
seen=$(
    java "$open" -cp sbe-all-1.38.1.jar:. Ask
    ./ask-cpp
)
echo "$seen"
expected='java: codec, Trade of version 0: lots 4294967295
java: Trade of version 0: lots: value is above allowed maximum: 4294967295
java: Quote of version 0: lots 4294967295
java: null, read: cents -9223372036854775808 price NaN
java: not set, sent: cents 0 price 0.0
c++: codec, Trade of version 0: lots 4294967295
c++: Trade of version 0: lots: value is greater than allowed maximum: 4294967295
c++: Quote of version 0: lots has none
c++: null, read: cents has none price has a value, nan
c++: not set, sent: cents -9223372036854775808 price nan'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

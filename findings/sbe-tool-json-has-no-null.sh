#!/usr/bin/env bash
# SBE's own Java tool (sbe-all 1.38.1, uk.co.real_logic.sbe.json.JsonPrinter) prints an encoded message as JSON. JSON has
# a null, and SBE says which value of an optional field means null, yet the printer never writes one. What stands for an
# absent value depends on the type of the field:
#
#   optional double (NaN)         the string "0/0"        a number field that is suddenly a string
#   enum                          the string "null"       not to be told from a value that is called null
#   optional int32                -2147483648             the raw null value
#   nullValue="0" on a uint16     0
#   optional char                 the string of U+0000
#   field newer than the message  the raw null value      the same as an explicit null
#
# Seen with: sbe-all 1.38.1 on JDK 17.
#
# What follows: JSON made by this printer cannot be summed or loaded into columns of numbers as it is; who needs nulls
# compares with the null values of the schema, and takes "0/0" for an absent float or double.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn -q -B dependency:copy -Dartifact=uk.co.real-logic:sbe-all:1.38.1 -DoutputDirectory=. >mvn.txt || { cat mvn.txt; exit 1; }

cat >quote.xml <<'XML'
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="quote" id="9" version="1"
    byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <enum name="Side" encodingType="uint8"><validValue name="BUY">1</validValue></enum>
    <type name="Lots" primitiveType="uint16" presence="optional" nullValue="0"/>
    <type name="Mark" primitiveType="char" presence="optional"/>
  </types>
  <sbe:message name="Quote" id="1">
    <field name="price" id="1" type="double" presence="optional"/>
    <field name="side" id="2" type="Side"/>
    <field name="level" id="3" type="int32" presence="optional"/>
    <field name="lots" id="4" type="Lots"/>
    <field name="mark" id="5" type="Mark"/>
    <field name="late" id="6" type="int32" presence="optional" sinceVersion="1"/>
  </sbe:message>
</sbe:messageSchema>
XML

cat >Print.java <<'JAVA'
import java.io.BufferedInputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import uk.co.real_logic.sbe.json.JsonPrinter;
import uk.co.real_logic.sbe.xml.IrGenerator;
import uk.co.real_logic.sbe.xml.ParserOptions;
import uk.co.real_logic.sbe.xml.XmlSchemaParser;

public class Print {
    static final int ABSENT = Integer.MIN_VALUE;

    public static void main(String[] args) throws Exception {
        var schema = new BufferedInputStream(Files.newInputStream(Path.of("quote.xml")));
        var parsed = XmlSchemaParser.parse(schema, ParserOptions.builder().stopOnError(true).build());
        var printer = new JsonPrinter(new IrGenerator().generate(parsed));
        print(printer, message(1, 1.5, 1, 7, 3, 'Q').putInt(4));
        print(printer, message(1, Double.NaN, 255, ABSENT, 0, 0).putInt(ABSENT));
        print(printer, message(0, Double.NaN, 255, ABSENT, 0, 0));
    }

    static ByteBuffer message(int version, double price, int side, int level, int lots, int mark) {
        ByteBuffer buffer = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN);
        buffer.putShort((short) (version == 0 ? 16 : 20)).putShort((short) 1).putShort((short) 9);
        buffer.putShort((short) version).putDouble(price).put((byte) side).putInt(level).putShort((short) lots);
        return buffer.put((byte) mark);
    }

    static void print(JsonPrinter printer, ByteBuffer message) {
        StringBuilder json = new StringBuilder();
        printer.print(message.flip(), json);
        System.out.println(json.toString().replaceAll("\\s+", ""));
    }
}
JAVA

cat >expected.txt <<'TEXT'
{"price":1.5,"side":"BUY","level":7,"lots":3,"mark":"Q","late":4}
{"price":"0/0","side":"null","level":-2147483648,"lots":0,"mark":"\u0000","late":-2147483648}
{"price":"0/0","side":"null","level":-2147483648,"lots":0,"mark":"\u0000","late":-2147483648}
TEXT
open=--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED
javac -cp sbe-all-1.38.1.jar Print.java
java "$open" -cp sbe-all-1.38.1.jar:. Print | tee seen.txt
diff expected.txt seen.txt && echo "as described"

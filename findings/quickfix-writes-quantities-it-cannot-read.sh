#!/usr/bin/env bash
# QuickFIX's Python package (quickfix 1.16.0) writes doubles with 15 digits. From 1e15 on it writes an exponent.
#
# The surprise: FIX has no exponents in its float, quantity, price and amount fields, and QuickFIX's own reader refuses what
# its writer made: IncorrectDataFormat. A million billion is no large number where the unit is small: tokens by their
# smallest part, amounts in rial or dong. Below it, the 16th digit is gone without a word: a quantity of 123,456,789.12345679
# becomes 123456789.123457, so what two sides add up differs. Very small values are written as "0.", which reads as zero.
#
# Seen with: quickfix 1.16.0, CPython 3.11, Linux x86-64; a quantity that is set, written, and read by the same package:
#   100000000000000.0     53=100000000000000    100000000000000.0
#   1000000000000000.0    53=1e15               IncorrectDataFormat
#   1.23456789e+18        53=1.23456789e18      IncorrectDataFormat
#   123456789.12345679    53=123456789.123457   123456789.123457
#   1e-16                 53=0.                 0.0
#
# What follows: write such fields as text (`setField(53, "1000000000000000")`), which passes and is read without loss. Behind
# a FIX gateway carry quantities as integers with a fixed scale (`Decimal` fields of Ordo's messages are), never as doubles.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check quickfix==1.16.0

cat >"$folder/seen.py" <<'PYTHON'
import quickfix


def written(message):
    return message.toString().split("\x0153=")[1].split("\x01")[0]


def read(message):
    field = quickfix.Quantity()
    try:
        quickfix.Message(message.toString(), False).getField(field)
        return field.getValue()
    except quickfix.IncorrectDataFormat:
        return "IncorrectDataFormat"


def of_double(value):
    message = quickfix.Message()
    message.setField(quickfix.Quantity(value))
    return written(message), read(message)


def of_text(text):
    message = quickfix.Message()
    message.setField(53, text)
    return written(message), read(message)


expected = {
    1e14: ("100000000000000", 1e14),
    1e15: ("1e15", "IncorrectDataFormat"),
    1.23456789e18: ("1.23456789e18", "IncorrectDataFormat"),
    123456789.12345679: ("123456789.123457", 123456789.123457),
    1e-16: ("0.", 0.0),
}
seen = {value: of_double(value) for value in expected}
for value, (text, back) in seen.items():
    print(f"{value!r:21} 53={text:20} {back}")
assert seen == expected
assert of_text("1000000000000000") == ("1000000000000000", 1e15)
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
echo "as seen before: from 1e15 on, what is written is refused by the same package's reader"

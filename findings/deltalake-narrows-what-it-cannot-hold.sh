#!/usr/bin/env bash
# deltalake 1.6.6 (delta-rs) takes any Arrow table. Delta has signed integers and microseconds alone, so it converts:
# nanoseconds to microseconds, without a word, and unsigned integers to signed ones of the same width, not of the next.
#
# The surprise: of two columns that Delta cannot hold as they are, one loses its last three digits and is stored, and
# the other is refused as soon as one value is in the upper half of its range: 255 in a uint8, although Delta's own
# `integer` has room for it. Which of the two happens follows from the type, and whether a table can be written at all
# from the values of the day. The error names the cast the other way round (from Int8 to UInt8).
#
# Seen with: deltalake 1.6.6, pyarrow 26.0.1, CPython 3.11:
#   timestamp[ns] ...123456789   stored as timestamp_ntz, read back as ...123456000
#   uint8 [1, 127]               stored as byte
#   uint8 [1, 255]               refused: from Int8 to UInt8
#   uint64 [1, 2]                stored as long
#   uint64 [1, 2**63]            refused: from Int64 to UInt64
#
# What follows: widen unsigned columns before they are written (uint32 to int64, uint64 to decimal(20, 0)), and keep
# nanoseconds as an int64 column beside the timestamp.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1

cat >ask.py <<'PYTHON'
import re

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

COLUMNS = (
    ("timestamp[ns] ...123456789", pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))),
    ("uint8 [1, 127]", pa.array([1, 127], pa.uint8())),
    ("uint8 [1, 255]", pa.array([1, 255], pa.uint8())),
    ("uint64 [1, 2]", pa.array([1, 2], pa.uint64())),
    ("uint64 [1, 2**63]", pa.array([1, 2**63], pa.uint64())),
)
for number, (name, column) in enumerate(COLUMNS):
    path = f"table{number}"
    try:
        write_deltalake(path, pa.table({"x": column}))
    except Exception as error:
        print(name, "refused:", re.search(r"from Int\d+ to UInt\d+", str(error))[0])
        continue
    table = DeltaTable(path)
    back = pa.array(pa.table(table.to_pyarrow_table()).column("x").to_pylist())
    kind = re.search(r'"(.*)"', str(table.schema().fields[0].type))[1]
    same = back.cast(pa.int64()).to_pylist() == column.cast(pa.int64()).to_pylist()
    print(name, "stored as", kind + ("" if same else f", read back as {back.cast(pa.timestamp('ns')).cast(pa.int64())[0]}"))
PYTHON

seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='timestamp[ns] ...123456789 stored as timestamp_ntz, read back as 1700000000123456000
uint8 [1, 127] stored as byte
uint8 [1, 255] refused: from Int8 to UInt8
uint64 [1, 2] stored as long
uint64 [1, 2**63] refused: from Int64 to UInt64'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

#!/usr/bin/env bash
# In DuckDB 2.0.1 the difference of two timestamps is an INTERVAL, of microseconds even where both were TIMESTAMP_NS.
# COPY to Parquet has a type for it, Parquet's own INTERVAL, which has three unsigned numbers: months, days, milliseconds.
#
# The surprise: latencies below a millisecond are stored as nothing, and all others are cut, so that six calls of 900
# microseconds on average took 500 once they have been to Parquet; a CSV file has them whole. Where the clocks of two
# machines disagree and one latency is negative, the whole COPY is refused. And what DuckDB takes for a duration there has
# 12 bytes for pyarrow, while a duration that pyarrow wrote comes to DuckDB as a BIGINT without its unit.
#
# Seen with: DuckDB 2.0.1, pyarrow 26.0.1, CPython 3.11; latencies of 400, 600, 800, 1000, 1200 and 1400 microseconds:
#   in a table            average 900
#   CSV                   average 900
#   Parquet               0 0 0 1000 1000 1000, average 500
#   with one negative     IOException
#   Parquet in pyarrow    fixed_size_binary[12]
#   pyarrow's duration    BIGINT
#
# What follows: store `epoch_ns(answered) - epoch_ns(sent)`, a number with its unit in the name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1

cat >ask.py <<'PYTHON'
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

connection = duckdb.connect()


def ask(query):
    return [value for (value,) in connection.execute(query).fetchall()]


connection.execute("""
    CREATE TABLE calls AS
    SELECT sent, make_timestamp_ns(epoch_ns(sent) + 400000 + 200000 * number) AS answered
    FROM (SELECT TIMESTAMP_NS '2026-01-31 12:00:00' AS sent, range AS number FROM range(6))
""")
connection.execute("COPY (SELECT answered - sent AS latency FROM calls) TO 'calls.parquet'")
connection.execute("COPY (SELECT answered - sent AS latency FROM calls) TO 'calls.csv'")
print("type:", *ask("SELECT DISTINCT typeof(answered - sent) FROM calls"))
print("in a table:", *ask("SELECT avg(epoch_us(answered - sent)) FROM calls"))
print("csv:", *ask("SELECT avg(epoch_us(latency)) FROM read_csv('calls.csv', types = {'latency': 'INTERVAL'})"))
print("parquet:", *ask("SELECT epoch_us(latency) FROM 'calls.parquet'"))
print("parquet:", *ask("SELECT avg(epoch_us(latency)) FROM 'calls.parquet'"))
try:
    connection.execute("COPY (SELECT sent - answered AS latency FROM calls LIMIT 1) TO 'negative.parquet'")
except duckdb.Error as error:
    print("negative:", type(error).__name__)
print("in pyarrow:", pq.read_schema("calls.parquet").field("latency").type)
pq.write_table(pa.table({"latency": pa.array([400_000], pa.duration("ns"))}), "pyarrow.parquet")
print("pyarrow's:", *ask("SELECT typeof(latency) FROM 'pyarrow.parquet'"), *ask("SELECT latency FROM 'pyarrow.parquet'"))
PYTHON

seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected="type: INTERVAL
in a table: 900.0
csv: 900.0
parquet: 0 0 0 1000 1000 1000
parquet: 500.0
negative: IOException
in pyarrow: fixed_size_binary[12]
pyarrow's: BIGINT 400000"
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

#!/usr/bin/env bash
# Parquet keeps the least and the greatest value of each row group, so that readers leave out groups in which nothing can
# pass. pyarrow 26.0.1 and Polars 2.1.0 leave NaN out of them when they write. DuckDB and Spark say that NaN is greater
# than every number, and pyarrow that it is not at or below any; and all three leave groups out as if no NaN were there.
#
# The surprise: a filter counts other rows of a file than of the same rows in memory, and it is the rows that a search
# for bad values is after which are missing. In DuckDB 2.0.1 `isnan(x)` itself finds none, and `max(x)` of pyarrow's file
# is a number, although its memory says NaN; DuckDB 1.4.1 had both right. Which rows are missing depends on where the
# writer ended its row groups: a NaN beside a large number is found. The schema looks the same in all cases.
#
# Seen with: DuckDB 2.0.1, pyspark 4.3.0 on JDK 17, Polars 2.1.0, pyarrow 26.0.1, CPython 3.11; 8 rows in two groups, in
# one of them 1, 2, 3 and NaN, in the other 10, 20, 0 and NaN; rows that pass:
#                       in memory   from pyarrow's file   from Polars' file   from the engine's own file
#   duckdb isnan(x)     2           0                     0                   2
#   duckdb x > 5        4           3                     3                   4
#   duckdb max(x)       nan         20.0                  nan                 nan
#   spark isnan(x)      2           2                     2                   2
#   spark x > 5         4           3                     3                   4
#   polars x > 5        4           4                     4                   4
#   pyarrow not x <= 5  4           3                     3                   3
#
# What follows: keep NaN out of columns that are filtered (null in its place), or write without statistics for them
# (pyarrow: `write_statistics=[...]`; Polars: `statistics=False`). In Spark `spark.sql.parquet.filterPushdown=false` also
# helps. DuckDB's and Spark's own files are read rightly by both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check duckdb==2.0.1 pyspark==4.3.0 polars==2.1.0 pyarrow==26.0.1

cat >ask.py <<'PYTHON'
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

NAN = float("nan")
VALUES = [1.0, 2.0, 3.0, NAN, 10.0, 20.0, 0.0, NAN]
table = pa.table({"x": VALUES})
pq.write_table(table, "pyarrow.parquet", row_group_size=4)
pl.from_arrow(table).write_parquet("polars.parquet", row_group_size=4)
connection = duckdb.connect()
connection.execute("CREATE TABLE memory (x DOUBLE)")
connection.executemany("INSERT INTO memory VALUES (?)", [[value] for value in VALUES])
connection.execute("COPY memory TO 'duckdb.parquet'")
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([(value,) for value in VALUES], "x double").coalesce(1)
rows.write.parquet("spark.parquet")


def in_duckdb(query):
    return lambda source: connection.execute(query.format(source if source == "memory" else f"'{source}'")).fetchall()[0][0]


def in_spark_where(condition):
    return lambda source: (rows if source == "memory" else spark.read.parquet(source)).where(condition).count()


def in_polars(source):
    frame = pl.LazyFrame({"x": VALUES}) if source == "memory" else pl.scan_parquet(source)
    return frame.filter(pl.col("x") > 5).collect().height


def in_pyarrow(source):
    condition = ~(pc.field("x") <= 5)
    return (table.filter(condition) if source == "memory" else ds.dataset(source).to_table(filter=condition)).num_rows


def say(engine, what, answer):
    sources = ("memory", "pyarrow.parquet", "polars.parquet", f"{engine}.parquet")
    print(f"{engine} {what}:", *(answer(source) for source in sources))


say("duckdb", "isnan(x)", in_duckdb("SELECT count(*) FROM {} WHERE isnan(x)"))
say("duckdb", "x > 5", in_duckdb("SELECT count(*) FROM {} WHERE x > 5"))
say("duckdb", "max(x)", in_duckdb("SELECT max(x) FROM {}"))
say("spark", "isnan(x)", in_spark_where("isnan(x)"))
say("spark", "x > 5", in_spark_where("x > 5D"))
say("polars", "x > 5", in_polars)
say("pyarrow", "not x <= 5", in_pyarrow)
spark.stop()
PYTHON

seen=$(PYSPARK_PYTHON="$folder/venv/bin/python" venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='duckdb isnan(x): 2 0 0 2
duckdb x > 5: 4 3 3 4
duckdb max(x): nan 20.0 nan nan
spark isnan(x): 2 2 2 2
spark x > 5: 4 3 3 4
polars x > 5: 4 4 4 4
pyarrow not x <= 5: 4 3 3 3'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

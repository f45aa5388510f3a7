#!/usr/bin/env bash
# pyiceberg 0.12.0 commits with a requirement: the branch must still be at the snapshot that the writer had loaded. Where
# another writer was faster, that requirement fails, and `append` now loads the table again, puts its rows on top, and
# commits once more (four times at most, `commit.retry.num-retries`).
#
# The surprise is for writers that keep in the snapshot how far they have come (`snapshot_properties`), as exactly-once
# writers to Iceberg do: two of them that go on from the same snapshot both succeed, and the rows are there twice. The
# property reads the same as after one of them, so nothing shows it. What looks like optimistic locking is none.
#
# Seen with: pyiceberg 0.12.0, SQLAlchemy 2.1.9, pyarrow 26.0.1, CPython 3.11; two handles load a table at position 10,
# and each appends the rows 10 to 19 with the property position=20:
#   as it is                          30 rows, position 20
#   commit.retry.num-retries = 0      the second append: CommitFailedException; 20 rows, position 20
#
# What follows: set the table property `commit.retry.num-retries` to 0, and take CommitFailedException as the news that
# another writer is there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check 'pyiceberg[sql-sqlite]==0.12.0' sqlalchemy==2.1.9 pyarrow==26.0.1

cat >ask.py <<'PYTHON'
import os

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

catalog = SqlCatalog("lake", uri=f"sqlite:///{os.getcwd()}/catalog.db", warehouse=f"file://{os.getcwd()}")
catalog.create_namespace("log")


def rows(first, end):
    return pa.table({"number": pa.array(range(first, end), pa.int64())})


for name, properties in (("log.plain", {}), ("log.once", {"commit.retry.num-retries": "0"})):
    catalog.create_table(name, schema=rows(0, 1).schema, properties=properties)
    catalog.load_table(name).append(rows(0, 10), snapshot_properties={"position": "10"})
    handles = [catalog.load_table(name) for _ in range(2)]
    refused = ""
    for handle in handles:
        try:
            handle.append(rows(10, 20), snapshot_properties={"position": "20"})
        except CommitFailedException:
            refused = ", one refused"
    table = catalog.load_table(name)
    position = table.current_snapshot().summary.additional_properties["position"]
    print(f"{name} {table.scan().to_arrow().num_rows} rows, position {position}{refused}")
PYTHON

seen=$(venv/bin/python -W ignore ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='log.plain 30 rows, position 20
log.once 20 rows, position 20, one refused'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

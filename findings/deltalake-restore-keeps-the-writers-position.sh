#!/usr/bin/env bash
# A Delta commit may name a transaction identifier of an application (`txn`): a number up to which that writer has come,
# which exactly-once writers read to go on. deltalake 1.6.6 (delta-rs) sets a table back with `restore(version)`.
#
# The surprise: the rows are those of the old version, and the identifiers are still those of the newest. A writer that
# goes on where its identifier says skips everything that the restore took away, and nothing fails: the table has a hole
# that its own metadata denies. `load_as_version` shows the old identifier, so the table knows it.
#
# Seen with: deltalake 1.6.6, pyarrow 26.0.1, CPython 3.11; commits of the rows 1, 2, 3, each with its number as txn:
#   newest version          rows 1 2 3, txn 3
#   load_as_version(0)      rows 1, txn 1
#   after restore(0)        rows 1, txn 3
#   a writer goes on at 3   rows 1 4
#
# What follows: before going on, look into the history for a RESTORE after the last write, and refuse.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1

cat >ask.py <<'PYTHON'
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake


def write(number):
    properties = CommitProperties(app_transactions=[Transaction("writer", number)])
    rows = pa.table({"row": pa.array([number], pa.int64())})
    write_deltalake("table", rows, mode="append", commit_properties=properties)


def show(what, table):
    rows = sorted(table.to_pyarrow_table()["row"].to_pylist())
    print(f"{what}: rows {' '.join(map(str, rows))}, txn {table.transaction_version('writer')}")


for number in (1, 2, 3):
    write(number)
show("newest", DeltaTable("table"))
show("version 0", DeltaTable("table", version=0))
DeltaTable("table").restore(0)
show("restored", DeltaTable("table"))
write(DeltaTable("table").transaction_version("writer") + 1)
show("gone on", DeltaTable("table"))
PYTHON

seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='newest: rows 1 2 3, txn 3
version 0: rows 1, txn 1
restored: rows 1, txn 3
gone on: rows 1 4, txn 4'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }

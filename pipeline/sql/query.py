"""SQL over a log from the command line, by DuckDB, without Spark and without a JVM.

Table `log` has the log's columns; with a decoder also `message`, `version`, `problem` and a struct for each kind of
message (pipeline/decoding/payloads.py). A query that asks for each row once reads only the columns that it names, as a
stream; for any other the log goes through a database file of its own. Memory stays flat.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa

from ordo.pipeline.decoding.errors import PipelineError, one_line, own_error
from ordo.pipeline.sql.local import LocalLog, load_library
from ordo.pipeline.sql.sql_columns import check, columns_of
from ordo.runtime.reporting.output import unescaped

FORMATS = ("table", "csv", "json")
TABLE_ROWS_MAX = 1000
MEMORY_MAX = "1GB"
"""The memory of the database; what needs more goes through files beside it."""


@contextmanager
def query(log: LocalLog, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Yield the result of a query, in batches. Raises PipelineError for what DuckDB refuses."""
    duckdb = load_library("duckdb")
    with TemporaryDirectory(prefix="ordo-query-") as folder, duckdb.connect(os.path.join(folder, "log.db")) as database:
        database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{MEMORY_MAX}'")
        try:
            _offer(database, log, sql)
            yield database.sql(sql).to_arrow_reader(65_536)
        except duckdb.Error as error:
            raise own_error(error) or PipelineError(f"query: {one_line(error)}") from error


def _offer(database: Any, log: LocalLog, sql: str) -> None:
    """Give the database a table `log`: streamed if the query reads each row once, otherwise copied into its file."""
    check(database, sql, log.schema.empty_table())
    columns = columns_of(database, sql, tuple(log.schema.names))
    if columns is None:
        database.register("log_batches", log.to_reader())
        database.execute("CREATE TABLE log AS SELECT * FROM log_batches")
        database.unregister("log_batches")
        return
    database.register("log", log.select(columns).to_reader())


def write_rows(reader: pa.RecordBatchReader, form: str, out: IO[str] | None = None) -> int:
    """Rows as `csv` with a head, as `json` lines, or as a table for the eye, which has at most 1,000; how many."""
    out = out or sys.stdout
    rows = (row for batch in reader for row in batch.to_pylist())
    if form == "csv":
        return _write_csv(reader.schema.names, rows, out if out.isatty() else unescaped(out))
    if form == "json":
        count = 0
        for row in rows:
            out.write(json.dumps(row, default=plain) + "\n")
            count += 1
        return count
    return _write_table(reader.schema.names, rows, out)


def plain(value: Any) -> Any:
    """Bytes as hexadecimal digits, everything else as text."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, default=plain) if isinstance(value, dict | list) else str(plain(value))


def _write_csv(names: list[str], rows: Iterable[dict[str, Any]], out: IO[str]) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    count = 0
    for row in rows:
        writer.writerow([_cell(value) for value in row.values()])
        count += 1
    return count


def _write_table(names: list[str], rows: Iterator[dict[str, Any]], out: IO[str]) -> int:
    from ordo.runtime.reporting.terminal import OutputTable, console_on

    table, count = OutputTable(*names), 0
    for row in rows:
        count += 1
        if count <= TABLE_ROWS_MAX:
            table.add_row(*map(_cell, row.values()))
    console_on(out).print(table)
    if count > TABLE_ROWS_MAX:
        out.write(f"the first {TABLE_ROWS_MAX:,} of {count:,} rows; --format csv or json has all\n")
    return count

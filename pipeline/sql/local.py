"""The log without Spark and without a JVM: Arrow, polars, pandas and SQL, for a look into one day's log.

    log = ordo.read("/data/node0/archive", kinds="message", start_time="2026-01-31T12:00:00Z")
    log.to_arrow()      log.to_polars()      log.to_pandas()
    log.sql("SELECT session_id, count(*) FROM log GROUP BY ALL")

The same options, columns and rules as the Spark source (docs/PIPELINE.md); for what outgrows one machine, Spark stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ordo.pipeline.decoding.errors import MissingLibraryError, PipelineError, one_line, own_error
from ordo.pipeline.recordings.options import STREAM_OPTIONS, ReadSettings
from ordo.pipeline.recordings.reading import Scans, Task, find_repeats, plan_read, read_task, schema_of
from ordo.pipeline.recordings.repeats import Repeats, key_of, wants_numbers, wants_scan
from ordo.pipeline.schemas.log_schemas import with_decoder
from ordo.pipeline.sql.sql_columns import check, columns_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Folders = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class LocalLog:
    """A log, or a part of it. Every call reads the files anew, up to where they ended when it was opened."""

    def __init__(self, options: ReadSettings, scans: Scans | None = None) -> None:
        self._options = options = with_decoder(options)
        self._scans = scans
        self._numbers = wants_numbers(options.columns, options.predicates)
        """Whether the scans number messages, which those of a selection of columns need not."""
        self._tasks = plan_read(options, options.predicates)
        self._repeats: dict[bool, dict[str, Repeats]] = {}
        """The repeats of each log, without and with the numbers of messages, once a read has asked for them; shared
        with selections of columns."""
        self._lock = Lock()

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self._options)

    def select(self, columns: tuple[str, ...]) -> LocalLog:
        """Return the same log, up to the same end, with these of its columns."""
        part = copy(self)
        part._options = replace(self._options, columns=columns)
        return part

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches in the order of the log (of each node), read as they are asked for.

        Raises CorruptRecordingError at damage, after the rows before it.
        """
        for task in self._tasks:
            yield from self._read(task)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return an Arrow stream reader, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_arrow(self, threads: int | None = None) -> pa.Table:
        """All of it in memory, in the order of the log; decoding does not hold the interpreter, so threads help."""
        if self._options.network is not None:  # one replay at a time: a node serves few, and others need them
            threads = 1
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            parts = list(pool.map(lambda task: list(self._read(task)), self._tasks))
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return a polars data frame; shares its memory with Arrow where polars can."""
        frame: pl.DataFrame = load_library("polars").from_arrow(self.to_arrow())
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame."""
        load_library("pandas")
        return self.to_arrow().to_pandas()

    def sql(self, query: str) -> pa.Table:
        """Return the result of a query over table `log`, by DuckDB."""
        duckdb = load_library("duckdb")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            try:
                check(connection, query, self.schema.empty_table())
                columns = columns_of(connection, query, tuple(self.schema.names))
                connection.register("log", (self if columns is None else self.select(columns)).to_arrow())
                return connection.sql(query).to_arrow_table()
            except duckdb.Error as error:
                raise own_error(error) or PipelineError(f"query: {one_line(error)}") from error

    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        options, repeats = self._options, None
        if wants_scan(options.columns, options.predicates):
            repeats = self._find_repeats().get(key_of(task))
        return read_task(task, options, options.predicates, options.columns, repeats)

    def _find_repeats(self) -> dict[str, Repeats]:
        """Which requests are repeats depends on all records before them, so these are read once, up to the end."""
        options = self._options
        numbers = wants_numbers(options.columns, options.predicates)
        with self._lock:
            if numbers not in self._repeats:
                scans = self._scans if numbers == self._numbers else None
                self._repeats[numbers] = find_repeats(options, options.predicates, options.columns, scans)
            return self._repeats[numbers]


def read(folders: Folders, **options: object) -> LocalLog:
    """Return the log in one archive folder, several, or a pattern such as `/data/*/archive`.

    Or of a cluster's nodes, over the network: `ordo://node0:9014,node1:9014,node2:9014`, with their archive endpoints;
    or in a copy in object storage (`s3://bucket/node0`).

    `options` are those of the Spark source, also in small letters with underscores (`start_time` for `startTime`);
    lists may be lists, times datetimes. Raises PipelineError for what is not allowed, and when there is no archive.
    """
    return read_part(folders, None, **options)


def read_part(folders: Folders, scans: Scans | None, **options: object) -> LocalLog:
    """Return a part of a log as `read` does, where parts are read one after the other with the same `scans`."""
    listed = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
    given = {name.replace("_", "").lower(): _text(value) for name, value in options.items() if value is not None}
    for name in given:
        if name in STREAM_OPTIONS:
            raise PipelineError(f"option {name!r} is for streams, which need Spark: spark.readStream.format('ordo')")
    return LocalLog(ReadSettings.parse({**given, **_paths(listed)}), scans)


def _paths(folders: list[str | os.PathLike[str]]) -> dict[str, str]:
    """Return the option that names them: a single one may be a list with commas, as in Spark."""
    names = [os.fspath(folder) for folder in folders]
    return {"path": names[0]} if len(names) == 1 else {"paths": json.dumps(names)}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int):
        return str(value)
    return ",".join(str(part) for part in value)


def load_library(module: str, extra: str = "local") -> Any:
    """Import a library that not everybody has, or a module of one. Raises PipelineError that says how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        raise MissingLibraryError(f"{library} is not installed; run: pip install 'ordo-sequencer[{extra}]'") from error

"""Latency: how long messages took from the client to their place in the log, or how far apart they came.

A log holds the time the leader gave each record. Where payloads carry the time they were sent, an integer at a fixed
offset, `sent` says so and latency is the difference, in microseconds; both clocks must be one clock, or synchronised.
Without it the value is the gap between neighbouring messages of a session. Requests are messages; the time in them is
looked for in the application's bytes. Copies of requests, which the cluster does not execute, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as F

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import MESSAGE_KINDS, SBE_HEADER_BYTES
from ordo.pipeline.jobs.report import Report, new_figure, time_axis, utc
from ordo.pipeline.spark.executed import IS_REPEAT, describe_unknown, executed_once
from ordo.pipeline.spark.rows import KeptRows, keep_rows, rows_of

STATISTICS = ("count", "p50", "p90", "p99", "p999", "max", "mean")
KEYS = ("node", "recording", "session_id", "kind", "timestamp")
VIEWS = {"minute": "By minute", "session_id": "By session", "kind": "By kind"}
PERCENTILES = (0.5, 0.9, 0.99, 0.999)
ACCURACY = 10_000
"""A percentile is off by 0.01 % of the rows at most. Each group's summary takes memory in proportion: with 0.001 %, the
sessions of a long log filled a heap of 2 GB."""
_MEASURED_SQL = ("node string, recording long, session_id long, kind string, timestamp timestamp, is_repeat boolean, "
                 "value_us double")  # fmt: skip
_FIELD = re.compile(r"(i64|u64|i64be|u64be)@(\d+):(ns|us|ms)")
_NANOS = {"ns": 1, "us": 1000, "ms": 1_000_000}


@dataclass(frozen=True)
class SentField:
    """Where a payload says when it was sent: `i64@0:ns` is a little-endian integer of nanoseconds since 1970."""

    offset: int
    big_endian: bool
    unit: str

    @classmethod
    def parse(cls, text: str) -> SentField:
        """Raise PipelineError for anything else."""
        match = _FIELD.fullmatch(text)
        if match is None:
            raise PipelineError(f"sent={text!r}: write <i64|u64|i64be|u64be>@<offset>:<ns|us|ms>, such as i64@0:ns")
        return cls(int(match[2]), match[1].endswith("be"), match[3])


def columns_for(sent: str | None, repeats: bool = False) -> tuple[str, ...]:
    """Return the columns of the log that are needed, for its option `columns`."""
    return (*KEYS, "position" if sent is None else "payload", *(() if repeats else (IS_REPEAT,)))


def with_latency(log: DataFrame, sent: str | None = None, repeats: bool = False) -> DataFrame:
    """Return messages and requests with (*KEYS, is_repeat, value_us), without those that have no value.

    `repeats` takes copies that were not executed as well; without it the log needs its column `is_repeat`.
    """
    messages = log.where(F.col("kind").isin(*MESSAGE_KINDS))
    messages = messages.withColumn(IS_REPEAT, F.lit(False)) if repeats else executed_once(messages)
    if sent is not None:
        field = SentField.parse(sent)
        return (
            messages.select(*KEYS, IS_REPEAT, "payload")
            .mapInArrow(partial(_measure, field), _MEASURED_SQL)
            .where("value_us is not null")
        )
    order = Window.partitionBy("node", "recording", "session_id").orderBy("position")
    micros = F.unix_micros("timestamp")
    gap = (micros - F.lag(micros).over(order)).cast("double").alias("value_us")
    return messages.select(*KEYS, IS_REPEAT, gap).where("value_us is not null")


def _measure(field: SentField, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sent, present = integers(batch["payload"], batch["kind"], field.offset, field.big_endian)
        times = np.asarray(batch["timestamp"].cast(pa.int64()).fill_null(0))
        values = pa.array((times * 1000 - sent * _NANOS[field.unit]) / 1000.0, pa.float64(), mask=~present)
        kept = batch.select([*KEYS, IS_REPEAT])
        yield pa.RecordBatch.from_arrays([*kept.columns, values], names=[*kept.schema.names, "value_us"])


def integers(
    payloads: pa.Array, kinds: pa.Array, offset: int, big_endian: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the 64-bit integers at an offset of what applications sent, and in which payloads there is one."""
    buffers = payloads.buffers()
    starts = np.frombuffer(buffers[1], np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    begins, ends = starts[:-1].astype(np.int64), starts[1:]
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    is_request = np.asarray(pc.equal(kinds, "request").fill_null(False))
    is_whole = ends - begins >= np.where(is_request, SBE_HEADER_BYTES, 0)
    block_lengths = _gather(data, begins, is_whole & is_request, 2, "<u2")
    begins = begins + offset + np.where(is_request, SBE_HEADER_BYTES + block_lengths, 0)
    present = is_whole & (ends - begins >= 8)
    return _gather(data, begins, present, 8, ">i8" if big_endian else "<i8"), present


def _gather(data: np.ndarray, places: np.ndarray, present: np.ndarray, size: int, kind: str) -> np.ndarray:
    """Return the integers of `size` bytes at these places of the data; 0 where none is present."""
    if not present.any():
        return np.zeros(len(places), np.int64)
    raw = data[np.where(present, places, places[present][0])[:, None] + np.arange(size)]
    return np.where(present, raw.view(kind).ravel().astype(np.int64), 0)


def latency(
    log: DataFrame, sent: str | None = None, by: tuple[str, ...] = ("minute",), repeats: bool = False
) -> DataFrame:
    """Return latencies by any of `minute`, `session_id`, `kind`, `node`.

    Columns: *by, count, p50, p90, p99, p999, max, mean, in us.
    """
    allowed = {"minute", "session_id", "kind", "node", "recording"}
    if not by or not set(by) <= allowed:
        raise PipelineError(f"by={','.join(by)!r}: allowed are {', '.join(sorted(allowed))}")
    return _statistics(_measured(log, sent, repeats).groupBy(*by)).select(*by, *STATISTICS).orderBy(*by)


def _measured(log: DataFrame, sent: str | None, repeats: bool) -> DataFrame:
    return with_latency(log, sent, repeats).withColumn("minute", F.date_trunc("minute", "timestamp"))


def _statistics(grouped: GroupedData, *more: Column) -> DataFrame:
    """Return the columns that it is grouped by, STATISTICS, and `more`."""
    parts = F.percentile_approx("value_us", list(PERCENTILES), ACCURACY).alias("parts")
    found = grouped.agg(
        F.count("*").alias("count"), parts, F.max("value_us").alias("max"), F.avg("value_us").alias("mean"), *more
    )
    return found.withColumns({name: F.col("parts")[index] for index, name in enumerate(STATISTICS[1:5])})


def latency_views(log: DataFrame, sent: str | None = None, repeats: bool = False) -> DataFrame:
    """All VIEWS in one frame, so that the log is read and sorted only once: (view, *VIEWS, *STATISTICS, unknown).

    `view` numbers the view that a row belongs to; only the column of that view has a value. By view, then by column.
    `unknown` counts the requests of which it is not known whether they are repeats.
    """
    names = list(VIEWS)
    sets = [[F.col(name)] for name in names]
    grouped = _measured(log, sent, repeats).groupingSets(sets, *names)
    views = [F.when(F.grouping(name) == 0, index) for index, name in enumerate(names)]
    unknown = F.count_if(F.col(IS_REPEAT).isNull()).alias("unknown")
    found = _statistics(grouped, F.coalesce(*views).alias("view"), unknown)
    return found.select("view", *names, *STATISTICS, "unknown").orderBy("view", *names)


def write_report(log: DataFrame, sent: str | None, folder: str, repeats: bool = False) -> str:
    """`latency.html`, `latency.json` with percentiles per minute, session and kind; returns the page's path."""
    views = keep_views(latency_views(log, sent, repeats), folder)
    return write_page(
        views, "latency from the client into the log" if sent else "gap between messages of a session", folder
    )


def keep_views(frame: DataFrame, folder: str) -> dict[str, KeptRows]:
    """Return the rows of each view, of a frame of `latency_views`."""
    names = list(VIEWS)
    kept = {}
    for view, rows in groupby(rows_of(frame), key=itemgetter("view")):
        columns = (names[view], *STATISTICS, "unknown")
        found = ({column: row[column] for column in columns} for row in rows)
        kept[names[view]] = keep_rows(found, folder, f"latency-{names[view]}")
    return {name: kept.get(name) or keep_rows((), folder, f"latency-{name}") for name in names}


def write_page(views: dict[str, KeptRows], what: str, folder: str) -> str:
    """Return the page over rows by minute, session and kind."""
    facts: dict[str, Any] = {"measures": what}
    for name, rows in views.items():
        facts |= rows.facts(name)
    facts["unknown"] = sum(row["unknown"] for row in views["kind"].first)
    report = Report(f"Latency: {what}", facts)
    if facts["unknown"]:
        report.line(describe_unknown(facts["unknown"]), good=False)
    if are_whole_milliseconds(views["kind"].first):
        facts["resolution_us"] = 1000
        report.line(
            "Every value is a whole number of milliseconds, which the cluster's clock counts here: 0.000 stands for "
            "less than 1,000 microseconds."
        )
    if views["minute"].first:
        _draw_minutes(report, views["minute"], what)
    else:
        report.line(f"The log has nothing of which there is a {what}.", good=False)
    for name, title in VIEWS.items():
        report.heading(f"{title}, in microseconds")
        columns = (name, *STATISTICS)
        report.table(columns, [[row[column] for column in columns] for row in views[name].first])
        report.cut(views[name].count, len(views[name].first), views[name].file_name)
    return str(report.write(folder, "latency"))


def are_whole_milliseconds(rows: Iterable[Mapping[str, float]]) -> bool:
    """Return whether no value shows anything below a millisecond; False where there are no values."""
    values = [row[name] for row in rows for name in ("p50", "p90", "p99", "p999", "max")]
    return bool(values) and all(value % 1000 == 0 for value in values)


def _draw_minutes(report: Report, rows: KeptRows, what: str) -> None:
    figure, axis = new_figure()
    shown = rows.first
    minutes = [utc(row["minute"]) for row in shown]
    for name in ("p50", "p90", "p99", "p999"):
        axis.plot(minutes, [row[name] for row in shown], marker=".", label=name)
    axis.set_yscale("symlog")
    axis.set_ylabel("microseconds")
    axis.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    time_axis(axis, minutes)
    limited = f" (the first {len(shown):,})" if rows.count > len(shown) else ""
    report.picture(figure, f"{what[0].upper()}{what[1:]} by minute: percentiles in microseconds{limited}.")

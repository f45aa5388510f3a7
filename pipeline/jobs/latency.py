"""Latency: how long messages took from the client to their place in the log, or how far apart they came.

A log holds the time the leader gave each record. Where payloads carry the time they were sent, an integer at a fixed
offset, `sent` says so and latency is the difference, in microseconds; both clocks must be one clock, or synchronised.
Without it the value is the gap between neighbouring messages of a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.errors import PipelineError
from pipeline.report import Report, new_figure, time_axis, utc
from pipeline.rows import KeptRows, keep_rows

VIEWS = {"minute": "By minute", "session_id": "By session", "kind": "By kind"}
PERCENTILES = (0.5, 0.9, 0.99, 0.999)
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
        """Raises PipelineError for anything else."""
        match = _FIELD.fullmatch(text)
        if match is None:
            raise PipelineError(f"sent={text!r}: write <i64|u64|i64be|u64be>@<offset>:<ns|us|ms>, such as i64@0:ns")
        return cls(int(match[2]), match[1].endswith("be"), match[3])


def with_latency(log: DataFrame, sent: str | None = None) -> DataFrame:
    """Messages with `value_us`: (node, recording, session_id, kind, timestamp, value_us); null values are left out."""
    keys = ("node", "recording", "session_id", "kind", "timestamp")
    messages = log.where("kind = 'message'")
    if sent is not None:
        field = SentField.parse(sent)
        schema = "node string, recording long, session_id long, kind string, timestamp timestamp, value_us double"
        return (
            messages.select(*keys, "payload").mapInArrow(partial(_measure, field), schema).where("value_us is not null")
        )
    order = Window.partitionBy("node", "recording", "session_id").orderBy("position")
    micros = F.unix_micros("timestamp")
    gap = (micros - F.lag(micros).over(order)).cast("double").alias("value_us")
    return messages.select(*keys, gap).where("value_us is not null")


def _measure(field: SentField, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sent, present = integers(batch["payload"], field.offset, field.big_endian)
        times = np.asarray(batch["timestamp"].cast(pa.int64()).fill_null(0))
        values = pa.array((times * 1000 - sent * _NANOS[field.unit]) / 1000.0, pa.float64(), mask=~present)
        kept = batch.select(["node", "recording", "session_id", "kind", "timestamp"])
        yield pa.RecordBatch.from_arrays([*kept.columns, values], names=[*kept.schema.names, "value_us"])


def integers(payloads: pa.Array, offset: int, big_endian: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The 64-bit integers at an offset of each payload, and which payloads are long enough to have one."""
    buffers = payloads.buffers()
    starts = np.frombuffer(buffers[1], np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    present = np.diff(starts) >= offset + 8
    if buffers[2] is None or not present.any():
        return np.zeros(len(payloads), np.int64), np.zeros(len(payloads), bool)
    data = np.frombuffer(buffers[2], np.uint8)
    places = np.where(present, starts[:-1] + offset, 0)[:, None] + np.arange(8)
    raw = data[np.minimum(places, len(data) - 1)]
    return np.ascontiguousarray(raw).view(">i8" if big_endian else "<i8").ravel().astype(np.int64), present


def latency(log: DataFrame, sent: str | None = None, by: tuple[str, ...] = ("minute",)) -> DataFrame:
    """By any of `minute`, `session_id`, `kind`, `node`: (*by, count, p50, p90, p99, p999, max, mean), in us."""
    allowed = {"minute", "session_id", "kind", "node", "recording"}
    if not by or not set(by) <= allowed:
        raise PipelineError(f"by={','.join(by)!r}: allowed are {', '.join(sorted(allowed))}")
    measured = with_latency(log, sent).withColumn("minute", F.date_trunc("minute", "timestamp"))
    parts = F.percentile_approx("value_us", list(PERCENTILES), 100_000).alias("parts")
    grouped = measured.groupBy(*by).agg(
        F.count("*").alias("count"), parts, F.max("value_us").alias("max"), F.avg("value_us").alias("mean")
    )
    names = ["p50", "p90", "p99", "p999"]
    columns = [F.col("parts")[index].alias(name) for index, name in enumerate(names)]
    return grouped.select(*by, "count", *columns, "max", "mean").orderBy(*by)


def write_report(log: DataFrame, sent: str | None, folder: str) -> str:
    """`latency.html`, `latency.json` with percentiles per minute, session and kind; returns the page's path."""
    views = {name: keep_rows(latency(log, sent, (name,)), folder, f"latency-{name}") for name in VIEWS}
    return write_page(
        views, "latency from the client into the log" if sent else "gap between messages of a session", folder
    )


def write_page(views: dict[str, KeptRows], what: str, folder: str) -> str:
    """The page over rows by minute, session and kind."""
    facts: dict[str, Any] = {"measures": what}
    for name, rows in views.items():
        facts |= rows.facts(name)
    report = Report(f"Latency: {what}", facts)
    figure, axis = new_figure()
    shown = views["minute"].first
    minutes = [utc(row["minute"]) for row in shown]
    for name in ("p50", "p90", "p99", "p999"):
        axis.plot(minutes, [row[name] for row in shown], marker=".", label=name)
    axis.set_yscale("symlog")
    axis.set_ylabel("microseconds")
    axis.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    time_axis(axis, minutes)
    limited = f" (the first {len(shown):,})" if views["minute"].count > len(shown) else ""
    report.picture(figure, f"{what[0].upper()}{what[1:]} by minute: percentiles in microseconds{limited}.")
    for name, title in VIEWS.items():
        report.heading(f"{title}, in microseconds")
        columns = (name, "count", "p50", "p90", "p99", "p999", "max", "mean")
        report.table(columns, [[row[column] for column in columns] for row in views[name].first])
        report.cut(views[name].count, len(views[name].first), views[name].file_name)
    return str(report.write(folder, "latency"))

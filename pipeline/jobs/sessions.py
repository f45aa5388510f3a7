"""Sessions: the life of each client session in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ordo.pipeline.decoding.payloads import MESSAGE_KINDS, SBE_HEADER_BYTES
from ordo.pipeline.jobs.report import BLUE, Report, new_figure, time_axis, utc
from ordo.pipeline.replaying.session_records import parse_event
from ordo.pipeline.spark.executed import IS_REPEAT, describe_unknown, was_executed, with_repeats
from ordo.pipeline.spark.rows import KeptRows, keep_rows, rows_of

DRAWN_MAX = 500
COUNTS = ("messages", "payload_bytes", "repeats", "unknown")
_EVENTS = pa.schema([
    ("node", pa.string()), ("recording", pa.int64()), ("session_id", pa.int64()), ("kind", pa.string()),
    ("position", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("channel", pa.string()),
    ("principal", pa.binary()), ("close_reason", pa.string()),
])  # fmt: skip
_EVENTS_SQL = ("node string, recording long, session_id long, kind string, position long, timestamp timestamp, "
               "channel string, principal binary, close_reason string")  # fmt: skip


def session_events(log: DataFrame) -> DataFrame:
    """Return openings and closings with channel, principal and reason (cluster-consensus.md §11)."""
    columns = [*_EVENTS.names[:6], "payload"]
    rare = log.where("kind in ('session_open', 'session_close')").select(*columns)
    return rare.mapInArrow(_parse_events, _EVENTS_SQL)


def _parse_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [{**row, **parse_event(row["kind"], row["payload"])} for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_EVENTS)


def sessions(log: DataFrame) -> DataFrame:
    """One row for each client session of each log.

    node, recording, session_id, opened and closed (timestamp), opened_position, closed_position, channel, principal,
    close_reason, messages, payload_bytes, repeats, unknown, first_message, last_message, duration_s. What lies
    outside the log is null. Requests are messages; of their payloads only the application's bytes count. `repeats`
    counts the copies that were not executed, which are in none of the others; `unknown` those among `messages` of which
    it is not known. The log needs its column `is_repeat`.
    """
    keys = ["node", "recording", "session_id"]
    events = session_events(log)
    opened = events.where("kind = 'session_open'").select(
        *keys, F.col("timestamp").alias("opened"), F.col("position").alias("opened_position"), "channel", "principal"
    )
    closed = (  # the first one counts: a log may close a session again that was closed
        events.where("kind = 'session_close'")
        .groupBy(*keys)
        .agg(
            F.min_by("timestamp", "position").alias("closed"),
            F.min("position").alias("closed_position"),
            F.min_by("close_reason", "position").alias("close_reason"),
        )
    )
    sent = (
        with_repeats(log)
        .where(F.col("kind").isin(*MESSAGE_KINDS) & (F.col("session_id") > 0))
        .groupBy(*keys)
        .agg(*_totals(is_counted=was_executed()))
    )
    joined = opened.join(closed, keys, "full_outer").join(sent, keys, "full_outer")
    lasted = (F.unix_micros("closed") - F.unix_micros("opened")) / 1e6
    return joined.fillna(0, list(COUNTS)).withColumn("duration_s", lasted).select(
        *keys, "opened", "closed", "opened_position", "closed_position", "channel", "principal", "close_reason",
        *COUNTS, "first_message", "last_message", "duration_s",
    )  # fmt: skip


def _totals(is_counted: Column) -> list[Column]:
    length_bytes = F.col("payload_length") - _head_bytes()
    return [
        F.count_if(is_counted).alias("messages"),
        F.sum(F.when(is_counted, length_bytes).otherwise(0)).alias("payload_bytes"),
        F.count_if(~is_counted).alias("repeats"),
        F.count_if(F.col(IS_REPEAT).isNull()).alias("unknown"),
        F.min(F.when(is_counted, F.col("timestamp"))).alias("first_message"),
        F.max(F.when(is_counted, F.col("timestamp"))).alias("last_message"),
    ]


def _head_bytes() -> Column:
    """How many bytes of a payload come before the application's (`pipeline.decoding.payloads.application_bytes`)."""
    low, high = F.hex(F.substring("payload", 1, 1)), F.hex(F.substring("payload", 2, 1))
    block_length = F.conv(F.concat(high, low), 16, 10).cast("int")
    return F.when(F.col("kind") == "request", block_length + SBE_HEADER_BYTES).otherwise(0)


def write_report(table: DataFrame, folder: str) -> str:
    """`sessions.html`, `sessions.json`, with more than 1,000 sessions `sessions.jsonl`; returns the page's path."""
    totals = Totals()
    rows = keep_rows(rows_of(table.orderBy("node", "recording", "session_id")), folder, "sessions", totals.add)
    return write_page(rows, totals, folder)


@dataclass
class Totals:
    """What is said of all sessions together."""

    messages: int = 0
    repeats: int = 0
    unknown: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        reason = row["close_reason"] or "still open"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.messages += row["messages"]
        self.repeats += row["repeats"]
        self.unknown += row["unknown"]


def write_page(rows: KeptRows, totals: Totals, folder: str) -> str:
    """Write the page that shows the rows of `sessions`."""
    report = Report("Sessions", {
        **rows.facts("sessions"), "close_reasons": totals.reasons, "repeats": totals.repeats, "unknown": totals.unknown,
    })  # fmt: skip
    left_out = f"; {totals.repeats:,} repeats, which were not executed, are left out" if totals.repeats else ""
    report.line(f"{rows.count:,} sessions, {totals.messages:,} messages{left_out}")
    if totals.unknown:
        report.line(describe_unknown(totals.unknown), good=False)
    report.table(("closed by", "sessions"), sorted(totals.reasons.items()))
    if rows.first:
        _draw_lives(report, rows)
    columns = ("node", "session_id", "opened", "closed", "close_reason", *COUNTS[:3], "duration_s")
    report.table(columns, [[row[name] for name in columns] for row in rows.first])
    report.cut(rows.count, len(rows.first), rows.file_name)
    return str(report.write(folder, "sessions"))


def _draw_lives(report: Report, rows: KeptRows) -> None:
    from matplotlib.ticker import MaxNLocator

    figure, axis = new_figure()
    moments = []
    for number, row in enumerate(rows.first[:DRAWN_MAX], 1):
        start = row["opened"] or row["first_message"]
        end = row["closed"] or row["last_message"] or start
        if start is not None:
            axis.plot([utc(start), utc(end)], [number, number], color=BLUE, linewidth=1, marker="|", markersize=3)
            moments += [utc(start), utc(end)]
    axis.set_ylabel("session, as in the table")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_ylim(0.4, len(rows.first[:DRAWN_MAX]) + 0.6)
    axis.invert_yaxis()
    time_axis(axis, moments)
    limited = f" (the first {DRAWN_MAX})" if rows.count > DRAWN_MAX else ""
    report.picture(figure, f"When each session was open{limited}.")

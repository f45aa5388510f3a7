"""Follows a log as a stream on Spark and tells what `pipeline.jobs.alerts` finds.

Beside Spark's checkpoint lies `ordo_alerts.json`: what was found out up to the last batch, written when all alerts of
that batch were delivered. A batch that was interrupted comes again with the same rows, so its alerts are told again
with the same ids: none is lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.jobs.alerts import COLUMNS, Alert, Rules, Summary, Watch, summarize
from pipeline.jobs.state_watch import StateWatch
from pipeline.jobs.target import open_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STATE_NAME = "ordo_alerts.json"
LOOK_INTERVAL_S = 5.0
Tell = Callable[[Alert], None]


def _summaries(rules: Rules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [json.dumps(asdict(summary)) for summary in summarize(batches, rules)]
    yield pa.RecordBatch.from_arrays([pa.array(rows, pa.string())], names=["summary"])


class BatchWatch:
    """Takes the stream's batches."""

    def __init__(self, spark: SparkSession, checkpoint: str, rules: Rules, tell: Tell) -> None:
        self._target = open_target(spark, checkpoint, STATE_NAME)
        kept = json.loads(self._target.read() or "{}")
        self._batch_last = kept.get("batch", -1)
        self._state = kept.get("logs", {})
        self._rules, self._tell = rules, tell
        self.moved_at = time.monotonic()
        self.positions: dict[str, int] = {}

    def take(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id <= self._batch_last:
            return  # its alerts were delivered, and Spark was stopped before it knew
        rows = frame.mapInArrow(partial(_summaries, self._rules), "summary string").collect()
        watch = Watch(self._rules, self._state)
        for alert in watch.take(Summary(**json.loads(row.summary)) for row in rows):
            self._tell(alert)
        state = watch.state
        self._target.write(json.dumps({"batch": batch_id, "logs": state}) + "\n")
        self._batch_last, self._state, self.positions = batch_id, state, watch.positions()
        self.moved_at = time.monotonic()


class Silence:
    """Notices that nothing has come for a while by this machine's clock; the log's own clock stands still then."""

    def __init__(self, gap_us: int | None, tell: Tell) -> None:
        self._gap_us, self._tell = gap_us, tell
        self._told_at = -1.0

    def look(self, batches: BatchWatch, now: float) -> None:
        if self._gap_us is None or (now - batches.moved_at) * 1e6 <= self._gap_us or batches.moved_at == self._told_at:
            return
        self._told_at = batches.moved_at
        for key, position in batches.positions.items():
            text = f"nothing was written behind position {position} for more than {self._gap_us / 1e6:g} s"
            self._tell({"id": f"{key}:silence:{position}", "kind": "silence", "log": key, "position": position,
                        "time": None, "text": text})  # fmt: skip


def watch(
    log: DataFrame,
    checkpoint: str,
    rules: Rules,
    tell: Tell,
    states: StateWatch | None = None,
    once: bool = False,
) -> None:
    """Follows `log`, a stream with COLUMNS; with `once` up to what there is now, otherwise until it is stopped.

    `tell` is called for each alert. Where it raises, the query ends, and the next one tells the same alert again.
    """
    spark = log.sparkSession
    batches = BatchWatch(spark, checkpoint, rules, tell)
    silence = Silence(None if once else rules.gap_us, tell)
    writer = log.writeStream.foreachBatch(batches.take).option("checkpointLocation", f"{checkpoint.rstrip('/')}/stream")
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
    try:
        _attend(query, batches, silence, states, tell)
    finally:
        query.stop()


def _attend(
    query: StreamingQuery, batches: BatchWatch, silence: Silence, states: StateWatch | None, tell: Tell
) -> None:
    """Until the query ends. Raises its error."""
    has_ended = False
    while not has_ended:
        has_ended = bool(query.awaitTermination(int(LOOK_INTERVAL_S)))
        silence.look(batches, time.monotonic())
        for alert in states.look() if states is not None else ():
            tell(alert)


def stream_of(spark: SparkSession, folders: list[str], options: dict[str, Any]) -> DataFrame:
    """The stream that `watch` follows."""
    reader = spark.readStream.format("ordo").option("columns", ",".join(COLUMNS))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(",".join(folders))

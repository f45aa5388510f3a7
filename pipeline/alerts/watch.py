"""Follows a log as a stream on Spark and tells what `ordo.pipeline.alerts.alerts` finds.

Beside Spark's checkpoint lies `ordo_alerts.json`: what was found out up to the last batch, written when all alerts of
that batch were delivered. A batch that was interrupted comes again with the same rows, so its alerts are told again
with the same ids: none is lost.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ordo.pipeline.alerts.alerts import Alert, Rules, Summary, Watch, summarize
from ordo.pipeline.alerts.silence import Arrivals
from ordo.pipeline.alerts.state_watch import StateWatch
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.target import Target, open_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STATE_NAME = "ordo_alerts.json"
LOOK_INTERVAL_S = 5.0
WAITING = "Waiting for next trigger"
"""How Spark describes a query between two triggers."""
Tell = Callable[[Alert], None]


def _summaries(rules: Rules, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [json.dumps(asdict(summary)) for summary in summarize(batches, rules)]
    yield pa.RecordBatch.from_arrays([pa.array(rows, pa.string())], names=["summary"])


class Clock:
    """This machine's epoch in seconds; goes on evenly, also when the wall clock is set meanwhile."""

    def __init__(self) -> None:
        self._base_s = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._base_s + time.monotonic()


class BatchWatch:
    """Takes the stream's batches, and notices when none come."""

    def __init__(
        self, target: Target, name: str, rules: Rules, tell: Tell, clock: Callable[[], float], hears_silence: bool
    ) -> None:
        self._target, self._rules, self._tell, self._clock = target, rules, tell, clock
        kept = json.loads(target.read() or "{}")
        self._batch_last = kept.get("batch", -1)
        self._state = kept.get("logs", {})
        self._arrivals = Arrivals(rules.gap_us if hears_silence else None, name, clock(), kept.get("arrivals"))
        self._lock = threading.Lock()

    def take(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id <= self._batch_last:
            return  # its alerts were delivered, and Spark was stopped before it knew
        with self._lock:
            self._take(frame, batch_id, self._clock())

    def _take(self, frame: DataFrame, batch_id: int, began_s: float) -> None:
        rows = frame.mapInArrow(partial(_summaries, self._rules), "summary string").collect()
        watch = Watch(self._rules, self._state)
        found = watch.take(Summary(**json.loads(row.summary)) for row in rows)
        for alert in [*found, *self._arrivals.take(watch.positions(), began_s)]:
            self._tell(alert)
        self._batch_last, self._state = batch_id, watch.state
        self._keep()

    def look(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Tell of silence, where by its status the query has found nothing new."""
        now_s = self._clock()
        if not has_found_nothing(status()):
            return
        with self._lock:  # batches come on a thread of Spark's; one that began since is newer than `now_s`
            alerts = self._arrivals.look(now_s)
            for alert in alerts:
                self._tell(alert)
            if alerts:
                self._keep()

    def _keep(self) -> None:
        kept = {"batch": self._batch_last, "logs": self._state, "arrivals": self._arrivals.state}
        self._target.write(json.dumps(kept) + "\n")


def watch(
    log: DataFrame,
    checkpoint: str,
    rules: Rules,
    tell: Tell,
    states: StateWatch | None = None,
    once: bool = False,
    name: str = "all logs",
) -> None:
    """Follow `log`, a stream with `rules.columns`; with `once` up to what there is now, otherwise until it is stopped.

    `name` stands for the log in an alert as long as nothing was read of it. `tell` is called for each alert. Where it
    raises, the query ends, and the next one tells the same alert again.
    """
    lacking = set(rules.columns) - set(log.columns)
    if lacking:
        raise PipelineError(f"the stream has no column {', '.join(sorted(lacking))}, which these rules need")
    target = open_target(log.sparkSession, checkpoint, STATE_NAME)
    batches = BatchWatch(target, name, rules, tell, Clock(), hears_silence=not once)
    writer = log.writeStream.foreachBatch(batches.take).option("checkpointLocation", f"{checkpoint.rstrip('/')}/stream")
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
    try:
        _attend(query, batches, states, tell)
    finally:
        query.stop()


def _attend(query: StreamingQuery, batches: BatchWatch, states: StateWatch | None, tell: Tell) -> None:
    """Wait until the query ends. Raises its error."""
    has_ended = False
    while not has_ended:
        has_ended = bool(query.awaitTermination(int(LOOK_INTERVAL_S)))
        batches.look(lambda: query.status)
        for alert in states.look() if states is not None else ():
            tell(alert)


def has_found_nothing(status: Mapping[str, Any]) -> bool:
    """Return whether the last trigger of a query found nothing new, and no other has begun since."""
    return status["message"] == WAITING and not status["isDataAvailable"]


def stream_of(spark: SparkSession, folders: list[str], options: dict[str, Any], rules: Rules) -> DataFrame:
    """Return the stream that `watch` follows by these rules."""
    reader = spark.readStream.format("ordo").option("columns", ",".join(rules.columns))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(",".join(folders))

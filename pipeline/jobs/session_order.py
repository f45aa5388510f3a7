"""Finds sessions that violate the order of the log, on Spark or here.

A message before its session's open or after its close, a session opened or closed twice. Sessions whose open lies
before the beginning of the log count as open from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ordo.pipeline.decoding.payloads import MESSAGE_KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPEN, CLOSE, SENT = "session_open", "session_close", "sent"
SESSION_KINDS = (*MESSAGE_KINDS, OPEN, CLOSE)
COLUMNS = ("node", "recording", "session_id", "kind", "position")


@dataclass
class _Bounds:
    """The first and last position at which a session has messages, openings or closings."""

    first: int = 1 << 62
    last: int = -1
    count: int = 0

    def take(self, first: int, last: int, count: int) -> None:
        self.first, self.last, self.count = min(self.first, first), max(self.last, last), self.count + count


def find_violations(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """(node, recording, session_id, violation, position) by position, out of batches that have COLUMNS."""
    sessions: dict[tuple[str, int, int], dict[str, _Bounds]] = defaultdict(lambda: defaultdict(_Bounds))
    for batch in batches:
        table = pa.Table.from_batches([batch]).group_by(list(COLUMNS[:4]))
        for row in table.aggregate([("position", "min"), ("position", "max"), ("position", "count")]).to_pylist():
            if row["session_id"] is not None and row["session_id"] > 0:
                event = SENT if row["kind"] in MESSAGE_KINDS else row["kind"]
                bounds = sessions[row["node"], row["recording"], row["session_id"]][event]
                bounds.take(row["position_min"], row["position_max"], row["position_count"])
    found = [
        {"node": node, "recording": recording, "session_id": session_id, "violation": violation, "position": position}
        for (node, recording, session_id), events in sessions.items()
        for violation, position in _rules(events)
    ]
    return sorted(found, key=lambda row: (row["node"], row["recording"], row["position"]))


def _rules(events: dict[str, _Bounds]) -> Iterable[tuple[str, int]]:
    sent, opened, closed = (events.get(name, _Bounds()) for name in (SENT, OPEN, CLOSE))
    if sent.count and opened.count and sent.first < opened.first:
        yield "message before open", sent.first
    if sent.count and closed.count and sent.last > closed.first:
        yield "message after close", sent.last
    if opened.count > 1:
        yield "opened twice", opened.first
    if closed.count > 1:
        yield "closed twice", closed.last


def session_violations(log: DataFrame) -> DataFrame:
    """(node, recording, session_id, violation, position) as a data frame."""
    from pyspark.sql import functions as F

    kinds = {SENT: MESSAGE_KINDS, OPEN: (OPEN,), CLOSE: (CLOSE,)}
    places = {event: F.when(F.col("kind").isin(*kinds[event]), F.col("position")) for event in kinds}
    sessions = (
        log.where("session_id > 0")
        .groupBy("node", "recording", "session_id")
        .agg(
            F.min(places[SENT]).alias("message_first"),
            F.max(places[SENT]).alias("message_last"),
            F.min(places[OPEN]).alias("opened"),
            F.min(places[CLOSE]).alias("closed"),
            F.max(places[CLOSE]).alias("closed_last"),
            F.count(places[OPEN]).alias("open_count"),
            F.count(places[CLOSE]).alias("close_count"),
        )
    )
    rules = [
        ("message before open", "message_first < opened", "message_first"),
        ("message after close", "message_last > closed", "message_last"),
        ("opened twice", "open_count > 1", "opened"),
        ("closed twice", "close_count > 1", "closed_last"),
    ]
    found = None
    for name, condition, place in rules:
        part = sessions.where(condition).select(
            "node", "recording", "session_id", F.lit(name).alias("violation"), F.col(place).alias("position")
        )
        found = part if found is None else found.unionByName(part)
    assert found is not None
    return found.orderBy("node", "recording", "position")

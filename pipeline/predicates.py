"""What a read wants: options and pushed filters as one conjunction, tested against index blocks and against rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pipeline.batches import KIND_NAMES, NEVER_NULL
from pipeline.decoder import RowSelection
from pipeline.scanner import session_bloom

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
RANGED = ("position", "start_position", "timestamp", "cluster_time")
LISTED = ("kind", "session_id", "recording", "node")
SESSIONS_MAX = 1024
KINDS_WITH = {
    "session_id": ("message", "session_open", "session_close"),
    "correlation_id": ("session_open", "timer"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = tuple[int, int]
Values = frozenset[Any] | None


def micros(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a time zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def cluster_bounds(bounds: Bounds, time_unit: int) -> Bounds:
    """Inclusive bounds in microseconds as inclusive bounds in the cluster's unit (0 ms, 1 us, 2 ns)."""
    low, high = bounds
    if time_unit == 0:
        low, high = low if low == INT64_MIN else -(-low // 1000), high if high == INT64_MAX else high // 1000
    elif time_unit == 2:
        low = max(INT64_MIN, low * 1000)
        high = INT64_MAX if high >= INT64_MAX // 1000 - 1 else high * 1000 + 999
    return low, high


@dataclass(frozen=True)
class Predicates:
    """All must hold. Ranges are inclusive; `None` for a list means any value."""

    position: Bounds = (INT64_MIN, INT64_MAX)
    start_position: Bounds = (INT64_MIN, INT64_MAX)
    timestamp: Bounds = (INT64_MIN, INT64_MAX)
    cluster_time: Bounds = (INT64_MIN, INT64_MAX)
    kind: Values = None
    session_id: Values = None
    recording: Values = None
    node: Values = None

    def narrowed(self, column: str, low: int, high: int) -> Predicates:
        """With one more range."""
        old_low, old_high = getattr(self, column)
        changes: dict[str, Any] = {column: (max(old_low, low), min(old_high, high))}
        return replace(self, **changes)

    def among(self, column: str, values: Any) -> Predicates:
        """With one more list of allowed values."""
        known = getattr(self, column)
        wanted = frozenset(values)
        changes: dict[str, Any] = {column: wanted if known is None else known & wanted}
        return replace(self, **changes)

    def times(self, time_unit: int) -> Bounds:
        """The time range in the cluster's unit."""
        low, high = cluster_bounds(self.timestamp, time_unit)
        return max(low, self.cluster_time[0]), min(high, self.cluster_time[1])

    def row_selection(self, time_unit: int) -> RowSelection:
        """The native form, for rows of one recording."""
        low, high = self.times(time_unit)
        timed = (low, high) != (INT64_MIN, INT64_MAX)
        return RowSelection(
            position_min=self.position[0],
            position_max=self.position[1],
            start_position_min=self.start_position[0],
            start_position_max=self.start_position[1],
            time_min=low if timed else None,
            time_max=high if timed else None,
            kinds=self.kind,
            sessions=self.session_id,
        )

    def blocks(self, blocks: npt.NDArray[Any], time_unit: int) -> npt.NDArray[np.bool_]:
        """Which blocks of an index can have a row that passes."""
        keep = (blocks["end"] >= self.position[0]) & (blocks["start"] < self.position[1])
        keep &= (blocks["end"] > self.start_position[0]) & (blocks["start"] <= self.start_position[1])
        low, high = self.times(time_unit)
        if (low, high) != (INT64_MIN, INT64_MAX):
            keep &= (blocks["time_max"] >= low) & (blocks["time_min"] <= high)
        if self.kind is not None:
            keep &= (blocks["kinds"] & sum(1 << KIND_NAMES.index(name) for name in self.kind)) != 0
        if self.session_id is not None:
            if not self.session_id:
                return np.zeros(len(blocks), dtype=bool)
            keep &= (blocks["session_max"] >= min(self.session_id)) & (blocks["session_min"] <= max(self.session_id))
            keep &= (blocks["session_bloom"] & session_bloom(self.session_id)) != 0
        return np.asarray(keep, dtype=bool)


def _number(column: str, value: Any) -> int | None:
    """A filter's value as the integer the column is compared by, or None when it is of another type."""
    if column == "timestamp":
        return micros(value) if isinstance(value, datetime) else None
    if isinstance(value, bool | date):
        return None
    return value if isinstance(value, int) else None


def _range_of(condition: Filter, number: int) -> Bounds | None:
    if isinstance(condition, EqualTo):
        return number, number
    if isinstance(condition, GreaterThan):
        return (number + 1, INT64_MAX) if number < INT64_MAX else (INT64_MAX, INT64_MIN)
    if isinstance(condition, GreaterThanOrEqual):
        return number, INT64_MAX
    if isinstance(condition, LessThan):
        return (INT64_MIN, number - 1) if number > INT64_MIN else (INT64_MAX, INT64_MIN)
    if isinstance(condition, LessThanOrEqual):
        return INT64_MIN, number
    return None


def push(predicates: Predicates, condition: Filter) -> Predicates | None:
    """The predicates with a Spark filter taken over whole, or None when Spark has to evaluate it."""
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None
    column = attribute[0]
    if isinstance(condition, IsNotNull):
        return _push_not_null(predicates, column)
    if column in RANGED:
        number = _number(column, getattr(condition, "value", None))
        bounds = None if number is None else _range_of(condition, number)
        return None if bounds is None else predicates.narrowed(column, *bounds)
    if column in LISTED:
        return _push_list(predicates, column, condition)
    return None


def _push_not_null(predicates: Predicates, column: str) -> Predicates | None:
    """Which records have a column is known from their kind, or from having a time at all."""
    if column in NEVER_NULL:
        return predicates
    if column in ("timestamp", "cluster_time", "leadership_term"):
        return predicates.narrowed("cluster_time", INT64_MIN + 1, INT64_MAX)
    if column in KINDS_WITH:
        return predicates.among("kind", KINDS_WITH[column])
    return None


def _push_list(predicates: Predicates, column: str, condition: Filter) -> Predicates | None:
    if isinstance(condition, EqualTo):
        values = [condition.value]
    elif isinstance(condition, In):
        values = [value for value in condition.value if value is not None]
    else:
        return None
    wanted = str if column in ("kind", "node") else int
    if not all(isinstance(value, wanted) and not isinstance(value, bool) for value in values):
        return None
    if column == "kind":
        values = [value for value in values if value in KIND_NAMES]
    if column == "session_id" and len(values) > SESSIONS_MAX:
        return None
    return predicates.among(column, values)

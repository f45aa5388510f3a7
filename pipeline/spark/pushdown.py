"""Which of Spark's filters a read takes over."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

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

from ordo.pipeline.decoding.batches import KIND_NAMES, NEVER_NULL
from ordo.pipeline.recordings.predicates import INT64_MAX, INT64_MIN, Bounds, Predicates, micros

RANGED = ("position", "start_position", "timestamp", "cluster_time")
LISTED = ("kind", "session_id", "recording", "node")
SESSIONS_MAX = 1024
KINDS_WITH = {
    "session_id": ("message", "session_open", "session_close", "request", "identity"),
    "correlation_id": ("session_open", "timer", "request"),
}


def _number(column: str, value: Any) -> int | None:
    """Return a filter's value as the integer the column is compared by, or None when it is of another type."""
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
    """Return the predicates with a Spark filter taken over whole, or None when Spark has to evaluate it."""
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

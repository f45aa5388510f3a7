"""Diff: compares what two logs contain, record by record, and shows where they differ.

Unlike the audit, which compares members of one cluster byte by byte at the same positions, this compares what was
sequenced: logs of two clusters, of a run and its repetition, or before and after a migration. Times and positions are
compared only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.sql.local import LocalLog

COMPARABLE = ("kind", "session_id", "payload", "correlation_id", "leadership_term", "timestamp", "position")
COMPARED_DEFAULT = ("kind", "session_id", "payload")
Row = dict[str, Any]


def diff(left: LocalLog, right: LocalLog, compare: Iterable[str] = COMPARED_DEFAULT, limit: int = 10) -> dict[str, Any]:
    """`status` same or differs, how many records each has, and the first `limit` pairs that differ.

    The status is `not compared` where neither has any record.

    Both logs have to be read with the columns compared and `position`. A record more or less on one side makes all
    behind it differ: the first difference is what counts.
    """
    columns = checked_columns(compare)
    counts, differing = [0, 0], 0
    found: list[dict[str, Any]] = []
    for number, pair in enumerate(zip_longest(_rows(left), _rows(right))):
        for side, row in enumerate(pair):
            counts[side] += row is not None
        fields = _differing(pair[0], pair[1], columns)
        differing += bool(fields)
        if fields and len(found) < limit:
            found.append({"record": number, "fields": fields, "left": _shown(pair[0]), "right": _shown(pair[1])})
    status = "differs" if differing else "same" if any(counts) else "not compared"
    return {
        "status": status, "compared": list(columns), "left_records": counts[0],
        "right_records": counts[1], "differing": differing, "differences": found,
    }  # fmt: skip


def checked_columns(compare: Iterable[str]) -> tuple[str, ...]:
    """Raise PipelineError for a column that is none, or cannot be compared."""
    columns = tuple(compare)
    for name in columns:
        if name not in COMPARABLE:
            raise PipelineError(f"compare={name!r}: allowed are {', '.join(COMPARABLE)}")
    if not columns:
        raise PipelineError(f"compare: name at least one of {', '.join(COMPARABLE)}")
    return columns


def _rows(log: LocalLog) -> Iterator[Row]:
    batch: pa.RecordBatch
    for batch in log.batches():
        yield from batch.to_pylist()


def _differing(left: Row | None, right: Row | None, columns: tuple[str, ...]) -> list[str]:
    if left is None or right is None:
        return ["record"]
    return [name for name in columns if left[name] != right[name]]


def _shown(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def describe(difference: dict[str, Any]) -> str:
    """Return one line for a pair that differs."""
    sides = []
    for side in ("left", "right"):
        row = difference[side]
        if row is None:
            sides.append(f"{side} has no record")
        else:
            names = [name for name in difference["fields"] if name in row] or ["kind"]
            values = ", ".join(f"{name}={row[name]}" for name in names)
            sides.append(f"{side} at position {row['position']}: {values}")
    return f"record {difference['record']:,}: {'; '.join(sides)}"

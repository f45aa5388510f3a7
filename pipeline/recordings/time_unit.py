"""The unit of a cluster's clock, which the log itself tells."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.recordings.recordings import Recording, open_cursor
from ordo.runtime.native.cluster_time import TimeUnit

_PROBE_BYTES = 4 << 20
_TIME_UNIT_OFFSET = 8 + 40


def time_unit_of(recording: Recording) -> int:
    """Return the unit of the cluster's clock: 0 ms, 1 us, 2 ns. Looks near the start of a recording."""
    for segment in recording.segments():
        if not segment.present:
            continue
        end = min(segment.end, segment.start + _PROBE_BYTES)

        def cursor() -> MessageCursor:
            return open_cursor(segment, recording.descriptor, segment.start, end, False, False)  # noqa: B023

        return time_unit_of_cursors(cursor, recording.is_log) or 0
    return 0


def time_unit_of_cursors(open_cursor: Callable[[], MessageCursor], is_log: bool) -> int | None:
    """Return the unit, from the first messages of a log; None when no record there tells.

    From the first new-term record (cluster-consensus.md §11), unless the log went over to a finer unit there and what
    precedes it was not all purged; where there is none, from the size of the first timestamp, which tells epoch
    milliseconds, microseconds and nanoseconds apart.
    """
    term = _first_row(open_cursor(), is_log, ("payload", "cluster_time"), RowSelection(kinds=("new_term",)))
    first = _first_row(open_cursor(), is_log, ("cluster_time",), RowSelection(time_min=-(1 << 63)))
    begun = None if first is None else TimeUnit.of_timestamp(first["cluster_time"])
    if term is None:
        return begun
    unit = int(struct.unpack_from("<i", term["payload"], _TIME_UNIT_OFFSET)[0])
    is_told_by_size = TimeUnit.of_timestamp(term["cluster_time"]) == unit
    return begun if is_told_by_size and begun is not None else unit


def moment(cluster_time: int) -> datetime | int:
    """Return the time in UTC; the number itself where it is no time of the calendar."""
    try:
        return TimeUnit.of_timestamp(abs(cluster_time)).to_datetime(cluster_time)
    except OverflowError:
        return cluster_time


def _first_row(
    cursor: MessageCursor, is_log: bool, columns: tuple[str, ...], rows: RowSelection
) -> dict[str, Any] | None:
    decoder = RecordDecoder(cursor, rows, BatchBuilder(columns, 0, "", 0, 1), is_log)
    if cursor.fault:
        return None
    batch = decoder.next_batch()
    return batch.slice(0, 1).to_pylist()[0] if batch is not None else None

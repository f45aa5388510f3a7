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

    From the first new-term record (cluster-consensus.md §11); where that was purged, from the size of the first
    timestamp, which tells epoch milliseconds, microseconds and nanoseconds apart.
    """
    for columns, kinds in ((("payload",), ("new_term",)), (("cluster_time",), None)):
        row = _first_row(open_cursor(), is_log, columns, kinds)
        if row is None:
            continue
        if kinds:
            return int(struct.unpack_from("<i", row["payload"], _TIME_UNIT_OFFSET)[0])
        if row["cluster_time"] is not None:
            return TimeUnit.of_timestamp(row["cluster_time"])
    return None


def moment(cluster_time: int) -> datetime | int:
    """Return the time in UTC; the number itself where it is no time of the calendar."""
    try:
        return TimeUnit.of_timestamp(abs(cluster_time)).to_datetime(cluster_time)
    except OverflowError:
        return cluster_time


def _first_row(
    cursor: MessageCursor, is_log: bool, columns: tuple[str, ...], kinds: tuple[str, ...] | None
) -> dict[str, Any] | None:
    decoder = RecordDecoder(cursor, RowSelection(kinds=kinds), BatchBuilder(columns, 0, "", 0, 1), is_log)
    if cursor.fault:
        return None
    batch = decoder.next_batch()
    return batch.slice(0, 1).to_pylist()[0] if batch is not None else None

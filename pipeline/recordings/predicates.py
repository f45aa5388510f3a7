"""What a read wants: options as one conjunction, tested against index blocks and against rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from ordo.pipeline.decoding.batches import KIND_NAMES
from ordo.pipeline.decoding.decoder import RowSelection
from ordo.pipeline.decoding.scanner import session_bloom
from ordo.runtime.native.cluster_time import MICROS_MIN, NANOS_MIN, TimeUnit

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = tuple[int, int]
Values = frozenset[Any] | None


def micros(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a time zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def cluster_micros(times: npt.NDArray[np.int64], time_unit: int) -> npt.NDArray[np.int64]:
    """Return timestamps of a log in microseconds, rounded down, where the log began with this unit (0 ms, 1 us, 2 ns).

    It may have gone over to a finer one since, which the size of a timestamp tells. The least and the greatest number
    stay what they are: they stand for blocks without times.
    """
    is_ns = (times >= NANOS_MIN) | (time_unit == TimeUnit.NANOS)
    is_ms = (times < MICROS_MIN) & (time_unit == TimeUnit.MILLIS)
    found = np.where(is_ms, np.maximum(times, INT64_MIN // 1000) * 1000, np.where(is_ns, times // 1000, times))
    return np.where((times == INT64_MIN) | (times == INT64_MAX), times, found)


@dataclass(frozen=True)
class Predicates:
    """All must hold. Ranges are inclusive; `None` for a list means any value."""

    position: Bounds = (INT64_MIN, INT64_MAX)
    timestamp: Bounds = (INT64_MIN, INT64_MAX)
    kind: Values = None
    session_id: Values = None

    def narrowed(self, column: str, low: int, high: int) -> Predicates:
        """Return the predicates with one more range."""
        old_low, old_high = getattr(self, column)
        changes: dict[str, Any] = {column: (max(old_low, low), min(old_high, high))}
        return replace(self, **changes)

    def among(self, column: str, values: Any) -> Predicates:
        """Return the predicates with one more list of allowed values."""
        known = getattr(self, column)
        wanted = frozenset(values)
        changes: dict[str, Any] = {column: wanted if known is None else known & wanted}
        return replace(self, **changes)

    @property
    def row_selection(self) -> RowSelection:
        """Return the selection that the native decoder applies to the rows of one recording."""
        low, high = self.timestamp
        timed = (low, high) != (INT64_MIN, INT64_MAX)
        return RowSelection(
            position_min=self.position[0],
            position_max=self.position[1],
            time_min=low if timed else None,
            time_max=high if timed else None,
            kinds=self.kind,
            sessions=self.session_id,
        )

    def blocks(self, blocks: npt.NDArray[Any], time_unit: int) -> npt.NDArray[np.bool_]:
        """Which blocks of an index can have a row that passes."""
        keep = (blocks["end"] >= self.position[0]) & (blocks["start"] < self.position[1])
        low, high = self.timestamp
        if (low, high) != (INT64_MIN, INT64_MAX):
            first, last = (cluster_micros(blocks[one], time_unit) for one in ("time_min", "time_max"))
            keep &= (last >= low) & (first <= high)
        if self.kind is not None:
            keep &= (blocks["kinds"] & sum(1 << KIND_NAMES.index(name) for name in self.kind)) != 0
        if self.session_id is not None:
            if not self.session_id:
                return np.zeros(len(blocks), dtype=bool)
            keep &= (blocks["session_max"] >= min(self.session_id)) & (blocks["session_min"] <= max(self.session_id))
            keep &= (blocks["session_bloom"] & session_bloom(self.session_id)) != 0
        return np.asarray(keep, dtype=bool)

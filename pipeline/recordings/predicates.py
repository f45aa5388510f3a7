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

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
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

    def times(self, time_unit: int) -> Bounds:
        """Return the range of times, in the unit of the cluster's timestamps."""
        return cluster_bounds(self.timestamp, time_unit)

    def row_selection(self, time_unit: int) -> RowSelection:
        """Return the selection that the native decoder applies to the rows of one recording."""
        low, high = self.times(time_unit)
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

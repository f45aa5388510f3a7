"""Round trips as a histogram and as the percentiles every figure of Ordo states."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hdrh.histogram import HdrHistogram

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
HIGHEST_NS = 60_000_000_000


def new_histogram() -> HdrHistogram:
    """Nanoseconds from 1 to a minute, to three digits."""
    return HdrHistogram(1, HIGHEST_NS, 3)


def record(histogram: HdrHistogram, values_ns: Iterable[int]) -> None:
    """Add values; what is beyond a minute counts as a minute."""
    for value_ns in values_ns:
        histogram.record_value(min(max(value_ns, 1), HIGHEST_NS))


def value_at_ns(histogram: HdrHistogram, percentile: float) -> int:
    """Return the lowest value that at least this percentage of all values does not exceed, as Java's histogram does.

    The Python one rounds the rank to the nearest: of 600 values it calls the 599th the 99.9th percentile.
    """
    count = histogram.get_total_count()
    rank = math.ceil(round(percentile * count, 6) / 100)
    return int(histogram.get_value_at_percentile(100.0 * rank / count)) if count else 0


def percentiles_us(histogram: HdrHistogram) -> dict[str, float]:
    """Microseconds by percentile, with the number of samples as `count`."""
    values: dict[str, float] = {
        name: round(value_at_ns(histogram, percentile) / 1000, 1) for name, percentile in PERCENTILES.items()
    }
    return values | {"max": round(histogram.get_max_value() / 1000, 1), "count": histogram.get_total_count()}

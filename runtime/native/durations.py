"""A reading of a histogram of durations: counts by bucket, their sum, and percentiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

BUCKET_COUNT = 48
BOUNDS_NS = tuple((1024, 1536)[index % 2] << (index // 2) for index in range(BUCKET_COUNT - 1))
"""Upper bounds of all buckets but the last, which has none (runtime/native/histogram.pxd)."""


@dataclass(frozen=True)
class Durations:
    """A histogram as it was when it was read."""

    sum_ns: int
    counts: tuple[int, ...]

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield, for each bucket, its upper bound in seconds and how many durations are below it.

        The last bound is infinite.
        """
        bounds = (*(bound / 1e9 for bound in BOUNDS_NS), float("inf"))
        return zip(bounds, accumulate(self.counts), strict=True)

    def since(self, before: Durations) -> Durations:
        """Return what was added after an earlier reading.

        Everything, if that was another histogram's, from before a restart.
        """
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return self if min(counts) < 0 else Durations(self.sum_ns - before.sum_ns, counts)

    def percentile_ns(self, share: float) -> int | None:
        """Return the duration that this share of all, 0 to 1, does not exceed; None without durations.

        In ns, the upper bound of its bucket.
        """
        wanted = self.count * share
        if not self.count:
            return None
        index = next(index for index, below in enumerate(accumulate(self.counts)) if below >= wanted)
        return BOUNDS_NS[min(index, len(BOUNDS_NS) - 1)]

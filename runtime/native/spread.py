"""Durations that native code has counted by buckets (spread.pxd), and percentiles of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SIGN_BUCKETS = 7424
"""The buckets of durations from 0 on; those of negative ones follow."""


@dataclass(frozen=True)
class Spread:
    """The longest of some durations, and how many are in each bucket; at least one is."""

    longest: int
    counts: Mapping[int, int]

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    @property
    def negative_count(self) -> int:
        return sum(count for bucket, count in self.counts.items() if bucket >= SIGN_BUCKETS)

    def percentile(self, share: float) -> int:
        """Return what this share of the durations, 0 to 1, does not exceed: up to 1/128 more than the one there."""
        wanted, below = share * self.count, 0
        for end, bucket in sorted((bucket_end(bucket), bucket) for bucket in self.counts):
            below += self.counts[bucket]
            if below >= wanted:
                return min(end, self.longest)
        return self.longest


def bucket_end(bucket: int) -> int:
    """Return the longest duration that may be in a bucket."""
    place = bucket % SIGN_BUCKETS
    shift = max((place >> 7) - 1, 0)
    least = (place - (shift << 7)) << shift
    return -least if bucket >= SIGN_BUCKETS else least + (1 << shift) - 1


def joined(spreads: Iterable[Spread]) -> Spread:
    """Return all durations of some spreads, at least one."""
    pieces = list(spreads)
    counts: Counter[int] = Counter()
    for piece in pieces:
        counts.update(piece.counts)
    return Spread(max(piece.longest for piece in pieces), counts)

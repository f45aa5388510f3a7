"""Histograms among the numbers that a member reports about itself: one number for each bucket in use."""

from __future__ import annotations

from collections.abc import Mapping

from ordo.runtime.native.durations import BUCKET_COUNT, Durations


def durations_to_numbers(read: Mapping[str, Durations]) -> dict[str, int]:
    """Return the counts by stage and number of the bucket, as in commit_bucket_17."""
    return {
        f"{stage}_bucket_{index}": count
        for stage, durations in read.items()
        for index, count in enumerate(durations.counts)
        if count
    }


def durations_from_numbers(numbers: Mapping[str, int], stage: str) -> Durations:
    """Return the durations of a stage, empty if the member sent none. The sum is not sent."""
    return Durations(0, tuple(max(0, numbers.get(f"{stage}_bucket_{index}", 0)) for index in range(BUCKET_COUNT)))

"""Histograms of durations: every duration is in the bucket that its bounds say, and percentiles are bounds above it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.native.durations import BOUNDS_NS, BUCKET_COUNT, Durations
from ordo.runtime.native.histogram import LENGTH_BYTES, Histogram
from ordo.runtime.native.memory import allocate

DURATIONS = st.lists(st.one_of(st.integers(0, 10_000), st.integers(0, 20_000_000_000)), max_size=40)


def test_bounds_are_two_an_octave() -> None:
    assert BOUNDS_NS[:5] == (1024, 1536, 2048, 3072, 4096)
    assert len(BOUNDS_NS) == BUCKET_COUNT - 1
    assert BOUNDS_NS[-1] == 1 << 33


@given(DURATIONS)
def test_each_duration_is_counted_below_its_bound(durations: list[int]) -> None:
    histogram = Histogram(allocate(LENGTH_BYTES + 64), 64)
    for duration_ns in durations:
        histogram.note(duration_ns)
    found = Durations(*histogram.read())
    assert (found.sum_ns, found.count) == (sum(durations), len(durations))
    expected = [sum(one < bound for one in durations) for bound in BOUNDS_NS]
    assert [below for _, below in found.cumulative()] == [*expected, len(durations)]


@given(DURATIONS.filter(bool), st.floats(0.01, 1.0))
def test_a_percentile_is_the_bound_above_what_it_is_of(durations: list[int], share: float) -> None:
    histogram = Histogram(allocate(LENGTH_BYTES), 0)
    for duration_ns in durations:
        histogram.note(duration_ns)
    found = Durations(*histogram.read()).percentile_ns(share)
    exact = next(one for index, one in enumerate(sorted(durations), 1) if index >= share * len(durations))
    assert found == next((bound for bound in BOUNDS_NS if exact < bound), BOUNDS_NS[-1])


def test_what_came_since_a_look_and_after_a_restart() -> None:
    before = Durations(10, (2, *[0] * (BUCKET_COUNT - 1)))
    now = Durations(30, (3, 1, *[0] * (BUCKET_COUNT - 2)))
    assert now.since(before) == Durations(20, (1, 1, *[0] * (BUCKET_COUNT - 2)))
    assert before.since(now) == before, "the counts began anew"
    assert Durations(0, (0,) * BUCKET_COUNT).percentile_ns(0.5) is None


def test_it_stays_within_its_memory() -> None:
    for offset in (-8, 4, 8):
        with pytest.raises(ValueError, match="offset="):
            Histogram(allocate(LENGTH_BYTES), offset)
    histogram = Histogram(allocate(LENGTH_BYTES).slice(0, LENGTH_BYTES, False), 0)
    with pytest.raises(ValueError, match="reading"):
        histogram.note(1)

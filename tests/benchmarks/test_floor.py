"""The floor benchmark, small."""

from array import array

import pytest

from ordo.bench.floor import measure_floor
from ordo.bench.loads.floor_native import drive
from ordo.bench.loads.latency import new_histogram, percentiles_us, record, value_at_ns


@pytest.mark.parametrize("size_bytes", [32, 1024])
def test_four_hops_are_measured(size_bytes: int) -> None:
    result = measure_floor(size_bytes, 200)
    assert result["count"] + result["lost"] == 200
    assert 1 < result["p50"] <= result["p90"] <= result["p99"] <= result["max"]


def test_a_datagram_too_small_for_its_header_is_refused() -> None:
    with pytest.raises(ValueError, match="size_bytes=8: 9 to 65507"):
        drive(0, 1, 8, 0, 0, array("q", bytes(8)))


def test_percentiles_are_in_microseconds() -> None:
    histogram = new_histogram()
    record(histogram, [1_000] * 99 + [500_000, 10**12])
    values = percentiles_us(histogram)
    assert values["p50"] == 1.0
    assert values["p99"] == pytest.approx(500, rel=0.01)
    assert values["max"] == pytest.approx(60_000_000, rel=0.01)
    assert values["count"] == 101


@pytest.mark.parametrize(
    "percentile, value", [(0.0, 1), (0.2, 2), (50.0, 300), (99.0, 594), (99.8, 599), (99.9, 600), (100.0, 600)]
)
def test_percentiles_are_those_of_the_histogram_in_java(percentile: float, value: int) -> None:
    """The values are what HdrHistogram 2.2.2 for Java says of 1 to 600."""
    histogram = new_histogram()
    record(histogram, range(1, 601))
    assert value_at_ns(histogram, percentile) == value
    assert value_at_ns(new_histogram(), percentile) == 0

"""System calls beside io_uring: that both are measured, not which is quicker."""

from pathlib import Path

import pytest

from benchmarks.rings import MeasurementError, measure

CASES = ("datagrams", "round trip", "synced write")


def test_both_ways_are_measured_and_a_ring_takes_one_call(tmp_path: Path) -> None:
    try:
        rows = measure(tmp_path, 1, 40)
    except MeasurementError as error:
        pytest.skip(str(error))
    assert [(row[0], row[1]) for row in rows] == [(case, way) for case in CASES for way in ("plain", "io_uring")]
    calls = {(row[0], row[1]): float(row[4]) for row in rows}
    assert calls["round trip", "plain"] == 3
    assert 1 <= calls["round trip", "io_uring"] < 2
    assert all(float(figure.replace(",", "")) > 0 for row in rows for figure in row[2:])
    assert not list(tmp_path.iterdir()), "nothing is left behind"

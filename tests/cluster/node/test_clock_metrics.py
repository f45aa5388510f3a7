"""What `/metrics` says of the machine's clock, whatever the kernel tells, while no node runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ordo.cluster.monitoring import metrics
from ordo.cluster.monitoring.metrics import exposition
from ordo.cluster.monitoring.observation import Subject
from ordo.runtime.native.kernel_clock import ClockQuality


def clock_values(folder: Path, monkeypatch: pytest.MonkeyPatch, told: ClockQuality | None) -> dict[str, str]:
    monkeypatch.setattr(metrics, "read_clock_quality", lambda: told)
    text = exposition(Subject(2, 7, folder, folder, clock_error_ns_max=100_000)).decode()
    found = re.findall(r'^ordo_clock_(\w+){cluster="7",member="2"} (\S+)$', text, re.MULTILINE)
    return {name: value for name, value in found if name != "seconds"}


def test_what_the_kernel_tells_is_shown_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = clock_values(tmp_path, monkeypatch, ClockQuality(True, -2_500, 20_000, 1_500_000))
    assert {name: pytest.approx(float(value)) for name, value in values.items()} == {
        "synchronized": 1,
        "offset_seconds": -2.5e-6,
        "error_estimate_seconds": 20e-6,
        "error_bound_seconds": 1.5e-3,
        "error_limit_seconds": 100e-6,
    }
    free = clock_values(tmp_path, monkeypatch, ClockQuality(False, 0, 16_000_000_000, 16_000_000_000))
    assert (free["synchronized"], free["error_bound_seconds"]) == ("0.0", "16.0")


def test_a_kernel_that_does_not_tell_is_shown_as_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = clock_values(tmp_path, monkeypatch, None)
    assert values.pop("error_limit_seconds") == "0.0001"
    assert values == {
        "synchronized": "-1.0",
        "offset_seconds": "NaN",
        "error_estimate_seconds": "NaN",
        "error_bound_seconds": "NaN",
    }

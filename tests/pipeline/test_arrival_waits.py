"""The audit says how long messages took from their arrival at the leader to their timestamp."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ordo.cluster.wire import ordo_codecs
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs.audit import Arrivals, audit
from ordo.pipeline.jobs.audit_report import describe_arrivals, find_arrivals, write_report
from ordo.pipeline.pipeline_commands import app
from ordo.runtime.native.cluster_time import TimeUnit
from tests.sequencer.request_log import with_arrival

SECOND = 1_700_000_000
NAMES = ("resolution_ns", "messages", "p50_ns", "p99_ns", "max_ns", "before_arrival")
ANY_TIME = st.integers(-(2**63), 2**63 - 1)
WAITS = st.one_of(st.integers(-2_000_000, 2_000_000), st.integers(0, 600), st.integers(-(10**15), 10**15))


def write_log(folder: Path, unit: TimeUnit, waits_ns: Iterable[int | None], *, payload: bytes = b"a") -> str:
    """A log of messages that took so long each from their arrival to the beginning of their timestamp's unit, in small
    segments; None: without an arrival."""
    with RecordingBuilder(str(folder), term_length=1 << 16, segment_length=1 << 16) as builder:
        time = unit.duration(seconds=SECOND)
        builder.append(new_term(0, 0, time, 0, 55, int(unit)))
        for wait_ns in waits_ns:
            record = session_message(0, 1, time, payload)
            builder.append(record if wait_ns is None else with_arrival(record, unit.to_ns(time) - wait_ns))
    return str(folder)


def arrivals_of(folder: str) -> list[Arrivals]:
    facts = audit(None, [folder])
    assert facts["status"] == "clean"
    return find_arrivals(facts["nodes"])


def exact(waits_ns: list[int], share: float) -> int:
    return sorted(waits_ns)[math.ceil(share * len(waits_ns)) - 1]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TimeUnit), st.lists(WAITS, min_size=1, max_size=120))
def test_figures_are_the_waits_up_to_the_end_of_the_unit_and_a_bucket(unit: TimeUnit, begun: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (found,) = arrivals_of(write_log(Path(folder), unit, [None, *begun, None]))
    waits = [wait_ns + unit.length_ns - 1 for wait_ns in begun]
    assert tuple(found) == NAMES
    assert (found["resolution_ns"], found["messages"]) == (unit.length_ns, len(waits))
    assert (found["max_ns"], found["before_arrival"]) == (max(waits), sum(one < 0 for one in waits))
    for value, share in ((found["p50_ns"], 0.5), (found["p99_ns"], 0.99)):
        wanted = exact(waits, share)
        assert wanted <= value <= min(wanted + abs(wanted) // 128, max(waits)), share


def test_a_log_without_arrivals_has_none(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "archive", TimeUnit.NANOS, [None] * 9)
    assert arrivals_of(folder) == [] == describe_arrivals([])
    page = Path(write_report(audit(None, [folder]), str(tmp_path / "report"))).read_text()
    assert "From arrival" not in page and "arrival:" not in page
    done = CliRunner().invoke(app, ["audit", folder, "--engine", "local", "--report", str(tmp_path / "report")])
    assert done.exit_code == 0 and "arrival:" not in done.output


def test_the_command_and_the_page_say_it_in_words(tmp_path: Path) -> None:
    waits = [200_000] * 90 + [400_000] * 9 + [-3_000_000]
    folder = write_log(tmp_path / "archive", TimeUnit.MILLIS, waits)
    report = tmp_path / "report"
    done = CliRunner().invoke(app, ["audit", folder, "--engine", "local", "--report", str(report)])
    said = (
        "arrival: of 100 messages half were sequenced within 1.204 ms of their arrival at the leader, 99 % within "
        "1.400 ms, all within 1.400 ms; cluster time is to 1 ms here, and may be off the wall clock that arrivals are "
        "by; 1 have a timestamp before their arrival"
    )
    assert said in done.output.splitlines()
    page = (report / "audit.html").read_text()
    assert "<h2>From arrival to timestamp</h2>" in page and said in page


def test_requests_count_and_each_unit_has_its_own_figures(tmp_path: Path) -> None:
    """A log that went over from milliseconds to nanoseconds."""
    millis, nanos = SECOND * 1000, SECOND * 10**9
    fields = {"open_position": 0, "number": 1, "confirmed": 0, "leadership_term_id": 1, "cluster_session_id": 1}
    with RecordingBuilder(str(tmp_path)) as builder:
        builder.append(new_term(0, 0, millis, 0, 55, int(TimeUnit.MILLIS)))
        builder.append(with_arrival(session_message(0, 1, millis, b"a"), nanos - 7))
        begin = builder.writer.position
        builder.append(new_term(1, begin, nanos, 0, 55, int(TimeUnit.NANOS)))
        request = ordo_codecs.REQUEST.encode(timestamp=nanos + 50, **fields)
        builder.append(with_arrival(request + b"b", nanos - 50))
    assert [tuple(one.values()) for one in arrivals_of(str(tmp_path))] == [
        (1_000_000, 1, 1_000_006, 1_000_006, 1_000_006, 0),
        (1, 1, 100, 100, 100, 0),
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ANY_TIME, ANY_TIME), min_size=1, max_size=9))
def test_times_from_outside_are_only_figures(times: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with RecordingBuilder(folder) as builder:
            builder.append(new_term(0, 0, -(2**63), 0, 55, int(TimeUnit.MILLIS)))
            for time, arrival_ns in sorted(times):
                builder.append(with_arrival(session_message(0, 1, time, b"a"), arrival_ns))
        found = arrivals_of(folder)
    assert sum(one["messages"] for one in found) == sum(arrival_ns > 0 for _, arrival_ns in times)
    assert all(one["p50_ns"] >= -(2**63) and one["max_ns"] < 2**63 for one in found)
    assert all(one["p50_ns"] <= one["p99_ns"] <= one["max_ns"] for one in found)


@pytest.mark.spark
def test_both_engines_say_the_same_over_many_segments(spark: SparkSession, tmp_path: Path) -> None:
    waits: list[int | None] = [None if number % 3 == 0 else number * 1_000 for number in range(60)]
    folder = write_log(tmp_path, TimeUnit.MICROS, waits, payload=bytes(8_000))
    facts: dict[str, Any] = audit(None, [folder])
    assert len(facts["nodes"][0]["segments"]) > 5
    (found,) = find_arrivals(facts["nodes"])
    assert (found["messages"], found["max_ns"]) == (40, 59_999)
    assert audit(spark, [folder]) == facts

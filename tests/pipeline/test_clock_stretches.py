"""The audit says for each stretch of a log how well its time was known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import write_report
from ordo.pipeline.jobs.clock_stretches import Stretch, describe_clocks, find_clocks
from ordo.runtime.native.cluster_time import TimeUnit

T = 1_700_000_000
UNKNOWN = {
    "source": ClockSource.NONE,
    "is_synchronized": 0,
    "offset_ns": 0,
    "error_estimate_ns": 0,
    "error_bound_ns": 0,
}


class Log:
    """A log whose times are given in seconds. `tiny`: of many segments."""

    def __init__(self, folder: Path, unit: TimeUnit = TimeUnit.MILLIS, *, tiny: bool = False) -> None:
        self.folder = str(folder)
        length = 1 << 16 if tiny else 1 << 20
        self._builder = RecordingBuilder(self.folder, term_length=length, segment_length=length).__enter__()
        self._unit = unit
        self._term = 0

    def _time(self, second: float) -> int:
        return self._unit.duration(seconds=T + second)

    def term(self, term: int, second: float, leader: int) -> int:
        self._term = term
        position = self._builder.writer.position
        self._builder.append(new_term(term, position, self._time(second), leader, 55, int(self._unit)))
        return position

    def message(self, second: float, payload: bytes = b"a") -> int:
        position = self._builder.writer.position
        self._builder.append(session_message(self._term, 1, self._time(second), payload))
        return position

    def report(self, second: float, member: int = 0, **values: int) -> int:
        position = self._builder.writer.position
        told = {
            "offset_ns": -5, "error_estimate_ns": 20, "error_bound_ns": 300, "wall_clock_ahead_ns": -4_000,
            "interval_ns": 10_000_000_000, "source": ClockSource.KERNEL, "is_synchronized": 1,
        }  # fmt: skip
        self._builder.append(
            ordo_codecs.CLOCK_EVENT.encode(
                leadership_term_id=self._term, timestamp=self._time(second), member_id=member, **{**told, **values}
            )
        )
        return position

    def stretches(self) -> list[Stretch]:
        self._builder.__exit__(None, None, None)
        facts = audit(None, [self.folder])
        assert facts["status"] == "clean"
        return find_clocks(facts["nodes"])


def brief(stretches: list[Stretch]) -> list[tuple[int, str, int]]:
    return [(one["position"], one["clock"], one["reports"]) for one in stretches]


@pytest.mark.parametrize("unit", TimeUnit)
def test_who_stamped_and_the_worst_that_was_reported(tmp_path: Path, unit: TimeUnit) -> None:
    log = Log(tmp_path, unit)
    log.term(0, 0, 2)
    log.report(0, 2)
    log.message(5)
    log.report(10, 2, error_bound_ns=7_000, wall_clock_ahead_ns=0, offset_ns=9, error_estimate_ns=10)
    second = log.term(1, 12, 1)
    log.report(12, 1)
    log.message(13)
    assert log.stretches() == [
        {
            "position": 0, "cluster_time": unit.duration(seconds=T), "leadership_term": 0, "member": 2,
            "clock": "synchronized", "reports": 2, "error_ns": 7_000, "error_bound_ns": 7_000, "error_estimate_ns": 20,
            "offset_ns": 9, "wall_clock_ahead_ns": 4_000,
        },
        {
            "position": second, "cluster_time": unit.duration(seconds=T + 12), "leadership_term": 1, "member": 1,
            "clock": "synchronized", "reports": 1, "error_ns": 4_300, "error_bound_ns": 300, "error_estimate_ns": 20,
            "offset_ns": 5, "wall_clock_ahead_ns": 4_000,
        },
    ]  # fmt: skip


def test_clocks_that_are_not_synchronized_or_not_told_are_stretches_of_their_own(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.term(0, 0, 0)
    log.report(0)
    free = log.report(10, is_synchronized=0)
    log.message(11)
    log.report(20, is_synchronized=0)
    silent = log.report(30, **UNKNOWN)
    again = log.report(40)
    found = log.stretches()
    assert brief(found) == [
        (0, "synchronized", 1), (free, "not synchronized", 2), (silent, "not told", 1), (again, "synchronized", 1)
    ]  # fmt: skip
    assert found[2]["error_ns"] is None and found[1]["error_bound_ns"] == 300
    assert [line.split(",")[0] for line in describe_clocks(found)] == [
        "time: reported to be off by at most 0.004 ms where the clock was synchronized",
        "time: the clock was not synchronized in 1 of 4 stretches",
        "time: the leader's system did not tell how well the clock was known in 1 of 4 stretches",
    ]


def test_a_log_without_reports_is_one_stretch(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for term in range(3):
        log.term(term, term, term)
        log.message(term)
    found = log.stretches()
    assert brief(found) == [(0, "no report", 0)]
    assert describe_clocks(found) == [
        "time: the log does not say how well the clock was known in 1 of 1 stretches, first from position 0 on "
        "(2023-11-14 22:13:20+00:00)"
    ]


def test_a_report_holds_for_two_of_its_intervals_before_and_after_it_in_its_term(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.term(0, 0, 0)
    log.report(20)
    log.message(40)
    late = log.message(40.001)
    again = log.report(60.002)
    log.message(1000)
    log.report(1019)
    short = log.term(1, 1020, 1)
    third = log.term(2, 1021, 2)
    log.report(1021.5, 2)
    assert brief(log.stretches()) == [
        (0, "synchronized", 1), (late, "no report", 0), (again, "synchronized", 2), (short, "no report", 0),
        (third, "synchronized", 1),
    ]  # fmt: skip


def test_reports_of_former_leaders_and_earlier_terms_hold_for_nothing_else(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.term(0, 0, 0)
    log.report(0)
    second = log.term(1, 1, 1)
    log.message(2)
    assert brief(log.stretches()) == [(0, "synchronized", 1), (second, "no report", 0)]


def test_stretches_go_over_the_borders_of_segments(tmp_path: Path) -> None:
    """A segment is audited alone, and has no report, or begins with records that are near one of another segment."""
    log = Log(tmp_path / "near", tiny=True)
    log.term(0, 0, 0)
    log.report(0)
    for index in range(60):
        log.message(10 + index / 10, bytes(8_000))
    log.report(30)
    for index in range(60):
        log.message(31 + index / 10, bytes(8_000))
    assert brief(log.stretches()) == [(0, "synchronized", 2)]
    far = Log(tmp_path / "far", tiny=True)
    far.term(0, 0, 0)
    far.report(0)
    far.message(20, bytes(8_000))
    late = [far.message(21 + index, bytes(8_000)) for index in range(60)]
    end = far.report(110)
    assert brief(far.stretches()) == [(0, "synchronized", 1), (late[0], "no report", 0), (end, "synchronized", 1)]


def test_more_changes_than_a_segment_can_list_are_not_taken_for_known(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.term(0, 0, 0)
    for index in range(1_100):
        log.report(index, is_synchronized=index % 2)
    found = log.stretches()
    assert len(found) == 1023 and found[-1]["clock"] == "no report"


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_figures_from_outside_are_only_figures(tmp_path: Path, value: int) -> None:
    log = Log(tmp_path)
    log.term(0, 0, 0)
    names = ("offset_ns", "error_estimate_ns", "error_bound_ns", "wall_clock_ahead_ns", "interval_ns")
    log.report(0, **dict.fromkeys(names, value))
    log.message(1)
    found = log.stretches()
    assert found[0]["error_ns"] == found[0]["offset_ns"] == 2**63 - 1
    assert [one["clock"] for one in found[1:]] == (["no report"] if value < 0 else [])


def test_the_page_lists_the_stretches(tmp_path: Path) -> None:
    log = Log(tmp_path / "archive")
    log.term(0, 0, 2)
    log.report(0, 2)
    log.stretches()
    page = Path(write_report(audit(None, [log.folder]), str(tmp_path / "report"))).read_text()
    assert "<h2>Clocks</h2>" in page and "stamped by member 2; worst from position 0 on" in page

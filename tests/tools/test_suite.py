"""The suite as a program: what a run of two tiers ends with, and what the runs beside busy loops say."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tools.suite import NO_TESTS, busy_loops, failures, run_under_load, verdict

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_bad[1]"><failure message="x">no</failure></testcase>
<testcase classname="tests.a" name="test_broken"><error message="x">no</error></testcase>
<testcase classname="tests.a" name="test_left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_run_passes_when_one_tier_has_no_such_test_and_fails_when_none_has() -> None:
    assert verdict([0, 0]) == verdict([0, NO_TESTS]) == verdict([NO_TESTS, 0]) == 0
    assert verdict([NO_TESTS, NO_TESTS]) == verdict([NO_TESTS]) == NO_TESTS
    assert verdict([1, 0]) == verdict([NO_TESTS, 1]) == 1 and verdict([0, 2]) == 2 and verdict([0, -9]) == -9


def test_failures_are_read_from_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert failures(report) == ["report: the run did not end in a report"]
    report.write_text(REPORT)
    assert failures(report) == ["tests.a::test_bad[1]", "tests.a::test_broken"]
    report.write_text(REPORT[:100])
    assert failures(report) == ["report: the run did not end in a report"]


def test_busy_loops_run_and_end() -> None:
    with busy_loops(2) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert all(loop.poll() is not None for loop in loops)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        pytest.param("", 0, "2 of 2 runs passed", marks=pytest.mark.thorough),
        ("-k nothing", NO_TESTS, "0 of 2"),
    ],
)
def test_runs_beside_loops_are_counted(capfd: pytest.CaptureFixture[str], args: str, code: int, said: str) -> None:
    """Of one small file of tests, in this process's own Python."""
    args = f"tests/linearizability/test_checker.py -n0 {args}"
    options = argparse.Namespace(runs=2, loads="1", tier="deterministic", jobs=1, lanes=1, args=args)
    assert run_under_load(options) == code
    assert f"beside 1 busy loops: {said}" in capfd.readouterr().out

"""Which lane has which file of tests: those of Spark together, and whatever takes long before the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import lanes
from tests.lanes import PAGES, ROOT, SECONDS_MIN, SPARK, OneSpark, longest, rows_of, scope_of, seconds

SHORT, LONG = "tests/cli/test_remote.py", "tests/cluster/integration/test_rejoin.py"
REPORT = """<testsuites><testsuite>
<testcase classname="tests.cluster.integration.test_rejoin" name="test_a[1]" time="{long}"/>
<testcase classname="tests.cluster.integration.test_rejoin.TestIt" name="test_b" time="3.5"/>
<testcase classname="tests.cli.test_remote" name="test_c" time="{short}"/>
<testcase classname="tests.pipeline.test_jobs" name="test_d" time="30"/>
<testcase classname="tests.pipeline.test_sql" name="test_e" time="30"/>
<testcase classname="tests.gone.test_gone" name="test_f" time="99"/>
</testsuite></testsuites>"""


class Lane:
    """What a scheduler asks of a worker."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name, spec=name)
        self.given: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def test_files_that_share_a_session_of_spark_share_a_lane() -> None:
    pipeline = list((ROOT / "tests" / "pipeline").glob("test_*.py"))
    scopes = {scope_of(path.relative_to(ROOT).as_posix()) for path in pipeline}
    assert 1 < len(scopes) < len(pipeline) and SPARK in scopes
    assert scope_of("tests/pipeline/test_jobs.py") == SPARK
    assert scope_of(LONG) == LONG


def test_clusters_with_the_timeouts_of_users_share_a_lane() -> None:
    together = [path.name for path in (ROOT / "tests" / "cli").glob("test_*.py") if scope_of(str(path)) == PAGES]
    assert sorted(together) == ["test_payments.py", "test_start.py", "test_tutorial.py", "test_wait.py"]


def test_what_takes_long_is_there() -> None:
    files = [one for one in seconds() if one not in (SPARK, PAGES)]
    assert [one for one in files if not (ROOT / one).is_file()] == []
    assert [one for one in files if scope_of(one) != one] == []
    assert min(seconds().values()) >= SECONDS_MIN


def test_what_takes_long_begins_first_and_then_what_has_many_tests() -> None:
    scopes = {"a": [1], "b": [1, 2, 3], LONG: [1], "c": [1, 2]}
    found = []
    while scopes:
        found.append(longest(scopes.items()))
        del scopes[found[-1]]
    assert found == [LONG, "b", "c", "a"]


def test_a_lane_is_given_the_longest_file_first() -> None:
    few, many = f"{SHORT}::test_a", [f"tests/cli/test_output.py::test_{number}" for number in range(5)]
    tests = [*many, few, f"{LONG}::test_b", f"{LONG}::test_c", f"{LONG}::test_d"]
    config = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=True), getvalue=lambda _: ["popen", "popen"], getoption=lambda _: None
    )
    scheduler = OneSpark(config, None)
    first, second = Lane("first"), Lane("second")
    for lane in (first, second):
        scheduler.add_node(lane)
        scheduler.add_node_collection(lane, tests)
    scheduler.schedule()
    assert [tests[number] for number in first.given][:3] == tests[-3:]
    assert [tests[number] for number in second.given][:5] == many


def test_the_seconds_are_those_of_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, table = tmp_path / "report.xml", tmp_path / "seconds.txt"
    report.write_text(REPORT.format(long=SECONDS_MIN, short=SECONDS_MIN - 1))
    rows = [f"  60 {SPARK}", f"  12 {LONG}"]
    assert rows_of(report) == rows
    table.write_text("# why\n   9 gone.py\n")
    monkeypatch.setattr(lanes, "SECONDS", table)
    monkeypatch.setattr("sys.argv", ["lanes", str(report)])
    lanes.main()
    assert table.read_text().splitlines() == ["# why", *rows]

"""The tiers of tests: what a test reaches decides, however it reaches it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.conftest import GUARD
from tests.patience import COMPUTING_S, FACTOR_MAX, STARTING_S, factor, factor_of, patient
from tests.thorough import few_of
from tests.tiers import ALLOWANCES, ROOT, Kept, allowances, reached, read, tier_of
from tools.nightly import STEPS

CONFTEST = """
import subprocess
import pytest

@pytest.fixture
def node():
    return subprocess.Popen(["true"])
"""
REACHING = """
import time
import subprocess as children
from functools import partial

class Helper:
    def wait(self):
        time.sleep(1)

def help_me():
    return Helper()

LATER = partial(help_me)

def test_by_helper():
    LATER()

def test_by_fixture(node):
    pass

def test_by_alias():
    children.run(["true"])

def test_inside():
    from ordo.deploy.launcher import LocalCluster

def test_by_another_module():
    from tests.cluster.integration.agreement import await_that

def test_nothing():
    assert time.gmtime(0)
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("test_by_helper", "time.sleep"),
        ("test_by_fixture", "subprocess.Popen"),
        ("test_by_alias", "subprocess.run"),
        ("test_inside", "ordo.deploy.launcher.LocalCluster"),
        ("test_by_another_module", "time.monotonic"),
        ("test_nothing", None),
    ],
)
def test_what_a_test_reaches(tmp_path: Path, test: str, found: str | None) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    path = tmp_path / "test_reaching.py"
    path.write_text(REACHING)
    real = reached(path, (test,))
    assert found in real if found else not real, real
    assert tier_of(path, (test,), set()) == ("processes" if found else "deterministic")
    assert tier_of(path, (test,), {"spark"}) == "processes"
    assert tier_of(path, (test,), {"spark", "root"}) == "nightly"


def test_a_module_that_was_read_before_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    place, path = tmp_path / "kept", tmp_path / "module.py"
    path.write_text("def test():\n    first.call()\n")
    kept = Kept(place)
    assert kept.read(path).mentions == {"test": {"first.call"}}
    kept.save()
    again = Kept(place)
    assert again.read(path).mentions == {"test": {"first.call"}}
    path.write_text("def test():\n    another.call()\n")
    assert again.read(path).mentions == {"test": {"another.call"}}
    place.write_bytes(b"cut short")
    assert Kept(place).read(path).mentions == {"test": {"another.call"}}


def test_all_but_a_few_examples_are_left_to_the_thorough_suite(tmp_path: Path) -> None:
    path = tmp_path / "test_reaching.py"
    path.write_text(REACHING)
    marks = [{mark.name for mark in one.marks} for one in few_of(range(3), [1])]
    tiers = [tier_of(path, ("test_nothing",), names) for names in marks]
    assert tiers == ["nightly", "deterministic", "nightly"]
    with pytest.raises(AssertionError, match=r"no values: \[3\]"):
        few_of(range(3), [3])


def test_the_thorough_suite_is_passed_by_continuous_integration_and_by_night() -> None:
    assert re.search(r"^\s*step test-thorough\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert any(step.words.split()[0] == "test-thorough" for step in STEPS)


def test_every_allowance_is_needed() -> None:
    for place in allowances():
        path = ROOT / place
        names = list(read(path).mentions)
        assert reached(path, tuple(names), without_allowances=True), f"{place} in {ALLOWANCES.name} is not needed"
        assert allowances()[place], f"{place} says no reason"


def test_a_process_that_starts_is_noted() -> None:
    subprocess.run(["true"], check=True)
    assert any("subprocess.Popen" in one and "true" in one for one in GUARD.started)


def test_what_a_busy_machine_is_given() -> None:
    assert factor_of(0.0, 0.0) == 1.0 == factor_of(COMPUTING_S, STARTING_S)
    assert factor_of(3 * COMPUTING_S, 0.0) == 3.0 == factor_of(0.0, 3 * STARTING_S)
    assert factor_of(100.0, 0.0) == FACTOR_MAX == factor_of(100.0, 0.0, 1.5)
    assert factor_of(0.0, 0.0, 1.5) == 1.5 and factor_of(2 * COMPUTING_S, 0.0, 1.5) == 3.0
    assert factor_of(0.0, 0.0, 0.25) == 1.0


@pytest.mark.parametrize(("load", "is_busier"), [(0.0, False), (1000.0, True)])
def test_limits_of_waiting_follow_the_load(monkeypatch: pytest.MonkeyPatch, load: float, is_busier: bool) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert patient(2.0) == 2.0 * (FACTOR_MAX if is_busier else factor()) >= 2.0


def test_no_limit_of_a_cluster_is_shorter_than_the_run_allows() -> None:
    assert FACTOR_MAX >= LocalCluster.patience >= factor()


@pytest.mark.timeout(1000)
def test_a_limit_of_a_test_is_stretched(request: pytest.FixtureRequest) -> None:
    said = request.node.get_closest_marker("timeout")
    assert 1000 * FACTOR_MAX >= said.args[0] >= 1000 * factor()

"""Each comparison of the core off by one, each condition negated: found by unit tests, or listed with a reason.

`python -m tests.consensus.mutants --only election` shows those of one file while one works on it.
"""

import subprocess
import sys

import pytest

from tests.consensus.mutants.equivalent import EQUIVALENT
from tests.mutants.mutate import ROOT, modules, mutants_of

SAMPLE = 10


def hunt(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.consensus.mutants", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_there_are_mutants_of_every_kind_and_each_name_is_that_of_one_change() -> None:
    mutants = [one for path in modules() for one in mutants_of(path)]
    assert len(mutants) > 600
    names = {one.name for one in mutants}
    afters = [one.after for one in mutants]
    for text in (" <= ", " < ", " != ", " is not ", " not in ", "not "):
        assert any(text in after for after in afters), text
    assert EQUIVALENT.keys() <= names and len(EQUIVALENT) <= 8, "the list may only shrink"
    assert all(EQUIVALENT.values())


@pytest.mark.slow  # not for other Pythons, nor for the debug build: it looks at the tests themselves
@pytest.mark.thorough
@pytest.mark.timeout(600)  # on a busy machine
def test_a_sample_of_mutants_is_found() -> None:
    assert f"{SAMPLE} mutants, {SAMPLE} found, 0 not" in hunt("--sample", str(SAMPLE), "--seed", "1")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_mutant_is_found_or_listed() -> None:
    assert "found, 0 not" in hunt()

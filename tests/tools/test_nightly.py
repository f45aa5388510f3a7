"""The nightly run: each step has a verdict, whatever becomes of those before it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tools import nightly
from tools.nightly import STEPS, Step, figure_of, missing, page, run

PYTHON = (sys.executable, "-c")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nightly, "FOLDER", tmp_path)
    return tmp_path


def test_each_step_is_a_target() -> None:
    targets = set(re.findall(r"^([\w-]+):", (nightly.ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {step.words.split()[0] for step in STEPS} <= targets
    assert len({step.name for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize(
    ("program", "word"),
    [("print('3','passed')", "passed"), ("exit(3)", "failed"), ("while(True):pass", "not within its limit")],
)
def test_a_step_has_a_verdict(program: str, word: str, folder: Path) -> None:
    found = run(Step("one", program, 1), PYTHON, 60 if word != "not within its limit" else 0.5)
    assert found.word == word and found.took_s > 0
    assert found.figure == ("3 passed" if word == "passed" else "")
    assert (folder / "one.log").exists()


def test_a_step_without_its_tools_says_which() -> None:
    step = Step("one", "test", 1, ("sh", "no-such-program"))
    assert missing(step) == ["no-such-program"]
    assert run(step).word == "left out" and run(step).figure == "missing: no-such-program"


def test_the_page_has_a_line_for_each_step() -> None:
    steps = (Step("one", "test-one", 1), Step("two", "test-two A=1", 1))
    text = page([nightly.Verdict(steps[0], "failed", 120.0, "1 failed | 2 passed")], steps)
    assert "| [one](one.log) | failed | 2.0 | 1 failed \\| 2 passed | `make test-one` |" in text
    assert "| two | not yet | | | `make test-two A=1` |" in text


def test_the_figure_is_the_last_line_that_has_one() -> None:
    assert figure_of("== 3 passed in 2 s ==\nbye\n") == "3 passed in 2 s"
    assert figure_of("hello\nbye\n") == "bye" and figure_of("") == ""

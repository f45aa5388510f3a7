"""What `make help` shows, and that suites and benchmarks are reached by name. Nothing is built: `make -n`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tools.source import ROOT

SIX = ["build", "verify", "fix", "test", "demo", "bench"]


def make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "SUITE", "NAME")
    }
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def shown(text: str) -> list[str]:
    """The targets that the help has, as they are in the Makefile."""
    commands = re.findall(r"^  make ((?:test|bench) (?:SUITE|NAME)=\S+|\S+)  *\S", text, re.MULTILINE)
    return [re.sub(r" (SUITE|NAME)=", "-", command) for command in commands if command != "help"]


def test_help_shows_a_newcomer_six_commands() -> None:
    text = make("help").stdout
    assert shown(text) == SIX and "make help ALL=1" in text
    assert make().stdout == text


def test_help_of_all_shows_every_target_that_is_not_a_file() -> None:
    listed = shown(make("help", "ALL=1").stdout)
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert listed[:6] == SIX and len(listed) == len(set(listed))
    assert set(listed) == targets - {"help", "sanitized"}


@pytest.mark.parametrize(
    ("words", "target"),
    [(("test", "SUITE=wheel"), "test-wheel"), (("bench", "NAME=transport", "QUICK=1"), "bench-transport")],
)
def test_a_suite_or_a_benchmark_is_reached_by_its_name(words: tuple[str, ...], target: str) -> None:
    chosen = make("-n", *words)
    assert chosen.returncode == 0 and chosen.stdout == make("-n", target, *words[2:]).stdout


@pytest.mark.parametrize(("command", "choice"), [("test", "SUITE"), ("bench", "NAME")])
def test_a_name_that_is_not_there_lists_those_that_are(command: str, choice: str) -> None:
    done = make("-n", command, f"{choice}=moon")
    assert done.returncode == 2
    assert re.search(rf"{choice}=moon is not there: choose one of (\S+ )+", done.stderr)


def test_what_a_process_compiled_is_kept_whatever_the_shell_says() -> None:
    """A node that compiles its source takes half as long again to start."""
    database = make("-pn", "help", PYTHONDONTWRITEBYTECODE="1").stdout
    assert re.search(r"^PYTHONDONTWRITEBYTECODE :=\s*$", database, re.MULTILINE)
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ and not sys.dont_write_bytecode


def test_a_variable_of_the_shell_chooses_nothing() -> None:
    assert make("-n", "bench", NAME="my-laptop").stdout == make("-n", "bench").stdout


def test_a_release_wants_its_version() -> None:
    assert "make release VERSION=0.3.0" in make("-n", "release").stderr

"""`ordo completion`: the scripts, and what the shells are told when they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.integration.command import demand_one_line, ordo
from tests.patience import patient


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `ordo` is the command of this checkout."""
    command = tmp_path / "ordo"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ordo.cli "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def complete_in_bash(words: list[str], environment: dict[str, str]) -> list[str]:
    """What the Tab key offers after the last of these words."""
    script = (
        'eval "$(ordo completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_ordo_completion ordo; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_commands_and_options(on_path: dict[str, str]) -> None:
    assert complete_in_bash(["ordo", "cl"], on_path) == ["cluster"]
    found = complete_in_bash(["ordo", "cluster", "s"], on_path)
    assert set(found) == {"shutdown", "skip", "skipped", "snapshot", "snapshots", "status", "suspend"}
    assert complete_in_bash(["ordo", "cluster", "transfer", "--end"], on_path) == ["--endpoints"]
    assert complete_in_bash(["ordo", "completion", ""], on_path) == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("zsh", {"_ORDO_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "ordo cluster trans"}),
        (
            "fish",
            {
                "_ORDO_COMPLETE": "complete_fish",
                "_TYPER_COMPLETE_ARGS": "ordo cluster trans",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
        ),
    ],
)
def test_zsh_and_fish_get_their_answers(shell: str, asked: dict[str, str], on_path: dict[str, str]) -> None:
    done = subprocess.run(
        ["ordo"], env={**on_path, **asked}, capture_output=True, text=True, timeout=patient(60), check=False
    )
    assert "transfer" in done.stdout and "snapshot" not in done.stdout
    assert "_ORDO_COMPLETE" in ordo("completion", shell).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_understands_its_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(ordo("completion", shell).stdout)
    checked = subprocess.run(
        [shell, "-n", str(script)], capture_output=True, text=True, timeout=patient(60), check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_another_shell_is_refused_in_one_line() -> None:
    demand_one_line(ordo("completion", "csh"), 2, "csh", "bash")

"""Runs the model of Raft in Rust (tests/exploration/model) with its own checker, stateright, and compares counts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.exploration.abstract import COUNTS

MODEL = Path(__file__).parent / "model"
TARGET = Path(__file__).parents[2] / "build" / "raft-model"
TIMEOUT_S = 3_600
LINE = re.compile(r"(\S+) (\d+) states, depth \d+, \S+ s, broken: \[(.*)\]")


class CheckerMissingError(RuntimeError):
    """There is no Rust here, or the checker cannot be had."""


def build() -> Path:
    """Return the model as a program. Raises CheckerMissingError where it cannot be built."""
    if shutil.which("cargo") is None:
        raise CheckerMissingError("Rust's cargo is not installed")
    command = ["cargo", "build", "--quiet", "--release", "--locked"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    done = subprocess.run(
        command, cwd=MODEL, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise CheckerMissingError(f"cargo build: {done.stderr[-1000:]}")
    return TARGET / "release" / "raft-model"


def run(program: Path, limits: list[str], threads: int) -> list[str]:
    """Go through all states within each of the limits; return the lines that the model prints."""
    command = [str(program), str(threads), *limits]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode and not done.stdout:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def find_differences(lines: list[str]) -> list[str]:
    """Return what the model says otherwise than the specification in Python: other counts, or broken rules."""
    differences = []
    for line in lines:
        found = LINE.fullmatch(line)
        assert found is not None, line
        name, states, broken = found.groups()
        if broken:
            differences.append(f"{name}: broken: {broken}")
        if int(states) != COUNTS[name]:
            differences.append(f"{name}: {states} states, and {COUNTS[name]} are expected")
    return differences

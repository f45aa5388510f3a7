"""Runs what takes long, one step after the other, and writes a page of verdicts: `make nightly`.

Each step is a target of the Makefile with an end by which it must be through. A step that fails, or whose tools are
missing, does not keep the others from running. The page is build/nightly/, beside the output of each step.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE_NAME = "verdicts.txt"
FOLDER = ROOT / "build" / "nightly"
MINUTE_S = 60
FIGURE_LENGTH_MAX = 240
FIGURES = re.compile(r"passed|failed|error|seed|states|inputs|skipped|per second|took", re.IGNORECASE)
"""Lines of a step's output of which the last one is its figure."""
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Step(NamedTuple):
    """A target of the Makefile, with its variables and what it needs."""

    name: str
    words: str
    limit_min: int
    needs: tuple[str, ...] = ()
    """Programs; `root` is the user."""


DOCKER = ("root", "dockerd", "docker-compose", "debootstrap")
STEPS = (
    Step("debug", "test-debug", 60),
    Step("asan", "test-asan", 90, ("gcc",)),
    Step("seeds", "seeds MINUTES=100", 120),
    Step("states", "explore STATES=1000000", 120),
    Step("pythons", "test-python", 60),
    Step("thorough", "test-thorough", 60),
    Step("mutants", "test-mutants", 180),
    Step("faults", "test-faults", 60, ("root", "ip", "nft")),
    Step("nemesis", "test-nemesis MINUTES=10", 60, ("root", "ip", "nft")),
    Step("wheel", "test-wheel", 60),
    Step("releases", "test-releases", 60),
    Step("stores", "test-stores", 30, ("java",)),
    Step("clients", "test-clients", 60, ("go", "mvn", "javac", "npm", "cargo", "openssl")),
    Step("long", "test-soak", 120, ("java",)),
    Step("soak", "soak MINUTES=60", 240),
    Step("fuzz", "fuzz FUZZ_SECONDS=300", 240, ("gcc",)),
    Step("load", "test-under-load RUNS=1", 180),
    Step("sessions", "test-sessions", 60),
    Step("docker", "test-docker", 60, DOCKER),
    Step("kubernetes", "test-kubernetes", 150, (*DOCKER, "go", "containerd", "runc")),
    Step("arm64", "test-arm64", 120, ("aarch64-linux-gnu-gcc", "qemu-aarch64-static")),
)


class Verdict(NamedTuple):
    """How a step ended."""

    step: Step
    word: str
    took_s: float = 0.0
    figure: str = ""


def missing(step: Step) -> list[str]:
    """Return what a step needs and this machine does not have."""
    return [
        need for need in step.needs if (os.geteuid() != 0 if need == "root" else shutil.which(need, path=PATH) is None)
    ]


def run(step: Step, make: tuple[str, ...] = ("make",), minute_s: float = MINUTE_S) -> Verdict:
    """Run a step to its end, or end it with all that it started when it is past its limit."""
    if lacking := missing(step):
        return Verdict(step, "left out", figure=f"missing: {', '.join(lacking)}")
    log = FOLDER / f"{step.name}.log"
    begin_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*make, *step.words.split()],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(step.limit_min * minute_s)
            word = "passed" if code == 0 else "failed"
        except subprocess.TimeoutExpired:
            word = "not within its limit"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Verdict(step, word, time.monotonic() - begin_s, figure_of(log.read_text(errors="replace")))


def figure_of(said: str) -> str:
    """Return the last line of an output that has a figure."""
    lines = [line.strip(" =") for line in said.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if FIGURES.search(line)), lines[-1] if lines else "")


def page(verdicts: list[Verdict], steps: tuple[Step, ...]) -> str:
    """Return the page: a line for each step, also for those that have not run yet."""
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    lines = [f"# Nightly run of {revision or 'no revision'}", ""]
    lines += ["| Step | Verdict | Minutes | What it said last | Command |", "|---|---|---|---|---|"]
    for one in verdicts:
        figure = one.figure.replace("|", "\\|")[:FIGURE_LENGTH_MAX]
        name = f"[{one.step.name}]({one.step.name}.log)" if one.took_s else one.step.name
        lines.append(f"| {name} | {one.word} | {one.took_s / MINUTE_S:.1f} | {figure} | `make {one.step.words}` |")
    for step in steps[len(verdicts) :]:
        lines.append(f"| {step.name} | not yet | | | `make {step.words}` |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.nightly", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"steps, instead of all: {' '.join(step.name for step in STEPS)}")
    options = parser.parse_args()
    if unknown := set(options.only) - {step.name for step in STEPS}:
        parser.error(f"no step {sorted(unknown)}: {' '.join(step.name for step in STEPS)}")
    steps = tuple(step for step in STEPS if not options.only or step.name in options.only)
    FOLDER.mkdir(parents=True, exist_ok=True)
    verdicts: list[Verdict] = []
    for step in steps:
        (FOLDER / PAGE_NAME).write_text(page(verdicts, steps))
        verdicts.append(run(step))
        print(f"{step.name}: {verdicts[-1].word}; {verdicts[-1].figure}", flush=True)
    (FOLDER / PAGE_NAME).write_text(page(verdicts, steps))
    print(FOLDER / PAGE_NAME)
    return int(any(one.word in ("failed", "not within its limit") for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())

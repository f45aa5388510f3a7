"""Passes the tests of both tiers, one tier after the other, and does so again and again beside busy loops.

`python -m tools.suite` is `make test`; `python -m tools.suite --runs 20 --loads "2 6"` is `make test-under-load`. The
deterministic tests take all cores. Those of processes wait for states of what they start, in lanes of their own, and
nothing that takes the cores runs beside them but the loops that are asked for.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "build" / "suite"
TIERS = ("deterministic", "processes")
SHARING = {"deterministic": "worksteal", "processes": "loadfile"}
"""How lanes share a tier. Deterministic tests need nothing of each other, so the longest file does not hold up its end;
tests of processes have a cluster or a session of Spark in common with the others of their file."""
NO_TESTS = 5
"""What pytest ends with when the arguments leave none of a tier."""
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


def run_tier(tier: str, lanes: int, arguments: Sequence[str], report: Path) -> int:
    """Run the tests of a tier in so many lanes, and return what pytest ended with."""
    report.unlink(missing_ok=True)
    words = ["-q", "-n", str(lanes), "--dist", SHARING[tier], "-m", tier, f"--junitxml={report}", *arguments]
    return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode


def verdict(codes: Sequence[int]) -> int:
    """Return the status of a run of several tiers: that one of them had no test is right, that all had none is not."""
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    return failed[0] if failed else 0 if 0 in codes else NO_TESTS


def failures(report: Path) -> list[str]:
    """Return the tests of a report that failed; a report that is not there, or not whole, is a failure itself."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return [f"{report.stem}: the run did not end in a report"]
    names = (f"{case.get('classname')}::{case.get('name')}" for case in cases if _has_failed(case))
    return sorted(set(names))


def _has_failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


@contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep so many cores busy, if there are so many, until the block is left."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_once(options: argparse.Namespace, name: str) -> tuple[int, list[str]]:
    """Run the tiers that are asked for, and return the status and the tests that failed."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    codes, failed = [], []
    for tier in [options.tier] if options.tier else TIERS:
        report = REPORTS / f"{name}{tier}.xml"
        lanes = options.jobs if tier == "deterministic" else options.lanes
        codes.append(run_tier(tier, lanes, shlex.split(options.args), report))
        failed += failures(report) if codes[-1] not in (0, NO_TESTS) else []
    return verdict(codes), failed


def run_under_load(options: argparse.Namespace) -> int:
    """Run all again and again beside each number of loops, and print which tests failed how often."""
    worst, lines = 0, []
    for load in (int(one) for one in options.loads.split()):
        found: Counter[str] = Counter()
        passed = 0
        for run in range(1, options.runs + 1):
            print(f"--- run {run} of {options.runs} beside {load} busy loops", flush=True)
            with busy_loops(load):
                code, failed = run_once(options, f"load-{load}-run-{run}-")
            passed += code == 0
            worst = worst or code
            found.update(failed)
        lines.append(f"beside {load} busy loops: {passed} of {options.runs} runs passed")
        lines += [f"  {count} x {test}" for test, count in found.most_common()]
    print("\n".join(["", *lines]))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.suite", description=__doc__)
    parser.add_argument("--tier", choices=TIERS, help="only this one")
    parser.add_argument("--jobs", type=int, default=2, help="lanes of the deterministic tests")
    parser.add_argument("--lanes", type=int, default=4, help="lanes of the tests of processes")
    parser.add_argument("--args", default="", help="further arguments of pytest")
    parser.add_argument("--runs", type=int, default=0, help="so many times beside each number of --loads")
    parser.add_argument("--loads", default="2 6", help="numbers of busy loops")
    options = parser.parse_args()
    if options.runs:
        return run_under_load(options)
    return run_once(options, "")[0]


if __name__ == "__main__":
    sys.exit(main())

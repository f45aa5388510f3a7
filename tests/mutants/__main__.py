"""`python -m tests.mutants`: plants a sample of mutants in the whole product, and says which tests find what.

Only deterministic tests take part. What is known already is kept, so that a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.mutants.hunt import Hunt, Outcome
from tests.mutants.mutate import ROOT
from tests.mutants.sample import choose
from tests.mutants.table import page_of, sum_of

OUT = ROOT / "build" / "mutants"
OPTIONS = ("-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "deterministic")


def hunt_in(folder: str, arguments: argparse.Namespace) -> int:
    """Run the tests of one folder, and write a line for each mutant."""
    place = arguments.out / f"{folder}.jsonl"
    done = {json.loads(line)["number"] for line in place.read_text().splitlines()} if place.exists() else set()
    with place.open("a") as lines:

        def say(outcome: Outcome) -> None:
            lines.write(json.dumps(asdict(outcome)) + "\n")
            lines.flush()

        hunt = Hunt(lambda: choose(arguments.sample, arguments.seed), say, done)
        pytest.main([*OPTIONS, str(ROOT / "tests" / folder)], plugins=[hunt])
    facts = {"tests": hunt.tests, "processor_s": round(hunt.processor_s, 1), "broken": hunt.broken}
    place.with_suffix(".json").write_text(json.dumps(facts))
    return 0


def hunt_all(arguments: argparse.Namespace) -> int:
    """Run the tests of each folder in a process of its own."""
    names = [[f"{one.path}:{one.line}", one.name] for one in choose(arguments.sample, arguments.seed)]
    sample = arguments.out / "sample.json"
    if sample.exists() and json.loads(sample.read_text()) != names:
        print(f"{arguments.out} is of another sample: remove it, or name another folder with --out", file=sys.stderr)
        return 2
    sample.write_text(json.dumps(names))

    def run(folder: str) -> None:
        words = ["--folder", folder, "--out", arguments.out, "--sample", arguments.sample, "--seed", arguments.seed]
        with (arguments.out / f"{folder}.log").open("w") as log:
            command = [sys.executable, "-m", "tests.mutants", *map(str, words)]
            subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(run, arguments.folders or folders_of_tests()))
    page = page_of(arguments.out)
    (arguments.out / "report.txt").write_text(page)
    print(page)
    print(sum_of(arguments.out, arguments.seed))
    return 0


def folders_of_tests() -> list[str]:
    """Return the folders of tests, those with most files first."""
    sizes = {path.name: len(list(path.glob("**/test_*.py"))) for path in (ROOT / "tests").iterdir()}
    return sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="about so many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--folder", default="", help="the tests of this folder, in this process")
    parser.add_argument("folders", nargs="*", help="folders of tests; all by default")
    return parser.parse_args()


def main() -> int:
    """Run what the arguments say."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return hunt_in(arguments.folder, arguments) if arguments.folder else hunt_all(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.consensus.mutants`: runs the consensus unit tests against mutants, and prints those that survive.

The tests are collected once; each mutant is a fork of this process, which ends at its first failing test.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import pytest
from _pytest.runner import runtestprotocol

from tests.consensus.mutants.equivalent import EQUIVALENT
from tests.consensus.mutants.mutate import Mutant, modules, mutants_of

FOLDER = Path(__file__).resolve().parents[1]
SLOW = ("simulation", "mutants", "test_target_serves_long", "test_leader_that_closes", "does_not_delay_an_election")
"""They run whole clusters. What these find late, a unit test must find at once."""
SKIPPED = ("test_simulation.py", "test_canaries.py", "test_comparisons.py", "test_mutants.py")
TIMEOUT_S = 60


class Hunt:
    """A plugin of pytest: instead of one run of the tests, one for each mutant."""

    def __init__(self, mutants: list[Mutant], jobs: int) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self.survivors: list[Mutant] = []
        self.is_sound = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The tests once without a mutant, to know what each calls; then with each mutant those that call it, the fast
        ones first."""
        seconds, called = {}, {}
        for item in session.items:
            began_s, codes = time.perf_counter(), set[CodeType]()
            sys.setprofile(partial(_note, codes))
            is_well = _passes(item)
            sys.setprofile(None)
            if not is_well:
                print(f"fails without any mutant: {item.nodeid}")
                return True
            seconds[item], called[item] = time.perf_counter() - began_s, codes
        self.is_sound = bool(seconds)
        ordered = sorted(seconds, key=seconds.__getitem__)
        running: dict[int, tuple[Mutant, float]] = {}
        for mutant in self._mutants:
            while len(running) >= self._jobs:
                self._reap(running)
            items = [one for one in ordered if mutant.original in called[one]]
            child = os.fork()
            if child == 0:
                os._exit(_find(mutant, items))
            running[child] = mutant, time.monotonic() + TIMEOUT_S
        while running:
            self._reap(running)
        return True

    def _reap(self, running: dict[int, tuple[Mutant, float]]) -> None:
        time.sleep(0.002)
        for child, (mutant, deadline_s) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() >= deadline_s:
                os.kill(child, signal.SIGKILL)
                ended, status = os.waitpid(child, 0)
            if ended:
                del running[child]
                if status == 0:
                    self.survivors.append(mutant)
                    print(f"survived: {mutant.name} (line {mutant.line})", file=sys.__stderr__, flush=True)


def _note(codes: set[CodeType], frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        codes.add(frame.f_code)


def _find(mutant: Mutant, items: list[pytest.Item]) -> int:
    """Returns 0 if all tests pass with the mutant. A mutant that breaks pytest itself is found as well."""
    try:
        mutant.put_in()
        return 0 if all(_passes(item) for item in items) else 1
    except BaseException:
        return 1


def _passes(item: pytest.Item) -> bool:
    sys.modules["tests.conftest"].GUARD.started.clear()  # this mutant's own fork is no process of the test's
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def main() -> int:
    """Returns 1 if a mutant that is not in the list survived, or one that is in the list did not."""
    arguments = _arguments()
    mutants = [one for path in modules() if arguments.only in path for one in mutants_of(path)]
    unknown = set(EQUIVALENT) - {one.name for one in mutants} if not arguments.only else set()
    if arguments.sample:
        chosen = [one for one in mutants if one.name not in EQUIVALENT]
        mutants = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    hunt = Hunt(mutants, arguments.jobs)
    files = sorted(str(path) for path in FOLDER.glob("test_*.py") if path.name not in SKIPPED)
    options = [
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        " and ".join(f"not {one}" for one in SLOW),
    ]
    pytest.main([*options, *files], plugins=[hunt])
    if not hunt.is_sound or not mutants:
        return 1
    survivors = {one.name for one in hunt.survivors}
    stale = unknown | {one.name for one in mutants if one.name in EQUIVALENT} - survivors
    for name in sorted(stale):
        print(f"found, or no longer there; take it off the list: {name}")
    print(f"{len(mutants)} mutants, {len(mutants) - len(survivors)} found, {len(survivors - set(EQUIVALENT))} not")
    return 1 if stale or survivors - set(EQUIVALENT) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.consensus.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="files whose path has this text")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, chosen by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

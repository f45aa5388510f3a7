"""A plugin of pytest: instead of one run of the tests, one with each mutant, of those tests that reach it.

The tests are collected once, and run once to know what each reaches and how long it takes. Each mutant is then put into
a fork of this process, which ends at the first test that fails. A test has found it only if it passes in a fork without
the mutant too.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.changes import NOTE, noting
from tests.mutants.mutate import Mutant, find_function

PASS_S = 20.0
"""So long at most run the tests of a folder with one mutant: the fastest first."""
SLACK = 5
"""A test may take so much longer with a mutant, and it counts as found."""


@dataclass
class Outcome:
    """What the tests of a folder say of a mutant."""

    number: int
    reaching: int
    found_by: str = ""
    """The test that fails; "" if none does."""
    is_endless: bool = False
    seconds: float = 0.0


@dataclass
class Hunt:
    """Runs the tests with each mutant in turn."""

    choose: Callable[[], list[Mutant]]
    """Called once the tests are collected: it imports modules of the product, and plugins want to be first."""
    say: Callable[[Outcome], None]
    done: set[int] = field(default_factory=set)
    processor_s: float = 0.0
    """What the tests took without a mutant."""
    tests: int = 0
    broken: list[str] = field(default_factory=list)
    """Tests that fail without any mutant."""
    _reached: set[int] = field(default_factory=set)
    _sound: dict[str, bool] = field(default_factory=dict)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The whole hunt."""
        mutants = self.choose()
        reaching = self._reach(session.items, mutants)
        for number, mutant in enumerate(mutants):
            if number not in self.done:
                self.say(self._hunt(number, mutant, reaching.get(number, [])))
        return True

    def _reach(self, items: list[pytest.Item], mutants: list[Mutant]) -> dict[int, list[tuple[float, pytest.Item]]]:
        """The tests that reach the place of each mutant, the fastest first."""
        originals = self._note_places(mutants)
        found: dict[int, list[tuple[float, pytest.Item]]] = {}
        for item in items:
            self._reached.clear()
            began_s, began_processor_s = time.perf_counter(), time.process_time()
            is_well = passes(item)
            self.processor_s += time.process_time() - began_processor_s
            self.tests += 1
            if not is_well:
                self.broken.append(item.nodeid)
                continue
            for number in self._reached:
                found.setdefault(number, []).append((time.perf_counter() - began_s, item))
        for function, code in originals:
            function.__code__ = code
        return {number: sorted(those, key=lambda one: one[0]) for number, those in found.items()}

    def _note_places(self, mutants: list[Mutant]) -> list[tuple[FunctionType, CodeType]]:
        """Let each function say which of its mutants' places are reached, and return what it was."""
        vars(builtins)[NOTE] = self._reached.add
        functions: dict[tuple[str, str], dict[int, Mutant]] = {}
        for number, mutant in enumerate(mutants):
            functions.setdefault((mutant.path, mutant.function), {})[number] = mutant
        originals = []
        for those in functions.values():
            one = next(iter(those.values()))
            function = find_function(one.path, one.function)
            originals.append((function, function.__code__))
            places = {number: mutant.steps for number, mutant in those.items()}
            function.__code__ = one.compiled(noting(one.unchanged, places))
        return originals

    def _hunt(self, number: int, mutant: Mutant, reaching: list[tuple[float, pytest.Item]]) -> Outcome:
        began_s = time.perf_counter()
        items: list[pytest.Item] = []
        left_s = PASS_S
        for seconds, item in reaching:
            left_s -= seconds
            if left_s > 0 or not items:
                items.append(item)
        outcome = Outcome(number, len(reaching))
        while items and not outcome.found_by:
            limit_s = SLACK * (PASS_S - min(left_s, 0))
            name, is_endless = forked(partial(_first_failure, mutant, items), limit_s)
            if not name and not is_endless:
                break
            suspects = [one for one in items if one.nodeid == name] or items[:1]
            if is_endless or self._is_sound(suspects[0]):
                outcome.found_by, outcome.is_endless = name or "endless", is_endless
            items = [one for one in items if one not in suspects]
        outcome.seconds = time.perf_counter() - began_s
        return outcome

    def _is_sound(self, item: pytest.Item) -> bool:
        if item.nodeid not in self._sound:
            name, is_endless = forked(lambda: "" if passes(item) else item.nodeid, SLACK * PASS_S)
            self._sound[item.nodeid] = not name and not is_endless
        return self._sound[item.nodeid]


def _first_failure(mutant: Mutant, items: list[pytest.Item]) -> str:
    """Return the first test that fails. A mutant that breaks pytest itself is found by the test that runs then."""
    mutant.put_in()
    for item in items:
        try:
            if not passes(item):
                return item.nodeid
        except BaseException:
            return item.nodeid
    return ""


def forked(work: Callable[[], str], limit_s: float) -> tuple[str, bool]:
    """Return what a fork of this process says, and whether it was ended because it did not end by itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with suppress(BaseException):
            os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    deadline_s = time.monotonic() + limit_s
    try:
        while (ended := os.waitpid(child, os.WNOHANG)[0]) == 0 and time.monotonic() < deadline_s:
            time.sleep(0.002)
        if ended == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return os.read(reading, 1 << 16).decode(), ended == 0
    finally:
        os.close(reading)


def passes(item: pytest.Item) -> bool:
    """Return whether a test passes, or is skipped."""
    sys.modules["tests.conftest"].GUARD.started.clear()  # a mutant's own fork is no process of the test's
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))

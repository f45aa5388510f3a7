"""Determinism checks that run a service in differing processes, and compare what it does.

The processes differ in everything that the service must not depend on.

    check_environments("mypackage.orders:Orders", inputs)

Hash seeds, garbage collection, time zone and locale differ from run to run, and so do the addresses of objects. The
containers of a cluster share one hash seed, but not their addresses, collections, time zones and locales.
"""

from __future__ import annotations

import gc
import locale
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

from ordo.runtime.errors import ServiceError
from ordo.service_api.testing.harness import Effect, Input, ServiceHarness

RUN_TIMEOUT_S = 120.0


class Environment(NamedTuple):
    """One way to run a service. `gc_threshold` 0: no garbage is collected."""

    variables: dict[str, str]
    gc_threshold: int

    def describe(self) -> str:
        named = " ".join(f"{name}={value}" for name, value in self.variables.items())
        return f"{named} gc_threshold={self.gc_threshold}"


ENVIRONMENTS = (
    Environment({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}, 700),
    Environment({"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}, 700),
    Environment({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}, 1),
    Environment({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}, 0),
    Environment({"PYTHONHASHSEED": "0", "TZ": "XST-13:45", "LC_ALL": "C.UTF-8"}, 700),
    Environment({"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"}, 700),
    Environment({"PYTHONHASHSEED": "4711", "TZ": "XST+11:30", "LC_ALL": "POSIX"}, 1),
)
"""The first is what the others are compared with; a zone with an offset of its own needs no time zone database."""


class _Run(NamedTuple):
    effects: list[Effect]
    snapshot: tuple[bytes, ...]
    failure: str


def check_environments(
    service: str, inputs: Iterable[Input], *, environments: Iterable[Environment] = ENVIRONMENTS
) -> None:
    """Raise ServiceError when a service does anything else in one environment than in the first.

    The error says what. It is also raised when the service, `module:Class`, fails. The inputs must be picklable, as
    those of `ordo.service_api.testing.harness` are.
    """
    items = list(inputs)
    expected: _Run | None = None
    for environment in environments:
        found = _run(service, items, environment)
        if found.failure:
            raise ServiceError(f"{service} failed with {environment.describe()}: {found.failure}")
        expected = expected or found
        where = f"not deterministic: with {environment.describe()}"
        for index, (left, right) in enumerate(zip(expected.effects, found.effects, strict=False)):
            if left != right:
                raise ServiceError(f"{where} effect {index} is {right}, elsewhere {left}")
        if len(expected.effects) != len(found.effects):
            raise ServiceError(f"{where} it did {len(found.effects)} things, elsewhere {len(expected.effects)}")
        if expected.snapshot != found.snapshot:
            raise ServiceError(f"{where} it ends in another snapshot")


def _run(service: str, items: list[Input], environment: Environment) -> _Run:
    variables = {**os.environ, **environment.variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", "from ordo.service_api.testing.environments import run_child; run_child()"],
        input=pickle.dumps((service, items, environment.gc_threshold)),
        env=variables,
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no word why"]
        return _Run([], (), f"status {done.returncode}: {lines[-1]}")
    run: _Run = pickle.loads(done.stdout)
    return run


def run_child() -> None:
    """Run the process of one environment: inputs by stdin, what the service did by stdout."""
    service, items, gc_threshold = pickle.load(sys.stdin.buffer)
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # what the service prints
    locale.setlocale(locale.LC_ALL, "")
    gc.set_threshold(gc_threshold)
    module_name, _, class_name = service.partition(":")
    harness = ServiceHarness(getattr(import_module(module_name), class_name)).execute(*items)
    output.write(pickle.dumps(_Run(harness.effects, harness.take_snapshot().messages, "")))
    output.flush()

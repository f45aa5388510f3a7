"""How long tests wait: a factor measured once at the start of a run, from how fast this machine is just then.

Limits in tests are for two cores that do little else. `patient` stretches one, so that a busy or slow machine makes a
test later and not red. ORDO_PATIENCE gives the factor instead of measuring it; workers and the programs of a run have
it from there. A machine that has become busy since is known by its load average: limits of waiting follow it, while
what tests configure follows the factor of the run, so that settings which belong together stay so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

VARIABLE = "ORDO_PATIENCE"
FACTOR_MAX = 10.0
STEPS = 3_000_000
COMPUTING_S = 0.12
"""What STEPS take on a machine that has time for them."""
STARTING_S = 0.08
"""What STARTS new processes take there, one after the other."""
STARTS = 5


def _compute() -> None:
    total = 0
    for step in range(STEPS):
        total += step & 7


def _start() -> None:
    for _ in range(STARTS):
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)


def _duration_s(work: Callable[[], None]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s


def factor_of(computing_s: float, starting_s: float, lanes_per_core: float = 1.0) -> float:
    """Return the factor for what the two works took: 1 on a machine that has time, at most FACTOR_MAX.

    Lanes that share a core will take it from each other, which is not measured.
    """
    measured = max(1.0, computing_s / COMPUTING_S, starting_s / STARTING_S)
    return min(FACTOR_MAX, measured * max(1.0, lanes_per_core))


def factor(lanes: int = 1) -> float:
    """Return the factor of this run, which is measured when it is first asked for, by who knows the lanes."""
    if VARIABLE not in os.environ:
        lanes_per_core = lanes / (os.cpu_count() or 1)
        os.environ[VARIABLE] = f"{factor_of(_duration_s(_compute), _duration_s(_start), lanes_per_core):.2f}"
    return max(1.0, float(os.environ[VARIABLE]))


def load_factor() -> float:
    """Return how many programs want each core just now, by the load average of the last minute."""
    return min(FACTOR_MAX, os.getloadavg()[0] / (os.cpu_count() or 1))


def patient(timeout_s: float) -> float:
    """Return a limit of time as this run has it, and as the machine's load is now."""
    return timeout_s * max(factor(), load_factor())

"""Many seeds, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from ordo.runtime.children import die_with_parent
from tests.simulation import plants
from tests.simulation.run import Outcome, run_seed

AHEAD = 4
"""Seeds handed out for each process: enough that none waits while a long one holds up the order."""


def run_seeds(seeds: Iterable[int], jobs: int, plant: str | None = None) -> Iterator[Outcome]:
    """Outcomes in order of the seeds; with more than one job, from as many processes.

    Seeds are taken as they are needed: an iterable that ends early, for a limit of time, ends the run soon.
    """
    if jobs <= 1:
        _put_in(plant)
        yield from map(run_seed, seeds)
        return
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, spawn, initializer=_begin, initargs=(os.getpid(), plant))
    under_way: deque[Future[Outcome]] = deque()
    try:
        for seed in seeds:
            under_way.append(pool.submit(run_seed, seed))
            if len(under_way) >= AHEAD * jobs:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent_pid: int, plant: str | None) -> None:
    """A process of a run that is killed does not wait for more seeds for ever."""
    if not die_with_parent(parent_pid, signal.SIGKILL):
        os._exit(1)
    _put_in(plant)


def _put_in(plant: str | None) -> None:
    if plant is not None:
        plants.BY_NAME[plant](setattr)

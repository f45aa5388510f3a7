"""Many seeds, in this process or in several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator

from tests.simulation import plants
from tests.simulation.run import Outcome, run_seed


def run_seeds(seeds: Iterable[int], jobs: int, plant: str | None = None) -> Iterator[Outcome]:
    """Outcomes in order of the seeds; with more than one job, from as many processes."""
    if jobs <= 1:
        _put_in(plant)
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _put_in, (plant,)) as pool:
        yield from pool.imap(run_seed, seeds)


def _put_in(plant: str | None) -> None:
    if plant is not None:
        plants.BY_NAME[plant](setattr)

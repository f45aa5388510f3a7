"""Stretches that are executed in processes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from ordo.debugging.bisection import Search, bisect
from ordo.debugging.replaying.code import code_of
from ordo.service_api.service import Service
from tests.debugging.bank import Bank, is_balanced
from tests.debugging.logs import BankLog


def balanced(service: Service) -> bool:
    assert isinstance(service, Bank)
    return is_balanced(service)


def test_the_earliest_stretch_that_fails_counts(tmp_path: Path) -> None:
    log = BankLog(tmp_path / "node0", ["ann bob 1", "bob bob 5", "ann bob 1", "bob bob 5"])
    for position in (log.positions[0], log.positions[2]):
        log.add_snapshot(log.state_at(position))
    found = bisect(Search(log.open(), code_of(Bank), balanced), 0, log.end, uses_snapshots=True, processes=2)
    assert (found.position, found.stretches, found.processes) == (log.positions[1], 3, 2)
    assert multiprocessing.active_children() == []

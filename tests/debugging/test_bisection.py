"""Bisection over a log that snapshots cut into stretches."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.debugging.bisection import Search, bisect, cut
from ordo.debugging.replaying.code import code_of
from ordo.errors import ServiceError
from ordo.service_api.service import Service
from tests.debugging.bank import Bank, MendedBank, is_balanced
from tests.debugging.logs import BankLog


@pytest.fixture
def bank(tmp_path: Path) -> BankLog:
    """With snapshots after the second and the fourth transfer, and the last."""
    log = BankLog(tmp_path / "node0")
    for index in (1, 3, 5):
        log.add_snapshot(log.state_at(log.positions[index]))
    return log


def balanced(service: Service) -> bool:
    assert isinstance(service, Bank)
    return is_balanced(service)


def passes_120(service: Service) -> bool:
    """True but for a while."""
    assert isinstance(service, Bank)
    return service.accounts["bob"] != 120


def test_snapshots_cut_the_log(bank: BankLog) -> None:
    one, two, three = bank.positions[1], bank.positions[3], bank.positions[5]
    log = bank.open()
    stretches = [(0, one, None), (one, two, 0), (two, three, 1), (three, bank.end, 2)]
    assert cut(log, 0, bank.end, uses_snapshots=True) == stretches
    assert cut(log, one + 32, three, uses_snapshots=True) == [(one, two, 0), (two, three, 1)]
    assert cut(log, 0, bank.end, uses_snapshots=False) == [(0, bank.end, None)]


@pytest.mark.parametrize("uses_snapshots", [True, False])
def test_the_exact_record_is_found(bank: BankLog, uses_snapshots: bool) -> None:
    search = Search(bank.open(), code_of(Bank), balanced)
    found = bisect(search, 0, bank.end, uses_snapshots=uses_snapshots, processes=1)
    assert found.position == bank.positions[4]


def test_a_failure_that_passes_is_found(bank: BankLog) -> None:
    found = bisect(Search(bank.open(), code_of(Bank), passes_120), 0, bank.end, uses_snapshots=False)
    assert found.position == bank.positions[1]


def test_snapshots_of_other_code_are_told(bank: BankLog) -> None:
    search = Search(bank.open(), code_of(MendedBank), balanced)
    with pytest.raises(ServiceError, match=r"snapshot at \d+ fails the predicate, and the log before it does not lead"):
        bisect(search, 0, bank.end, uses_snapshots=True, processes=1)
    assert bisect(search, 0, bank.end, uses_snapshots=False).position is None


def test_what_the_predicate_raises_is_told(bank: BankLog) -> None:
    def raises(service: Service) -> bool:
        raise KeyError("nobody")

    with pytest.raises(ServiceError, match=r"the predicate raised at position 0: KeyError: 'nobody'"):
        bisect(Search(bank.open(), code_of(Bank), raises), 0, bank.end, uses_snapshots=False)

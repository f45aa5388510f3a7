"""The judge of clients' accounts finds what it is to find: answers that the log has not, or has otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ordo.follow.entries import EntryKind, LogEntry
from tests.cluster.integration.agreement import Report
from tests.cluster.integration.protocol import REQUEST, Kind
from tests.faults.accounts import Account, Executed, demand_accounts, execute
from tests.faults.registers import OPERATION, OUTCOME, Operation

PAYLOADS = [
    REQUEST.pack(Kind.APPEND, 1, 1),
    OPERATION.pack(Operation.WRITE, 1, 1, 7, 100, 0),
    REQUEST.pack(Kind.APPEND, 1, 1),  # sent again
    OPERATION.pack(Operation.CAS, 2, 1, 7, 200, 99),
    REQUEST.pack(Kind.APPEND, 1, 3),  # 2 is missing
    REQUEST.pack(Kind.APPEND, 1, 2),
    OPERATION.pack(Operation.READ, 2, 2, 7, 0, 0),
]
WROTE = OUTCOME.pack(Operation.WRITE, 1, 1, True, 100)
DID_NOT_SWAP = OUTCOME.pack(Operation.CAS, 2, 1, False, 200)
READ = OUTCOME.pack(Operation.READ, 2, 2, True, 100)
TOLD = {1: 1, 2: 2}


def messages(payloads: list[bytes]) -> Iterator[LogEntry]:
    for index, payload in enumerate(payloads, 1):
        yield LogEntry(64 * index, EntryKind.MESSAGE, 0, 0, 1, payload)


def report_of(executed: Executed) -> Report:
    return Report(executed.entries, executed.digest, (), 0)


def test_what_clients_were_told_is_what_the_log_makes_of_it() -> None:
    executed = execute(messages(PAYLOADS))
    assert executed.counts == TOLD and executed.entries == 2
    accounts = [Account(1, 1, {1: WROTE}), Account(2, 3, {1: DID_NOT_SWAP, 2: READ})]
    assert demand_accounts(executed, accounts, TOLD, report_of(executed)) == 5


@pytest.mark.parametrize(
    ("payloads", "answers", "told", "words"),
    [
        (PAYLOADS[:-1], {1: DID_NOT_SWAP, 2: READ}, TOLD, "2 was acknowledged, and the log has it not"),
        (PAYLOADS[:1] + PAYLOADS[2:], {1: DID_NOT_SWAP, 2: READ}, TOLD, "and the log makes it"),
        (PAYLOADS, {1: READ}, TOLD, "and the log makes it"),
        (PAYLOADS[:-2] + PAYLOADS[-1:], {}, TOLD, "the writer was told of entries"),
        ([*PAYLOADS, OPERATION.pack(Operation.READ, 2, 9, 7, 0, 0)], {}, TOLD, "never asked"),
        ([*PAYLOADS, OPERATION.pack(Operation.READ, 5, 1, 7, 0, 0)], {}, TOLD, "who are none"),
    ],
)
def test_what_is_not_so_is_found(
    payloads: list[bytes], answers: dict[int, bytes], told: dict[int, int], words: str
) -> None:
    executed = execute(messages(payloads))
    with pytest.raises(AssertionError, match=words):
        demand_accounts(executed, [Account(1, 1, {}), Account(2, 3, answers)], told, report_of(executed))


def test_an_operation_that_stands_twice_in_the_log_is_found() -> None:
    with pytest.raises(AssertionError, match="stands in the log twice"):
        execute(messages([PAYLOADS[1], PAYLOADS[1]]))


def test_another_state_than_the_members_reported_is_found() -> None:
    executed = execute(messages(PAYLOADS))
    with pytest.raises(AssertionError):
        demand_accounts(executed, [], TOLD, report_of(execute(messages(PAYLOADS[:2]))))

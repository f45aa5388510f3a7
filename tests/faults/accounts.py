"""What each client was told, compared with the log that all members hold: the log is executed once more, here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from tests.cluster.integration.agreement import Report
from tests.cluster.integration.protocol import ANSWER, REQUEST, Kind, Status
from tests.faults.registers import OPERATION, OUTCOME, Operation, Registers

READ_TIMEOUT_S = 600.0


class Account(NamedTuple):
    """What one client has of its own: how many operations it asked, and the answers it got by their number."""

    client_id: int
    asked: int
    answers: dict[int, bytes]


class Executed(NamedTuple):
    """The log, executed: the answers of each client's operations by their number, and those of the ledger's entries."""

    answers: dict[int, dict[int, bytes]]
    counts: dict[int, int]
    """By sequence number of the writer: how many entries the ledger held after it."""
    digest: str
    entries: int


def read_messages(cluster: LocalCluster, position: int, credentials: bytes = b"") -> Iterator[LogEntry]:
    """The messages of the log up to a position, as any member serves them."""
    archives = [load_config(cluster.config_path(one)).own_member.archive for one in cluster.member_ids]
    with LogReader(archives, kinds=[EntryKind.MESSAGE], credentials=credentials) as reader:
        yield from reader.entries(until_position=position, timeout_s=READ_TIMEOUT_S)


def execute(messages: Iterator[LogEntry]) -> Executed:
    """Execute the messages in order, as the service of each member did. Each operation stands in the log once."""
    state, answers, counts = Registers(), dict[int, dict[int, bytes]](), dict[int, int]()
    for entry in messages:
        kind = entry.payload[0]
        if kind in Operation.__members__.values():
            answer = state.operate(entry.payload)
            _, client_id, number, *_ = OPERATION.unpack(entry.payload)
            own = answers.setdefault(client_id, {})
            assert number not in own, f"operation {number} of client {client_id} stands in the log twice"
            own[number] = answer
        elif kind == Kind.APPEND:
            _, writer_id, sequence = REQUEST.unpack_from(entry.payload)
            status, _, _, count = ANSWER.unpack(state.append(entry.payload))
            if status == Status.APPLIED:
                assert counts.setdefault(sequence, count) == count, f"entry {sequence} of writer {writer_id}"
    return Executed(answers, counts, state.total_hash.hex(), state.count)


def demand_accounts(executed: Executed, accounts: Sequence[Account], told: dict[int, int], report: Report) -> int:
    """Each answer that a client got is the one that its operation has in the log, and the log makes the state that all
    members reported; how many answers were compared. `told` are the writer's counts."""
    assert (executed.digest, executed.entries) == (report.digest, report.entries), (executed.digest, report)
    for account in accounts:
        found = executed.answers.get(account.client_id, {})
        beyond = [number for number in found if not 0 < number <= account.asked]
        assert not beyond, f"client {account.client_id} never asked {beyond}, and the log has them"
        for number, answer in account.answers.items():
            assert number in found, f"client {account.client_id}: {number} was acknowledged, and the log has it not"
            assert found[number] == answer, (
                f"client {account.client_id}: {number} was answered {OUTCOME.unpack(answer)}, "
                f"and the log makes it {OUTCOME.unpack(found[number])}"
            )
    strangers = set(executed.answers) - {account.client_id for account in accounts}
    assert not strangers, f"the log has operations of clients {strangers}, who are none"
    missing = [sequence for sequence, count in told.items() if executed.counts.get(sequence) != count]
    assert not missing, f"the writer was told of entries {missing[:5]} of {len(missing)}, and the log has others"
    return len(told) + sum(len(account.answers) for account in accounts)

"""One member of a shared consumer without a cluster: what it holds, and which acknowledgements it counts as late."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.wire.sessions.consumer_codec import AnswerFlag, CommandFlag, ConsumerAnswer, ConsumerStatus, Work
from ordo.consumers.consumer_member import READ_AHEAD_BYTES_MAX
from ordo.consumers.shared_member import ACKNOWLEDGED_MAX, READ_AHEAD_MAX, Delivery, SharedMember, SharedSettings
from ordo.follow.entries import EntryKind, LogEntry

SETTINGS = SharedSettings(name="mail", endpoints=["127.0.0.1:9"], start="live")
TRANSPORT: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: 0))


def entry(position: int, length_bytes: int = 1) -> LogEntry:
    return LogEntry(position, EntryKind.MESSAGE, 0, 0, 1, bytes(length_bytes))


class Member:
    """A member, and what the cluster tells it."""

    def __init__(self) -> None:
        self.member = SharedMember(SETTINGS, TRANSPORT, 1)
        self.member._follower = SimpleNamespace(position=0, close=lambda: None)  # type: ignore[assignment]
        self.number = 0
        self.member.answer = self.answer()

    def answer(self, *work: int, position: int = 0, accepted: int = 0) -> ConsumerAnswer:
        """To its last command; `work`: positions that it is to do for the first time."""
        self.number += 1
        flags, status, given = AnswerFlag.ACTIVE, ConsumerStatus.OK, tuple(Work(one, 1) for one in work)
        return ConsumerAnswer(self.number, 1, status, flags, 7, position, position, -1, 0, accepted, 0, 0, given, "")

    def hear(self, answer: ConsumerAnswer) -> None:
        self.member._take(answer)
        self.member.answer = answer

    def be_given(self, *positions: int) -> list[Delivery]:
        for one in positions:
            self.member._choose(entry(one))
        self.hear(self.answer(*positions))
        found: list[Delivery] = []
        self.member.take(found.append, 256)
        return found

    def report(self) -> int:
        """Send what is done; return how many rows that is."""
        self.member._tell(self.member.answer)  # type: ignore[arg-type]
        return len(self.member._sent)

    def lose_session(self) -> None:
        self.member._drop_session()


def test_a_member_reads_no_further_ahead_than_it_has_room_for() -> None:
    def read(length_bytes: int) -> int:
        one, count = Member(), 0
        while one.member._has_room and count < 2 * READ_AHEAD_MAX:
            count += 1
            one.member._choose(entry(64 * count, length_bytes))
        return count

    assert read(1) == READ_AHEAD_MAX
    assert read(1 << 20) == READ_AHEAD_BYTES_MAX >> 20


def test_what_is_done_makes_room() -> None:
    one = Member()
    for number in range(1, 17):
        one.member._choose(entry(64 * number, 1 << 20))
    assert not one.member._has_room
    one.hear(one.answer(position=64))
    assert one.member._has_room
    one.member.close()
    assert one.member._kept_bytes == 0


def test_a_delivery_is_a_pair_whatever_it_counts() -> None:
    (delivery,) = Member().be_given(64)
    first, tries = delivery
    assert (first.position, tries, delivery.counted) == (64, 1, 1)
    assert Delivery(first, 3, 2) == (first, 3)
    assert Delivery(first, 3, 2).counted == 2


@pytest.mark.parametrize("counts", [False, True])
def test_each_report_says_whether_only_refusals_count(counts: bool) -> None:
    """The protocol level that has it may come into force after the member joined."""
    one = Member()
    one.member.settings = replace(SETTINGS, counts_refusals=counts)
    command = one.member._tell(one.answer())
    assert bool(command.flags & CommandFlag.COUNTS_REFUSALS) is counts


def test_what_was_taken_back_is_late_and_what_is_acknowledged_again_is_not() -> None:
    one = Member()
    first, second = one.be_given(64, 128)
    assert one.member.acknowledge(first) and one.member.acknowledge(first), "again: it is done"
    assert one.report() == 1
    one.hear(one.answer(128, accepted=1))
    assert one.member.acknowledge(first) and one.member.unsent == 0
    assert one.member.late == 0
    assert one.member.acknowledge(second) and one.report() == 1
    one.hear(one.answer(accepted=0))
    assert one.member.late == 1


def test_what_an_earlier_session_has_told_is_not_late() -> None:
    """The report was executed, its answer lost with the session, and the next session reports it again."""
    one = Member()
    for delivery in one.be_given(64, 128, 192):
        one.member.acknowledge(delivery)
    assert one.report() == 3
    one.lose_session()
    one.hear(one.answer(accepted=3))  # to its joining: what the last command before had
    assert one.member.late == 0
    assert one.report() == 3
    one.hear(one.answer(accepted=0))
    assert one.member.late == 0


def test_a_look_at_how_things_stand_counts_nothing() -> None:
    one = Member()
    (delivery,) = one.be_given(64)
    one.member.acknowledge(delivery)
    one.report()
    one.hear(one.answer(accepted=1))
    for _ in range(5):
        one.hear(one.answer(accepted=1))  # to a join, with the figure of the last report
    assert one.member.late == 0


@pytest.mark.parametrize("count", [1, 3 * ACKNOWLEDGED_MAX])
def test_what_is_remembered_is_bounded(count: int) -> None:
    one = Member()
    for number in range(1, count + 1):
        (delivery,) = one.be_given(64 * number)
        assert one.member.acknowledge(delivery)
        one.report()
        one.hear(one.answer(position=64 * number, accepted=1))
    assert len(one.member._acknowledged) == min(count, ACKNOWLEDGED_MAX)
    assert one.member._kept == {} and one.member._kept_bytes == 0

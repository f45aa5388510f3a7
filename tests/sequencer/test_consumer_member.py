"""One member of a durable consumer without a cluster: how far it reads ahead."""

from __future__ import annotations

from typing import Any

from ordo.cluster.wire.sessions.consumer_codec import AnswerFlag, ConsumerAnswer, ConsumerStatus
from ordo.consumers.consumer_member import (
    READ_AHEAD_BYTES_MAX,
    READ_AHEAD_MAX,
    ConsumerSettings,
    ExclusiveMember,
)
from ordo.follow.entries import EntryKind, LogEntry

NOWHERE: Any = None
SETTINGS = ConsumerSettings(name="billing", endpoints=["127.0.0.1:9"], start="live")


def active_member() -> ExclusiveMember:
    """Return a member that the cluster has said is the active one, and that has read nothing."""
    member = ExclusiveMember(SETTINGS, NOWHERE, 1)
    flags, status = AnswerFlag.ACTIVE, ConsumerStatus.OK
    member.answer = ConsumerAnswer(1, 1, status, flags, 7, 0, 0, -1, 0, 0, 0, 0, (), "")
    return member


def read(member: ExclusiveMember, length_bytes: int, kind: EntryKind = EntryKind.MESSAGE) -> int:
    """Have it read entries for as long as it reads on, and return how many."""
    count = 0
    while member._has_room and count < 2 * READ_AHEAD_MAX:
        count += 1
        member._choose(LogEntry(64 * count, kind, 0, 0, 1, bytes(length_bytes)))
    return count


def test_a_member_reads_no_further_ahead_than_it_has_room_for() -> None:
    """A caller that takes nothing holds back no more of the log in its gateway's memory."""
    assert read(active_member(), 100) == READ_AHEAD_MAX
    assert read(active_member(), 1 << 20) == READ_AHEAD_BYTES_MAX >> 20
    assert read(active_member(), 2 * READ_AHEAD_BYTES_MAX) == 1


def test_what_is_handed_out_or_given_up_makes_room() -> None:
    member = active_member()
    assert read(member, 1 << 20) == 16
    assert member.take(lambda _: None, 5) == 5
    assert read(member, 1 << 20) == 5
    member._stop_reading()
    assert read(member, 1 << 20) == 16


def test_what_is_not_asked_for_takes_no_room() -> None:
    assert read(active_member(), 1 << 20, EntryKind.SESSION_OPEN) == 2 * READ_AHEAD_MAX


def test_members_of_a_cluster_are_given_in_whatever_collection() -> None:
    endpoints: Any = {"127.0.0.1:9", "127.0.0.2:9"}
    assert len(ConsumerSettings(name="billing", endpoints=endpoints).archive_settings()) == 2

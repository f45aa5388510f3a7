"""States that wait for a standby's snapshot, and how a member reads what was copied."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from ordo.cluster.module.snapshots import copied_snapshots
from ordo.cluster.module.snapshots.copied_snapshots import CapturedState, CopiedSnapshots
from ordo.cluster.module.state.module_snapshot import SnapshotPoint

TIMERS = 20_000


class Member:
    """A member, the newest snapshot that it holds, and what it was told of a copy."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.shelf = SimpleNamespace(
            newest_position=-1, drop_part=lambda recording_id: self.dropped.append(recording_id)
        )
        self.dropped: list[int] = []
        self.errors: list[str] = []
        self.payloads = [b"timer"] * TIMERS
        self.read = 0
        archive = SimpleNamespace(reader=lambda recording_id, position: SimpleNamespace(messages=self.messages))
        self.copies = CopiedSnapshots(
            cast("Any", SimpleNamespace(record_error=self.errors.append)),
            cast("Any", SimpleNamespace(archive=archive, client=None)),
            cast("Any", self.shelf),
            cast("Any", None),
            cast("Any", None),
            0,
            is_on=is_on,
        )

    def messages(self) -> Any:
        for payload in self.payloads:
            self.read += 1
            yield SimpleNamespace(payload=payload)

    def capture(self, position: int, *heads: bytes) -> None:
        self.copies.await_copy(CapturedState(SnapshotPoint(position, 0, 1), 0, (b"module",), heads or (b"head",)))


def test_a_part_of_many_short_messages_is_read_in_several_steps() -> None:
    """Each takes time, however short it is, and the member does nothing else meanwhile."""
    member = Member()
    member.capture(64)
    member.copies.take(64, (7,))
    steps = [0]
    while member.copies.is_under_way:
        member.copies.work(0)
        steps.append(member.read)
    longest = max(after - before for before, after in pairwise(steps))
    assert steps[-1] == TIMERS and longest <= copied_snapshots.CHECK_BYTES // copied_snapshots.MESSAGE_BYTES_MIN
    assert member.dropped == [7] and "is of another state" in member.errors[0]


def test_a_state_older_than_a_snapshot_that_is_held_is_let_go() -> None:
    member = Member()
    for position in (64, 128):
        member.capture(position)
    member.shelf.newest_position = 64
    member.copies.work(0)
    member.shelf.newest_position = -1
    assert member.copies.awaits(128) and not member.copies.awaits(64)
    assert member.copies.wanted_position == 128


def test_only_the_newest_states_wait() -> None:
    member = Member()
    for position in range(64, 64 * 10, 64):
        member.capture(position)
    waiting = [one for one in range(64, 64 * 10, 64) if member.copies.awaits(one)]
    assert waiting == [64 * 6, 64 * 7, 64 * 8, 64 * 9]


def test_nothing_waits_where_it_could_not_be_compared_or_nobody_copies() -> None:
    member = Member()
    member.capture(64, b"head", b"")
    assert not member.copies.awaits(64)
    other = Member(is_on=False)
    other.capture(64)
    assert not other.copies.awaits(64)

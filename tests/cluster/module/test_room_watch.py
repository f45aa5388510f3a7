"""A member whose disk fills up: what it takes, what it says, and when it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.log.disk_space_watch import DRAIN_NS, HEARD_NS, RoomWatch, WatchedDisk
from ordo.cluster.module.state.settings import ArchiveSettings
from ordo.cluster.wire.counters.counter_types import Room
from ordo.cluster.wire.sessions.ingress_notice import OPEN_NOTICE, decode_notice, encode_closed
from ordo.consensus.state.messages import AppendPosition
from ordo.consensus.state.states import ElectionState
from ordo.sequencer.sequencer import FLAG_NO_ROOM
from tests.cluster.module.member import Core, Host, make_sequencer

LOW, HIGH = 1000, 2000


@dataclass
class Disk:
    free: int = 5000
    directory: str = "/archive"

    @property
    def storage(self) -> Any:
        return SimpleNamespace(usable_bytes=lambda directory: self.free)


@dataclass
class Member(Host):
    said: list[str] = field(default_factory=list)
    handed_over: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.transfer = SimpleNamespace(begin=lambda target, now_ns: self.handed_over.append(target))

    def record_error(self, message: str) -> None:
        self.said.append(message)

    def announce(self, event: str, text: str) -> None:
        self.said.append(f"{event}: {text}")


class Watched:
    """A watch, its disk, and what came of it."""

    def __init__(self, **host: Any) -> None:
        self.disk, self.host, self.core = Disk(), Member(**host), Core()
        self.active: set[int] = set()
        self.left: list[str] = []
        parts: Any = self.core
        parts.is_serving = self.host.is_leader
        parts.progress = SimpleNamespace(
            is_active=lambda member_id, now_ns: member_id in self.active, member_position=lambda member_id: member_id
        )
        parts.on_log_lost = lambda reason, is_clean, now_ns: self.left.append(reason)
        parts.bear_standstill = lambda now_ns: None
        self.sequencer = make_sequencer()
        self.notices: list[str] = []
        self.ordered: list[int] = []
        counters: Any = SimpleNamespace(no_room=SimpleNamespace(set=lambda value: None))
        settings = ArchiveSettings(disk_low=LOW, disk_high=HIGH)
        watch: Any = RoomWatch
        disk: Any = self.disk
        self.bounds: list[int | None] = []
        log: Any = SimpleNamespace(bound=self.bounds.append)
        self.watch: RoomWatch = watch(
            self.host,
            WatchedDisk.of(disk, settings, counters),
            log,
            parts,
            self.sequencer,
            Clients(self.notices, self.host),
            order_early_snapshot=self.ordered.append,
            carry_out=lambda now_ns: None,
        )

    def work(self, free: int, now_ns: int = 0) -> int:
        self.disk.free = free
        self.watch.work(now_ns)
        return self.watch.state


@dataclass
class Clients:
    """The client of one session."""

    notices: list[str]
    host: Member

    def notify(self, session: Any, notice: str) -> None:
        self.notices.append(notice)

    def notify_all(self, notice: str) -> None:
        self.notices.append(notice)

    def touch(self) -> None:
        self.host.touched += 1


def short(member_id: int) -> AppendPosition:
    return AppendPosition(7, 100, member_id, FLAG_NO_ROOM)


def test_a_leader_below_the_low_mark_takes_nothing_until_it_is_above_the_high_one() -> None:
    watched = Watched()
    assert watched.work(LOW) == Room.NONE
    assert watched.work(LOW - 1) == Room.SHORT | Room.CLOSED
    assert watched.work(HIGH - 1) == Room.SHORT | Room.CLOSED
    assert watched.work(HIGH) == Room.NONE
    reason, notice = watched.notices
    assert decode_notice(reason) == "the disk of member 0, which leads, is full"
    assert notice == OPEN_NOTICE
    assert watched.host.touched > 0, "nobody could be heard meanwhile"


def test_what_is_on_its_way_is_taken_for_a_while_or_until_half_of_the_mark() -> None:
    watched = Watched()
    watched.work(LOW - 1)
    assert not watched.sequencer.holds_for_room
    watched.work(LOW - 1, DRAIN_NS)
    assert watched.sequencer.holds_for_room
    watched.work(HIGH, DRAIN_NS + 1)
    assert not watched.sequencer.holds_for_room
    watched.work(LOW // 2 - 1, DRAIN_NS + 2)
    assert watched.sequencer.holds_for_room


def test_between_two_looks_the_log_takes_no_more_than_leaves_room_for_snapshots() -> None:
    """A member that catches up records more in 25 ms than its marks keep free."""
    watched = Watched()
    for free in (5000, LOW // 4, LOW * 3 // 16, 0):
        watched.work(free)
    reserve = LOW * 3 // 16
    assert watched.bounds == [5000 - reserve, LOW // 4 - reserve, 0, 0]
    assert watched.watch.is_out, "what is left below the quarter is not recorded any more"


def test_below_a_quarter_nothing_is_appended_until_the_low_mark() -> None:
    watched = Watched()
    watched.work(LOW // 4 - 1)
    assert watched.watch.is_out
    watched.work(LOW - 1)
    assert watched.watch.is_out
    watched.work(LOW)
    assert not watched.watch.is_out


def test_a_follower_says_that_it_is_short_and_leaves_the_log_when_it_is_out() -> None:
    watched = Watched(is_leader=False)
    watched.work(LOW - 1)
    assert watched.sequencer.position_flags == FLAG_NO_ROOM
    assert watched.left == []
    watched.work(LOW // 4 - 1)
    assert watched.left == ["no room on the disk for the log"]
    watched.core.state = ElectionState.FOLLOWER_CATCHUP_AWAIT
    watched.work(LOW // 4 - 1)
    assert len(watched.left) == 1
    watched.work(HIGH)
    assert watched.sequencer.position_flags == 0


def test_a_quorum_must_have_room() -> None:
    watched = Watched()
    watched.active = {1, 2}
    watched.watch.on_append_position(short(1), 0)
    assert watched.work(5000) == Room.NONE
    watched.watch.on_append_position(short(2), 0)
    assert watched.work(5000) == Room.CLOSED
    assert decode_notice(watched.notices[0]) == "the disks of members [1, 2] are full"
    assert watched.work(5000, HEARD_NS + 1) == Room.NONE, "heard without the flag for a second"


def test_who_is_not_heard_any_more_stays_short() -> None:
    watched = Watched()
    for member_id in (1, 2):
        watched.watch.on_append_position(short(member_id), 0)
    assert watched.work(5000, 10 * HEARD_NS) == Room.CLOSED


def test_it_hands_over_where_a_quorum_of_the_others_has_room() -> None:
    watched = Watched()
    watched.active = {1}
    watched.work(LOW - 1)
    assert watched.host.handed_over == []
    watched = Watched()
    watched.active = {1, 2}
    watched.work(LOW - 1)
    assert watched.host.handed_over == [2], "who has most of the log"


def test_a_snapshot_is_ordered_while_there_is_room_for_one() -> None:
    watched = Watched()
    watched.work(LOW - 1)
    assert watched.ordered == [LOW - 1 - LOW // 2]
    watched = Watched()
    watched.work(LOW // 2)
    assert watched.ordered == []


def test_a_new_leader_begins_anew() -> None:
    watched = Watched()
    watched.watch.on_append_position(short(1), 0)
    watched.watch.on_append_position(short(2), 0)
    watched.watch.lead()
    assert watched.work(5000) == Room.NONE


def test_a_session_that_opens_meanwhile_is_told() -> None:
    watched = Watched()
    session: Any = SimpleNamespace(id=2)
    watched.watch.tell(session)
    assert watched.notices == []
    watched.work(LOW - 1)
    watched.watch.tell(session)
    assert len(watched.notices) == 2


def test_notices_are_told_from_other_details() -> None:
    assert decode_notice(encode_closed("why")) == "why"
    assert decode_notice(OPEN_NOTICE) == ""
    assert decode_notice("message-length-max=1408") is None
    assert decode_notice("") is None


def test_the_high_mark_is_not_below_the_low_one() -> None:
    with pytest.raises(ValueError, match="disk_high"):
        ArchiveSettings.model_validate({"disk_low": "2g", "disk_high": "1g"})

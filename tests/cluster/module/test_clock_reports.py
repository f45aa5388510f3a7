"""What leaders say in the log of how well their clock is known: when, and with whose figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotOrders, SnapshotSchedule
from ordo.cluster.module.versions.clock_reports import AGAIN_NS, ClockReports
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import CLOCK_LEVEL, SUCCESSION_LEVEL
from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.runtime.native.kernel_clock import ClockQuality

S = 1_000_000_000
EPOCH_MS = 1_700_000_000_000
KNOWN = ClockQuality(True, -2_500, 20_000, 1_500_000)


class Leader:
    """Member 2, whose wall clock is 7 ms ahead of cluster time; each record takes 128 bytes of its log."""

    def __init__(
        self, level: int = CLOCK_LEVEL, interval_ns: int = 10 * S, quality: ClockQuality | None = KNOWN
    ) -> None:
        self.leadership_term_id, self.cluster_time, self.is_leader = 3, EPOCH_MS, True
        self.log_end_position = self.commit_position = 4096
        self.holds = False
        self.told = quality
        self.appended: list[Any] = []
        self.reports = ClockReports(
            cast(Any, self),
            self,
            cast(Any, SimpleNamespace(newest=level)),
            cast(Any, self),
            2,
            interval_ns,
        )

    def quality(self) -> ClockQuality | None:
        return self.told

    def epoch_ns(self) -> int:
        return (EPOCH_MS + 7) * 1_000_000

    def append(self, record: bytes) -> bool:
        if self.holds:
            return False
        self.grow()
        found = ordo_codecs.decode(record)
        assert found is not None and found[0] is ordo_codecs.CLOCK_EVENT and 32 + len(record) <= 128
        self.appended.append(found[1])
        return True

    def grow(self) -> None:
        self.log_end_position += 128


def test_a_term_begins_with_a_report_of_the_leaders_own_clock() -> None:
    leader = Leader()
    leader.reports.work(5)
    leader.reports.work(6)
    [event] = leader.appended
    assert (event.leadership_term_id, event.timestamp, event.member_id) == (3, EPOCH_MS, 2)
    assert (event.source, event.is_synchronized, event.interval_ns) == (ClockSource.KERNEL, 1, 10 * S)
    assert (event.offset_ns, event.error_estimate_ns, event.error_bound_ns) == (-2_500, 20_000, 1_500_000)
    assert event.wall_clock_ahead_ns == 7_000_000
    leader.leadership_term_id, leader.told = 4, None
    leader.reports.work(7)
    assert leader.appended[1].leadership_term_id == 4, "the next term, though the interval is not over"
    assert leader.appended[1].source == ClockSource.NONE
    assert leader.appended[1][2:5] == (0, 0, 0) and not leader.appended[1].is_synchronized


def test_further_reports_follow_at_intervals_in_which_the_log_grows() -> None:
    leader = Leader()
    leader.reports.work(0)
    leader.reports.work(100 * S)
    assert len(leader.appended) == 1, "a log at rest stays at rest"
    leader.grow()
    leader.reports.work(100 * S)
    leader.grow()
    leader.reports.work(110 * S - 1)
    assert len(leader.appended) == 2
    leader.told = KNOWN._replace(is_synchronized=False)
    leader.reports.work(110 * S)
    assert [event.is_synchronized for event in leader.appended] == [1, 1, 0]


@pytest.mark.parametrize("options", [{"level": SUCCESSION_LEVEL}, {"interval_ns": 0}])
def test_there_are_no_reports_below_the_level_or_where_none_are_wanted(options: dict[str, Any]) -> None:
    leader = Leader(**options)
    leader.reports.work(0)
    assert leader.appended == []


def test_only_a_leader_reports() -> None:
    leader = Leader()
    leader.is_leader = False
    leader.reports.work(0)
    assert leader.appended == []


def test_what_could_not_be_appended_is_asked_for_anew() -> None:
    leader = Leader()
    leader.holds = True
    leader.reports.work(0)
    leader.holds, leader.told = False, KNOWN._replace(error_bound_ns=2_000_000)
    leader.reports.work(AGAIN_NS - 1)
    assert leader.appended == []
    leader.reports.work(AGAIN_NS)
    assert [event.error_bound_ns for event in leader.appended] == [2_000_000]


def test_a_report_behind_a_snapshot_calls_for_no_other_snapshot() -> None:
    """Otherwise each of the two would be followed by the other for ever, in a cluster at rest."""
    leader, asked = Leader(), []

    def ask() -> bool:
        asked.append(leader.log_end_position)
        return True

    schedule = SnapshotSchedule(0, S, ask)
    retention = cast(Any, SimpleNamespace(frees=lambda _: True))
    copies = SimpleNamespace(is_on=False, takes_over=False, work=lambda now_ns: None, order_own=ask)
    orders = SnapshotOrders(leader, cast(Any, leader), schedule, retention, leader.reports, cast(Any, copies))
    orders.note(leader.log_end_position, EPOCH_MS)
    leader.reports.work(0)
    leader.commit_position, leader.cluster_time = leader.log_end_position, EPOCH_MS + 2000
    orders.work(0)
    orders.order_early(1 << 30)  # as a leader short of room does
    assert len(leader.appended) == 1 and asked == []
    leader.grow()
    leader.commit_position = leader.log_end_position
    orders.work(0)
    orders.order_early(1 << 30)
    assert asked == [leader.log_end_position] * 2

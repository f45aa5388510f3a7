"""Timers of the services (cluster-consensus.md §13)."""

import pytest

from ordo.cluster.module.sessions.timers import STALE_ENTRIES_MAX, ClusterTimers, TimerService
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.timers import ServiceTimers

NOW_MS = 1_790_000_000_000


def _fire_all(timers: TimerService, now: int) -> list[int]:
    fired = []
    while (correlation_id := timers.pop_due(now)) is not None:
        timers.mark_fired(correlation_id)
        fired.append(correlation_id)
    return fired


def test_timers_are_due_in_order_of_their_deadlines() -> None:
    timers = TimerService()
    for correlation_id, deadline in ((1, 30), (2, 10), (3, 20), (4, 99)):
        timers.schedule(correlation_id, deadline)
    assert _fire_all(timers, 30) == [2, 3, 1]


def test_a_timer_that_was_appended_is_not_due_again_until_leadership_is_lost() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    assert _fire_all(timers, 10) == [7]
    assert _fire_all(timers, 20) == []
    timers.lose_leadership()
    assert _fire_all(timers, 20) == [7]


def test_an_executed_timer_is_gone() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    _fire_all(timers, 10)
    timers.execute(7)
    timers.lose_leadership()
    timers.on_service_executed(7, 10)
    assert _fire_all(timers, 20) == []
    assert len(timers) == 0


def test_put_back_keeps_a_timer_due() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    correlation_id = timers.pop_due(5)
    assert correlation_id == 7
    timers.put_back(7)
    assert timers.pop_due(5) == 7


def test_scheduling_again_replaces_the_deadline() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    timers.schedule(7, 50)
    assert _fire_all(timers, 49) == []
    assert _fire_all(timers, 50) == [7]
    assert timers.snapshot() == [(7, 50)]


def test_cancelled_timers_never_fire() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    timers.cancel(7)
    timers.cancel(8)
    assert _fire_all(timers, 100) == []


def test_an_event_executed_before_its_request_is_not_appended_again() -> None:
    """A member's service may lag behind the log (§13): the new leader's asks for what has fired long ago."""
    timers = TimerService()
    timers.execute(7)
    timers.execute(7)
    timers.schedule(7, 5)
    assert _fire_all(timers, 10) == []
    timers.on_service_executed(7, 6)
    timers.schedule(7, 8)
    assert _fire_all(timers, 10) == [], "the second event is still to come"
    timers.on_service_executed(7, 9)
    timers.schedule(7, 10)
    assert _fire_all(timers, 10) == [7]


def test_a_service_may_be_ahead_of_the_module() -> None:
    """The module stands still while a snapshot is taken."""
    timers = TimerService()
    timers.schedule(7, 5)
    assert _fire_all(timers, 5) == [7]
    timers.on_service_executed(7, 5)
    timers.schedule(7, 6)
    assert _fire_all(timers, 10) == []
    timers.execute(7)
    assert _fire_all(timers, 10) == [7]


def test_a_timer_that_was_cancelled_with_its_event_under_way_does_not_swallow_the_next_of_its_id() -> None:
    """It did: the event counted as one that the service had not asked for yet."""
    timers = TimerService()
    timers.schedule(7, 5)
    assert _fire_all(timers, 10) == [7]
    timers.cancel(7)
    timers.execute(7)
    timers.on_service_executed(7, 10)
    timers.schedule(7, 20)
    assert timers.snapshot() == [(7, 20)]
    assert _fire_all(timers, 20) == [7]


@pytest.mark.parametrize("service_is_behind", [False, True])
def test_an_event_under_way_leaves_the_timer_alone_that_was_scheduled_meanwhile(service_is_behind: bool) -> None:
    """It took the new timer away, at members whose module came to the event after the service had asked."""
    timers = TimerService()
    timers.schedule(7, 5)
    assert _fire_all(timers, 10) == [7]
    if service_is_behind:
        timers.execute(7)
    timers.cancel(7)
    timers.schedule(7, 30)
    assert _fire_all(timers, 40) == [], "not before it is known whom the event is for"
    if not service_is_behind:
        timers.execute(7)
    timers.on_service_executed(7, 10)
    assert timers.snapshot() == [(7, 30)]
    assert _fire_all(timers, 29) == []
    assert _fire_all(timers, 30) == [7]


def test_an_event_under_way_counts_for_a_timer_that_was_due_by_then() -> None:
    timers = TimerService()
    timers.schedule(7, 5)
    assert _fire_all(timers, 10) == [7]
    timers.schedule(7, 10)
    timers.execute(7)
    timers.on_service_executed(7, 10)
    assert _fire_all(timers, 99) == []


def test_a_member_that_never_leads_keeps_no_entries_of_what_has_fired() -> None:
    timers = TimerService()
    for number in range(1000):
        timers.schedule(number, number)
        timers.execute(number)
        timers.on_service_executed(number, number)
    assert len(timers._heap) <= STALE_ENTRIES_MAX + 1


def test_what_a_service_sees_of_its_timers() -> None:
    timers = ServiceTimers([(1, 10)])
    assert not timers.fire(2, 99), "never scheduled, or cancelled"
    assert not timers.fire(1, 9), "an event of an earlier timer of this id"
    assert timers.fire(1, 10)
    assert not timers.fire(1, 11)
    timers.schedule(3, 5)
    timers.cancel(3)
    assert not timers.fire(3, 5)
    assert timers.snapshot() == []


def test_deadlines_are_in_the_unit_that_the_service_has_come_to() -> None:
    """The log is in microseconds already; the service, which is behind, still executes milliseconds."""
    timers = TimerService()
    timers.on_unit(TimeUnit.MILLIS)
    timers.schedule(1, NOW_MS + 5)
    timers.schedule(2, 2**62)
    assert timers.pop_due((NOW_MS + 5) * 1000 - 1) is None
    timers.schedule(3, NOW_MS + 6)
    timers.on_unit(TimeUnit.MICROS)
    timers.schedule(4, NOW_MS * 1000 + 5_500)
    assert timers.snapshot() == [
        (1, (NOW_MS + 5) * 1000),
        (2, 2**63 - 1),
        (3, (NOW_MS + 6) * 1000),
        (4, NOW_MS * 1000 + 5_500),
    ]
    due = (timers.pop_due((NOW_MS + 7) * 1000) for _ in range(4))
    assert [*due] == [1, 4, 3, None]


def test_no_deadline_is_told_while_a_service_is_behind_the_change() -> None:
    """Milliseconds are long past, taken for microseconds: the leader would look for timers all the time."""
    timers = ClusterTimers(1)
    timers.begin(TimeUnit.MILLIS)
    timers[0].schedule(1, NOW_MS)
    assert timers.next_deadline == NOW_MS
    timers.begin(TimeUnit.MICROS)
    assert timers[0].unit is TimeUnit.MILLIS and timers.next_deadline is None
    timers[0].on_unit(TimeUnit.MICROS)
    assert timers.next_deadline == NOW_MS * 1_000


def test_no_deadline_is_told_while_services_are_in_different_units() -> None:
    timers = ClusterTimers(2)
    timers[0].schedule(1, 5)
    assert timers.next_deadline == 5
    timers[0].on_unit(TimeUnit.MILLIS)
    assert timers.next_deadline == 5
    timers[1].on_unit(TimeUnit.MICROS)
    assert timers.next_deadline is None
    timers[0].on_unit(TimeUnit.MICROS)
    assert timers.next_deadline == 5_000

"""Timers of the services (cluster-consensus.md §13)."""

from cluster.timers import MAX_VALUE, TimerService


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
    assert timers.next_deadline() == 99


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
    assert _fire_all(timers, 20) == []
    assert len(timers) == 0
    assert timers.next_deadline() == MAX_VALUE


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


def test_an_event_executed_before_its_request_swallows_the_request() -> None:
    """A follower's service may lag behind the log (§13)."""
    timers = TimerService()
    timers.execute(7)
    timers.schedule(7, 5)
    assert len(timers) == 0
    timers.schedule(7, 6)
    assert timers.snapshot() == [(7, 6)]

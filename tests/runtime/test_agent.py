"""Agents, runners and idling."""

import pytest

from ordo.runtime.agents.idle import BackoffIdle
from ordo.runtime.agents.wake import ParkFlag, Waker
from ordo.runtime.native.counters import local_counter


def test_backoff_spins_yields_looks_once_more_and_parks() -> None:
    parks: list[int] = []
    idle = BackoffIdle(parks.append, spins_max=2, yields_max=1, park_ns_min=10, park_ns_max=35)
    for _ in range(9):
        idle.after(0)
    assert (idle.spin_count, idle.yield_count, idle.park_count) == (2, 1, 3)
    assert parks == [10, 20, 35]

    idle.after(1)
    idle.after(0)
    assert idle.spin_count == 3


def test_park_ends_at_the_deadline() -> None:
    parks: list[int] = []
    idle = BackoffIdle(parks.append, spins_max=0, yields_max=0, park_ns_min=10, park_ns_max=100)
    for timeout_ns in (7, 7, 0, 0, -1, -1):
        idle.after(0, timeout_ns)
    assert parks == [7, 20]


def test_error_of_a_park_is_raised() -> None:
    def park(timeout_ns: int) -> None:
        raise OSError("socket is gone")

    idle = BackoffIdle(park, spins_max=0, yields_max=0)
    idle.after(0)
    with pytest.raises(OSError, match="socket is gone"):
        idle.after(0)
    idle.after(0)


def test_waker_acts_once_for_each_announcement() -> None:
    flag = ParkFlag(local_counter())
    waker = Waker(flag)
    assert waker.wake_parked() is False
    flag.announce_parked(1)
    assert waker.wake_parked() is True
    assert waker.wake_parked() is False
    flag.wait(60_000_000_000)  # returns at once: the flag was cleared

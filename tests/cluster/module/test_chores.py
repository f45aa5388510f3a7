"""How often a member sees to what is beside its log."""

from __future__ import annotations

from functools import partial

import pytest

from ordo.cluster.module.periodic_work import (
    BUSY_INTERVAL_NS,
    IDLE_INTERVAL_NS,
    DriverWatch,
    EverySecond,
    PeriodicWork,
)
from ordo.runtime.errors import TransportError
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from tests.transport.test_client import Pair


class Member:
    """A member with seven things to do, which are counted."""

    def __init__(self) -> None:
        self.counts = [0] * 7
        self.work = PeriodicWork([partial(self._count, one) for one in range(7)])

    def _count(self, number: int, now_ns: int) -> None:
        self.counts[number] += 1

    def tick_for(self, duration_ns: int, *, is_busy: bool, growth_bytes: int = 0) -> set[int]:
        """Ticks every millisecond; how often each part was called in that time."""
        before = list(self.counts)
        self.work.is_busy = is_busy
        for tick in range(duration_ns // MILLISECOND_NS):
            self.work.work(tick * growth_bytes, IDLE_INTERVAL_NS + tick * MILLISECOND_NS)
        return {count - earlier for count, earlier in zip(self.counts, before, strict=True)}


@pytest.mark.parametrize(
    ("is_busy", "growth_bytes", "interval_ns"),
    [(False, 0, IDLE_INTERVAL_NS), (True, 0, BUSY_INTERVAL_NS), (False, 64, BUSY_INTERVAL_NS)],
    ids=["idle", "busy", "its log grows"],
)
def test_work_is_done_at_their_interval(is_busy: bool, growth_bytes: int, interval_ns: int) -> None:
    duration_ns = 1_000 * MILLISECOND_NS
    assert Member().tick_for(duration_ns, is_busy=is_busy, growth_bytes=growth_bytes) == {duration_ns // interval_ns}


def test_what_is_done_every_second_is_done_at_once_where_there_is_news() -> None:
    done: list[int] = []
    news: list[str] = []
    second = EverySecond([done.append], lambda: bool(news))
    for now_ns in (0, 1, SECOND_NS - 1, SECOND_NS):
        second.work(now_ns)
    assert done == [0, SECOND_NS]
    news.append("a snapshot")
    second.work(SECOND_NS + 1)
    news.clear()
    second.work(SECOND_NS + 2)
    assert done[2:] == [SECOND_NS + 1]
    second.hasten(SECOND_NS + 3)
    second.work(SECOND_NS + 3)
    assert done[3:] == [SECOND_NS + 3]


def test_a_member_without_its_driver_ends_though_a_call_took_the_error() -> None:
    """A node whose driver ended within an election held a thousand more, and had no line about it at its end."""
    pair = Pair()
    watch = DriverWatch(pair.client)
    watch.work(pair.clock.now())
    pair.driver.is_beating = False
    pair.driver.cnc.to_driver.consumer_heartbeat_ms = -1
    pair.run(SECOND_NS)
    with pytest.raises(TransportError, match=r"cannot be used any more: the driver in .* was closed"):
        watch.work(pair.clock.now())

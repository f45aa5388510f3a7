"""How often a member sees to what is beside its log."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.module.periodic_work import BUSY_INTERVAL_NS, IDLE_INTERVAL_NS, Chores
from ordo.runtime.native.time_units import MILLISECOND_NS


class Counted:
    """Stands for every part of a member: each may be told to work, with or without the time."""

    count = 0

    def work(self, now_ns: int = 0) -> None:
        self.count += 1

    take_counters = work

    def release_unwanted(self) -> None:
        """Sessions do this with their counters."""


class Member:
    def __init__(self) -> None:
        self.parts = [Counted() for _ in range(7)]
        parts: Any = self.parts
        self.chores = Chores(*parts)

    def tick_for(self, duration_ns: int, *, is_busy: bool, growth_bytes: int = 0) -> set[int]:
        """Ticks every millisecond; how often each part was called in that time."""
        before = [part.count for part in self.parts]
        self.chores.is_busy = is_busy
        for tick in range(duration_ns // MILLISECOND_NS):
            self.chores.work(tick * growth_bytes, IDLE_INTERVAL_NS + tick * MILLISECOND_NS)
        return {part.count - earlier for part, earlier in zip(self.parts, before, strict=True)}


@pytest.mark.parametrize(
    ("is_busy", "growth_bytes", "interval_ns"),
    [(False, 0, IDLE_INTERVAL_NS), (True, 0, BUSY_INTERVAL_NS), (False, 64, BUSY_INTERVAL_NS)],
    ids=["idle", "busy", "its log grows"],
)
def test_chores_are_done_at_their_interval(is_busy: bool, growth_bytes: int, interval_ns: int) -> None:
    duration_ns = 1_000 * MILLISECOND_NS
    assert Member().tick_for(duration_ns, is_busy=is_busy, growth_bytes=growth_bytes) == {duration_ns // interval_ns}

"""Cluster time never goes back, and no step of a wall clock moves it (docs/ARCHITECTURE.md, Cluster time)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ordo.runtime.native.cluster_time import TimeUnit, time_ms, time_ns
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode

MS = 1_000_000
LEAP_MS_MAX = 30_000
"""Clocks of different rates, records that wait to be durable, members that join late: far from the hour of a step."""
TIME = re.compile(r" time=(\d+)")


class TimeGoesOn(Invariant):
    """Compares the timestamps in the log with the time that has passed in the world.

    A leader that has followed nobody since its start knows the time from its own clock alone, as after the start of the
    whole cluster: from there on its time is compared anew, and that of members that have followed it, or one of those.
    Only what a leader stamps itself counts: when it begins, the newest record of its log may be an old one.
    """

    name = "time goes on"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._origin: dict[int, int] = {}
        """Member -> which start of time it knows."""
        self._origins = 0
        self._latest_ms: dict[int, int] = {}
        """Of members that lead."""
        self._ahead_ms: dict[int, int] = {}
        """Of each origin, when it was last stamped."""
        self._executed = (0, 0)
        """The last position of which the time is known, and that time."""

    def on_booted(self, node: SimulatedNode) -> None:
        self._origins += 1
        self._origin[node.member_id] = self._origins
        self._latest_ms.pop(node.member_id, None)

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        module, member_id = node.module, node.member_id
        leader_id = module.core.leader_member_id
        if leader_id in self._origin and module.core.is_bound_to(module.core.leadership_term_id, leader_id):
            self._origin[member_id] = self._origin[leader_id]
        latest_ms = time_ms(module.sequencer.last_timestamp)
        if not module.core.is_serving:
            self._latest_ms.pop(member_id, None)
            return
        if latest_ms <= self._latest_ms.setdefault(member_id, latest_ms):
            return
        self._latest_ms[member_id] = latest_ms
        origin, ahead_ms = self._origin[member_id], latest_ms - self.world.now_ns // MS
        known_ms = self._ahead_ms.get(origin, ahead_ms)
        if ahead_ms > known_ms + LEAP_MS_MAX:
            self.fail(f"{node.name} stamps records {ahead_ms - known_ms} ms later than the time that has passed")
        self._ahead_ms[origin] = ahead_ms

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        found = TIME.search(record.text)
        position, before = self._executed
        if found is None or record.position <= position:
            return
        if time_ns(int(found[1])) < time_ns(before):
            self.fail(f"{record.position} has time {found[1]}, after {before} at {position}")
        if before and TimeUnit.of_timestamp(before) is not TimeUnit.of_timestamp(int(found[1])):
            self.world.trace.count_fault("time goes on in another unit")
        self._executed = record.position, int(found[1])

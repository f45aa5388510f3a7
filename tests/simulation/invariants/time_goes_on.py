"""Cluster time never goes back, and no step of a wall clock moves it (docs/ARCHITECTURE.md, Cluster time)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
    whole cluster: from there on it is compared anew.
    """

    name = "time goes on"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._has_followed: set[int] = set()
        self._latest_ms: dict[int, int] = {}
        self._ahead_ms: int | None = None
        self._executed = (0, 0)
        """The last position of which the time is known, and that time."""

    def on_booted(self, node: SimulatedNode) -> None:
        self._has_followed.discard(node.member_id)
        self._latest_ms.pop(node.member_id, None)

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        module, member_id = node.module, node.member_id
        if module.core.leader_member_id not in (-1, member_id) and module.core.is_bound_to(
            module.core.leadership_term_id, module.core.leader_member_id
        ):
            self._has_followed.add(member_id)
        latest_ms = module.sequencer.last_timestamp
        if not module.core.is_serving or latest_ms <= self._latest_ms.get(member_id, 0):
            return
        self._latest_ms[member_id] = latest_ms
        ahead_ms = latest_ms - self.world.now_ns // MS
        if member_id in self._has_followed and self._ahead_ms is not None and ahead_ms > self._ahead_ms + LEAP_MS_MAX:
            self.fail(f"{node.name} stamps records {ahead_ms - self._ahead_ms} ms later than the time that has passed")
        self._ahead_ms = ahead_ms

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        found = TIME.search(record.text)
        position, time_ms = self._executed
        if found is None or record.position <= position:
            return
        if int(found[1]) < time_ms:
            self.fail(f"{record.position} has time {found[1]}, after {time_ms} at {position}")
        self._executed = record.position, int(found[1])

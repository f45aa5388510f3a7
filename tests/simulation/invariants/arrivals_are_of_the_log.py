"""When a message arrived is the same on all members, and only a log of the level says it."""

from __future__ import annotations

from ordo.cluster.wire.levels import ARRIVAL_LEVEL
from tests.simulation.invariants.base import Invariant, WatchedWorld


class ArrivalsAreOfTheLog(Invariant):
    """Compares what service 0 of each member is told."""

    name = "arrivals are of the log"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._arrivals: dict[int, int | None] = {}
        """By position."""
        self.count = 0
        """Messages whose arrival is known."""

    def on_arrived(self, member_id: int, position: int, arrival_ns: int | None) -> None:
        if position not in self._arrivals:
            self._arrivals[position] = arrival_ns
            self.count += arrival_ns is not None
        known = self._arrivals[position]
        if known != arrival_ns:
            self.fail(f"node{member_id} says the message at {position} arrived at {arrival_ns}, another member {known}")
        if arrival_ns is None:
            return
        level = self.world.nodes[member_id].module.rules.levels.at(position)
        if level < ARRIVAL_LEVEL:
            self.fail(f"the message at {position} has an arrival, and the log level {level} there")

"""What the log says of a clock is what the leader that stamps it was told of its own, in that term and just then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.levels import CLOCK_LEVEL
from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.runtime.native.cluster_time import time_ns
from ordo.runtime.native.kernel_clock import ClockQuality
from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.logs import LogCopy

if TYPE_CHECKING:
    from ordo.cluster.wire import records

SLACK_NS = 1_000_000
"""Time passes while a leader asks, where each look at a clock takes some."""


class ClocksAreTheLeaders(Invariant):
    """Looks at the reports in the logs of all members, committed or not."""

    name = "reports of clocks are the leader's"

    def __init__(self, world: WatchedWorld, logs: list[LogCopy]) -> None:
        super().__init__(world)
        self._logs = logs
        self._checked: set[tuple[int, records.ClockEvent]] = set()
        self._positions: dict[int, int] = {}
        """Where each answer is in the log."""

    @property
    def is_of_this_term(self) -> bool:
        """Whether the leader has reported in its term, or need not."""
        for node, log in zip(self.world.nodes, self._logs, strict=True):
            if node.is_alive and node.serves and node.module.rules.levels.newest >= CLOCK_LEVEL:
                log.refresh()
                return any(event.leadership_term_id == node.leads_term for _, event in log.clocks)
        return True

    def on_checkpoint(self) -> None:
        for log in self._logs:
            for position, event in log.clocks:
                if (position, event) not in self._checked:
                    self._checked.add((position, event))
                    self._check(position, event)

    def _check(self, position: int, event: records.ClockEvent) -> None:
        quality = ClockQuality(
            bool(event.is_synchronized), event.offset_ns, event.error_estimate_ns, event.error_bound_ns
        )
        if event.source == ClockSource.NONE:
            if any(quality):
                self.fail(f"the report at {position} has {quality}, though nothing has told them")
            return
        member = next(node for node in self.world.nodes if node.member_id == event.member_id)
        told = member.kernel_clock.told.get(event.error_estimate_ns)
        if told is None or told.quality != quality:
            self.fail(f"the report at {position} has {quality}, and {member.name} was told {told}")
            return
        if told.term_id != event.leadership_term_id:
            self.fail(f"the report at {position} is of term {event.leadership_term_id}, and was told in {told.term_id}")
        wall_ns = time_ns(event.timestamp) + event.wall_clock_ahead_ns
        if abs(wall_ns - told.wall_ns) > SLACK_NS:
            self.fail(f"the report at {position} is of {wall_ns}, and was told at {told.wall_ns}")
        if self._positions.setdefault(event.error_estimate_ns, position) != position:
            self.fail(f"the report at {position} has the figures of another one")

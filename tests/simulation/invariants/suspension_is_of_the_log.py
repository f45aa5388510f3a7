"""A member stands still when the log it has executed says so (cluster-consensus.md §19); a leader before that, too."""

from __future__ import annotations

from ordo.cluster.wire.counters.counter_types import ModuleState
from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.logs import LogCopy

SHOWN = {False: ModuleState.ACTIVE, True: ModuleState.SUSPENDED}


class SuspensionIsOfTheLog(Invariant):
    """What a leader has in flight is forgotten with its leadership. That nothing else is in the log of a suspended
    cluster is seen where the logs are read."""

    name = "suspension is of the log"

    def __init__(self, world: WatchedWorld, logs: list[LogCopy]) -> None:
        super().__init__(world)
        self._logs = logs

    def on_checkpoint(self) -> None:
        for node, log in zip(self.world.nodes, self._logs, strict=True):
            if not node.is_alive or node.is_leaving or node.serves:
                continue
            log.refresh()
            executed, state = node.module.committed.executed_position, node.module.counters.state
            expected = SHOWN[log.is_suspended_at(executed)]
            if log.is_read and state in SHOWN.values() and state != expected:
                self.fail(f"{node.name} is {ModuleState(state).name}, its log says {expected.name} at {executed}")

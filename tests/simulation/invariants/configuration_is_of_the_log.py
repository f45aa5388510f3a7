"""The newest configuration of a member's durable log is in force, and at most one is not committed (Raft §4.1)."""

from __future__ import annotations

from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.commit_is_on_a_quorum import CommitIsOnAQuorum
from tests.simulation.invariants.logs import LogCopy


class ConfigurationIsOfTheLog(Invariant):
    """Reads the records itself; a log without one leaves a member with what it was set up with."""

    name = "configuration is of the log"

    def __init__(self, world: WatchedWorld, logs: list[LogCopy], committed: CommitIsOnAQuorum) -> None:
        super().__init__(world)
        self._logs = logs
        self._committed = committed

    def on_checkpoint(self) -> None:
        for node, log in zip(self.world.nodes, self._logs, strict=True):
            if not node.is_alive or node.is_leaving:
                continue
            log.refresh()
            core = node.module.core
            expected = log.configurations[-1][1] if log.configurations else node.first_configuration
            is_told = bool(log.configurations) or log.start_position == 0
            if is_told and log.is_read and core.configuration != expected:
                self.fail(f"{node.name} goes by {core.configuration.describe()}, its log says {expected.describe()}")
            open_positions = [at for at, _ in log.configurations if at > self._committed.position]
            if len(open_positions) > 1:
                self.fail(f"{node.name} has {len(open_positions)} configurations that are not committed")

"""A planned end: shutdown with a snapshot, or abort without (cluster-consensus.md §20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.counter_types import ModuleState

if TYPE_CHECKING:
    from cluster.module import ConsensusModule

NULL_POSITION = -1


class Termination:
    """Ends this member at the position that the leader named, service first.

    Consensus tells members the position and collects their acks; the leader leaves last, or at the deadline.
    `module.has_ended` is what the node looks at.
    """

    def __init__(self, module: ConsensusModule) -> None:
        self._module = module
        self._service_told = False
        self._service_done = False
        self._acknowledged = False

    @property
    def is_under_way(self) -> bool:
        return self._module.core.termination_position != NULL_POSITION

    def on_service_ack(self, log_position: int) -> bool:
        """True when the ack was the service's farewell."""
        if not self._service_told or log_position < self._module.core.termination_position:
            return False
        self._service_done = True
        return True

    def work(self, now_ns: int) -> None:
        if not self.is_under_way:
            return
        module, core = self._module, self._module.core
        position = core.termination_position
        is_executed = module.executor.has_executed(position, module.sequencer.commit_position)
        is_reached = is_executed and not module.snapshots.is_under_way
        if is_reached and not self._service_told and module.terminate_service(position):
            module.counters.set_state(ModuleState.TERMINATING)
            self._service_told = True
        if self._service_done and module.is_leader:
            module.has_ended = core.termination_is_complete
        elif self._service_done and not self._acknowledged:
            core.acknowledge_termination(position, now_ns)
            self._acknowledged = True
        elif self._acknowledged:
            module.has_ended = True

"""A planned end: shutdown with a snapshot, or abort without (cluster-consensus.md §20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.wire.counter_types import ModuleState

if TYPE_CHECKING:
    from cluster.module.consensus_module import ConsensusModule

NULL_POSITION = -1


class Termination:
    """Ends this member at the position that the leader named, service first.

    Consensus tells members the position and collects their acks; the leader leaves last, or at the deadline. A member
    whose service was told to end follows it, whatever becomes of the leader meanwhile.
    `module.has_ended` is what the node looks at.
    """

    def __init__(self, module: ConsensusModule) -> None:
        self._module = module
        self._told_position = NULL_POSITION
        self._service_done = False
        self._acknowledged = False

    @property
    def _is_service_told(self) -> bool:
        return self._told_position != NULL_POSITION

    @property
    def is_under_way(self) -> bool:
        return self._is_service_told or self._module.core.termination_position != NULL_POSITION

    def on_service_ack(self, log_position: int) -> bool:
        """True when the ack was the service's farewell."""
        if not self._is_service_told or log_position < self._told_position:
            return False
        self._service_done = True
        return True

    def work(self, now_ns: int) -> None:
        if not self.is_under_way:
            return
        if not self._is_service_told:
            self._tell_service(self._module.core.termination_position)
        if self._service_done:
            self._leave(now_ns)

    def _tell_service(self, position: int) -> None:
        module = self._module
        is_executed = module.executor.has_executed(position, module.sequencer.commit_position)
        if is_executed and not module.snapshots.is_under_way and module.terminate_service(position):
            module.counters.set_state(ModuleState.TERMINATING)
            self._told_position = position

    def _leave(self, now_ns: int) -> None:
        """The leader after the others, and those after they have said so; nobody waits where no leader is left."""
        module, core = self._module, self._module.core
        if core.termination_position == NULL_POSITION or self._acknowledged:
            module.has_ended = True
        elif module.is_leader:
            module.has_ended = core.termination_is_complete
        else:
            core.acknowledge_termination(core.termination_position, now_ns)
            self._acknowledged = True

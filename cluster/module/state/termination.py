"""A planned end: shutdown with a snapshot, or abort without (cluster-consensus.md §20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.runtime.native.sentinels import NULL_POSITION

if TYPE_CHECKING:
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.consensus.core import ConsensusCore


class TerminationHost(Protocol):
    """The member that ends."""

    has_ended: bool
    """True once this member's node is to stop; the node looks at it after every duty cycle."""

    @property
    def is_leader(self) -> bool: ...
    def is_ready_to_end(self, log_position: int) -> bool:
        """Return whether everything up to the position is executed, and no snapshot is under way."""

    def terminate_service(self, log_position: int) -> bool:
        """Tell the services to end at the position. Returns False when it could not be told yet."""


class Termination:
    """Ends this member at the position that the leader named, service first.

    Consensus tells members the position and collects their acks; the leader leaves last, or at the deadline. A member
    whose services were told to end follows them, whatever becomes of the leader meanwhile.
    """

    def __init__(
        self, host: TerminationHost, core: ConsensusCore, counters: ModuleCounters, service_count: int = 1
    ) -> None:
        self._host = host
        self._core = core
        self._counters = counters
        self._told_position = NULL_POSITION
        self._service_count = service_count
        self._services_done: set[int] = set()
        self._acknowledged = False

    @property
    def _is_service_told(self) -> bool:
        return self._told_position != NULL_POSITION

    @property
    def is_under_way(self) -> bool:
        return self._is_service_told or self._core.termination_position != NULL_POSITION

    def on_service_ack(self, service_id: int, log_position: int) -> bool:
        """Return True when the ack was the service's last."""
        if not self._is_service_told or log_position < self._told_position:
            return False
        self._services_done.add(service_id)
        return True

    def work(self, now_ns: int) -> None:
        if not self.is_under_way:
            return
        if not self._is_service_told:
            self._tell_service(self._core.termination_position)
        if len(self._services_done) == self._service_count:
            self._leave(now_ns)

    def _tell_service(self, position: int) -> None:
        if self._host.is_ready_to_end(position) and self._host.terminate_service(position):
            self._counters.set_state(ModuleState.TERMINATING)
            self._told_position = position

    def _leave(self, now_ns: int) -> None:
        """End this member: a leader after its followers, a follower once it has told its leader, if there is one."""
        host, core = self._host, self._core
        if core.termination_position == NULL_POSITION or self._acknowledged:
            host.has_ended = True
        elif host.is_leader:
            host.has_ended = core.termination_is_complete
        else:
            core.acknowledge_termination(core.termination_position, now_ns)
            self._acknowledged = True

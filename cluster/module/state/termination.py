"""A planned end: shutdown with a snapshot, or abort without (cluster-consensus.md §20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.runtime.native.sentinels import NULL_POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.consensus.core import ConsensusCore


class TerminationHost(Protocol):
    """The member that ends."""

    has_ended: bool
    """True once this member's node is to stop; the node looks at it after every duty cycle."""

    @property
    def is_leader(self) -> bool: ...


class Termination:
    """Ends this member at the position that the leader named, service first.

    Consensus tells members the position and collects their acks; the leader leaves last, or at the deadline. A member
    whose services were told to end follows them, whatever becomes of the leader meanwhile.
    """

    def __init__(
        self,
        host: TerminationHost,
        core: ConsensusCore,
        counters: ModuleCounters,
        service_count: int = 1,
        *,
        is_ready: Callable[[int], bool],
        terminate_services: Callable[[int], bool],
    ) -> None:
        """Take the member's parts.

        `is_ready` returns whether everything up to a position is executed, and no snapshot is under way.
        `terminate_services` tells the services to end at a position, and returns False while they cannot be told.
        """
        self._host = host
        self._is_ready = is_ready
        self._terminate_services = terminate_services
        self._core = core
        self._counters = counters
        self._told_position = NULL_POSITION
        self._service_count = service_count
        self._services_done: set[int] = set()
        self._acknowledged = False

    @property
    def has_told_services(self) -> bool:
        """Whether the services were told to end: then their end is none of the node's."""
        return self._told_position != NULL_POSITION

    @property
    def is_under_way(self) -> bool:
        return self.has_told_services or self._core.termination_position != NULL_POSITION

    def on_service_ack(self, service_id: int, log_position: int) -> bool:
        """Return True when the ack was the service's last."""
        if not self.has_told_services or log_position < self._told_position:
            return False
        self._services_done.add(service_id)
        return True

    def on_services_ended(self) -> None:
        """Note that the processes of all services have ended, as they were told to."""
        self._services_done.update(range(self._service_count))

    def work(self, now_ns: int) -> None:
        if not self.is_under_way:
            return
        if not self.has_told_services:
            self._tell_service(self._core.termination_position)
        if len(self._services_done) == self._service_count:
            self._leave(now_ns)

    def _tell_service(self, position: int) -> None:
        if self._is_ready(position) and self._terminate_services(position):
            self._counters.set_state(ModuleState.TERMINATING)
            self._told_position = position

    def _leave(self, now_ns: int) -> None:
        """End this member: a leader after its followers, a follower once it has told its leader, if any."""
        host, core = self._host, self._core
        if core.termination_position == NULL_POSITION or self._acknowledged:
            host.has_ended = True
        elif host.is_leader:
            host.has_ended = core.termination_is_complete
        else:
            core.acknowledge_termination(core.termination_position, now_ns)
            self._acknowledged = True

"""Handing the leadership over: on demand, and before a leader is stopped (Raft §3.10, dissertation).

    IDLE          nothing of the kind
    DRAINING      nothing is appended any more; the service executes what is, so that its answers still go out
    HANDING_OVER  consensus asks the target to stand once it has the whole log (ordo.consensus.handlers.transfer)

DRAINING and HANDING_OVER take an election timeout each at most. A leader that is still in office then goes on.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.counters.counter_types import ControlToggle, is_transfer, transfer_target
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer

STOP_TIMEOUTS = 3
"""Election timeouts that a node told to stop gives its successor: to be given the log, to be elected, to be heard."""


class TransferState(Enum):
    IDLE = auto()
    DRAINING = auto()
    HANDING_OVER = auto()


class TransferHost(Protocol):
    """The member that leads."""

    has_ended: bool

    @property
    def member_id(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...


class LeadershipTransfer:
    """A transfer of leadership, at most one at a time. `is_under_way` holds back everything that would be appended."""

    def __init__(
        self,
        host: TransferHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        counters: ModuleCounters,
        update_ingress: Callable[[], None],
    ) -> None:
        """Take the member's parts; `update_ingress` is called whenever a transfer begins or is given up."""
        self._host = host
        self._update_ingress = update_ingress
        self._core = core
        self._sequencer = sequencer
        self._counters = counters
        self._timeout_ns = core.election_timeout_ns
        self._state = TransferState.IDLE
        self._target_id: int | None = None
        self._drain_deadline_ns = 0
        self._stop_deadline_ns = 0
        self._awaits_successor = False
        self.is_stopping = False

    @property
    def is_under_way(self) -> bool:
        return self._state is not TransferState.IDLE

    def begin(self, target_id: int | None, now_ns: int) -> None:
        """Stop appending, as the serving leader. Without a target, the member with most of the log is chosen."""
        if self.is_under_way or not self._host.is_leader:
            return
        self._state = TransferState.DRAINING
        self._target_id = target_id
        self._drain_deadline_ns = now_ns + self._timeout_ns
        self._update_ingress()

    def begin_asked(self, toggle_value: int, now_ns: int) -> None:
        """Hand leadership over when an operator asked for it through the control toggle (counter 202)."""
        self.begin(transfer_target(toggle_value), now_ns)

    def stop(self) -> None:
        """End the node; a leader hands over first. May be called from a signal handler."""
        self.is_stopping = True

    def lose_leadership(self) -> None:
        if self.is_under_way:
            self._state = TransferState.IDLE
            self._awaits_successor = True

    def work(self, now_ns: int) -> None:
        if self.is_stopping and self._stop_deadline_ns == 0:
            self._stop_deadline_ns = now_ns + STOP_TIMEOUTS * self._timeout_ns
            self._awaits_successor = False
            self.begin(None, now_ns)
        if self._state is TransferState.DRAINING:
            self._drain(now_ns)
        elif self._state is TransferState.HANDING_OVER and not self._core.is_transferring:
            self._go_on()
        if self.is_stopping:
            self._advance_stop(now_ns)

    def _drain(self, now_ns: int) -> None:
        end_position = self._sequencer.log_end_position
        executed_position = self._counters.service_position.value
        is_drained = min(self._sequencer.commit_position, executed_position) >= end_position
        if not is_drained and now_ns < self._drain_deadline_ns:
            return
        self._state = TransferState.HANDING_OVER
        if not self._core.transfer_leadership(self._target_id, end_position, now_ns):
            self._go_on()

    def _go_on(self) -> None:
        """Continue to lead, because no member could take over, or none did in time."""
        self._state = TransferState.IDLE
        toggle = self._counters.control_toggle
        if is_transfer(toggle.value):
            toggle.set(ControlToggle.NEUTRAL)
        self._update_ingress()

    def _advance_stop(self, now_ns: int) -> None:
        """Keep running until a successor is known, because its election may need this member's vote."""
        leader_id = self._core.leader_member_id
        waits = self.is_under_way or (self._awaits_successor and leader_id in (NULL_VALUE, self._host.member_id))
        if not waits or now_ns >= self._stop_deadline_ns:
            self._host.has_ended = True

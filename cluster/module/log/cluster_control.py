"""Orders that an operator gives the whole cluster, through its leader's control toggle (cluster-consensus.md §19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import ClusterAction
from ordo.cluster.wire.counters.counter_types import ControlToggle, ModuleState, is_transfer, successor_of
from ordo.cluster.wire.levels import SEQUENCE_LEVEL, SUCCESSION_LEVEL
from ordo.cluster.wire.succession import find_successor
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import TermHost
    from ordo.cluster.module.state.termination import Termination
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class ControlEffects(NamedTuple):
    """What an order changes beside the log."""

    update_ingress: Callable[[], None]
    """Called when the cluster is suspended, goes on, or is to end."""
    touch_sessions: Callable[[], None]
    """Counts every session as heard from now."""
    dismiss_sessions: Callable[[], None]
    """Tells every client that the cluster has ended."""
    end_reads: Callable[[], None]
    """Has no linearizable query answered any more: the cluster that goes on knows more."""


class ClusterControl:
    """Carries orders out: they go into the log and take effect at every member that executes it.

    A leader stops at once.

    Orders that were not committed are dropped when the leadership ends.
    """

    def __init__(
        self,
        host: TermHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        counters: ModuleCounters,
        transfer: LeadershipTransfer,
        termination: Termination,
        *,
        effects: ControlEffects,
        newest_level: Callable[[], int],
    ) -> None:
        """Take the member's parts; `newest_level` returns the protocol level at the end of the log."""
        self._host = host
        self._effects = effects
        self._newest_level = newest_level
        self.successor = 0
        """The standby that goes on, by the committed log, which has ended; 0: this cluster goes on itself."""
        self._core = core
        self._sequencer = sequencer
        self._counters = counters
        self._transfer = transfer
        self._termination = termination
        self._is_suspended_by_log = False
        self._is_suspension_asked = False
        """It is appended, and not yet committed."""
        self._is_end_asked = False
        """The end of the log for a standby is appended, and not yet committed."""
        self._snapshot_position = NULL_VALUE
        """The position of the record of the requested snapshot."""
        self._copied_position = NULL_VALUE
        """That of the one which standbys take and members copy."""

    @property
    def is_suspended(self) -> bool:
        """Whether the cluster is suspended, by the committed log or by an order that is not committed yet."""
        return self._is_suspension_asked or bool(self._counters.state == ModuleState.SUSPENDED)

    @property
    def is_log_over(self) -> bool:
        """Whether the log has ended for a standby, by a record that is committed, or that this leader has appended."""
        return self._is_end_asked or self.successor != 0

    def execute(self, values: records.ClusterActionRequest) -> bool:
        """Execute a ClusterActionRequest of the committed log. Returns True when a snapshot is to begin after it."""
        action = values.action
        if action in (ClusterAction.SUSPEND, ClusterAction.RESUME):
            self._suspend(action == ClusterAction.SUSPEND)
            self.successor = find_successor(values)
            if self.successor:
                self._effects.end_reads()
            if self.successor and self._host.is_leader:
                self._counters.control_toggle.set(ControlToggle.SUCCEEDED)
        return self._calls_for_snapshot(values)

    def _calls_for_snapshot(self, values: records.ClusterActionRequest) -> bool:
        """Return whether this node takes a snapshot, or notes its state for one that it copies from a standby.

        Its services decide alike, by the counter of a standby.
        """
        ordered = self._counters.standby_snapshots
        if ordered is not None and codecs.is_snapshot_order(values.action, values.flags, is_standby=True):
            if values.flags in (codecs.OF_STANDBYS, codecs.FOR_MEMBERS):
                ordered.increment()
            return True
        is_copied = codecs.is_copy_order(values.action, values.flags)
        return is_copied or codecs.is_snapshot_order(values.action, values.flags)

    def _suspend(self, is_suspended: bool) -> None:
        """Suspend or resume. The leader restarts all session timeouts, since no session was heard meanwhile."""
        self._is_suspended_by_log = is_suspended
        self._is_suspension_asked = False
        self._counters.set_state(ModuleState.SUSPENDED if is_suspended else ModuleState.ACTIVE)
        self._effects.update_ingress()
        if self._host.is_leader:
            self._effects.touch_sessions()

    # -- the leader ------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Take up control as a leader. A suspended cluster accepts no order but to resume, or to end for a standby."""
        toggle = ControlToggle.SUSPEND if self._is_suspended_by_log else ControlToggle.NEUTRAL
        if self.successor:
            toggle = ControlToggle.SUCCEEDED
        self._counters.control_toggle.set(toggle)

    def lose_leadership(self) -> None:
        """Drop pending orders, which may never be committed."""
        self._counters.control_toggle.set(ControlToggle.INACTIVE)
        self._snapshot_position = self._copied_position = NULL_VALUE
        self._is_end_asked = False
        if self._is_suspension_asked:
            self._is_suspension_asked = False
            self._effects.update_ingress()

    def snapshot_done(self, log_position: int) -> None:
        """Note that the snapshot at a position was taken or failed.

        If it is the one asked for, another may be asked for.
        """
        if log_position >= self._copied_position:
            self._copied_position = NULL_VALUE
        if NULL_VALUE != self._snapshot_position <= log_position:
            self._snapshot_position = NULL_VALUE
            self._counters.control_toggle.compare_and_set(ControlToggle.SNAPSHOT, ControlToggle.NEUTRAL)

    def ask_snapshot(self) -> bool:
        """Ask for a snapshot as an operator does. Returns False while something else is asked for."""
        toggle = self._counters.control_toggle
        return bool(toggle.compare_and_set(ControlToggle.NEUTRAL, ControlToggle.SNAPSHOT))

    def ask_copied(self) -> bool:
        """Have standbys take a snapshot that members copy. Returns False while something else is asked for."""
        is_free = self._counters.control_toggle.value == ControlToggle.NEUTRAL and not self._transfer.is_under_way
        if not is_free or not self._is_idle or self._copied_position != NULL_VALUE or self.is_log_over:
            return False
        self._copied_position = max(self._append(ClusterAction.SNAPSHOT, codecs.FOR_MEMBERS), NULL_VALUE)
        return self._copied_position != NULL_VALUE

    def poll(self, now_ns: int) -> None:
        """Carry out the operator's pending request, if there is one."""
        toggle = self._counters.control_toggle
        value = toggle.value
        if value == ControlToggle.NEUTRAL or self._transfer.is_under_way:
            return
        if self.successor:
            self._end_succeeded(value, now_ns)
        elif successor := successor_of(value):
            self._append_successor(successor)
        elif value == ControlToggle.RESUME and self.is_suspended:
            if self._append(ClusterAction.RESUME) > 0:
                toggle.set(ControlToggle.NEUTRAL)
        elif self._is_idle:
            self._begin(value, now_ns)

    def _append_successor(self, successor: int) -> None:
        """End the log for a standby. No other order is taken until it is known whether this one is committed.

        Only a committed suspension may be followed by it: so nothing is between the two, and the command that gave the
        order has seen that the standby has everything before.
        """
        toggle = self._counters.control_toggle
        if not self._is_suspended_by_log or self._newest_level() < SUCCESSION_LEVEL:
            toggle.set(ControlToggle.SUSPEND if self.is_suspended else ControlToggle.NEUTRAL)
        elif self._append(ClusterAction.SUSPEND, successor) > 0:
            toggle.set(ControlToggle.INACTIVE)
            self._is_end_asked = True

    def _end_succeeded(self, order: int, now_ns: int) -> None:
        """Take no order but to end, once a standby goes on with the log: clients are told to look for it."""
        if order == ControlToggle.ABORT and not self._termination.is_under_way:
            self._effects.dismiss_sessions()
            self._end_cluster(self._sequencer.commit_position, now_ns)
        elif order not in (ControlToggle.ABORT, ControlToggle.SUCCEEDED):
            self._counters.control_toggle.set(ControlToggle.SUCCEEDED)

    @property
    def _is_idle(self) -> bool:
        is_active = self._counters.state == ModuleState.ACTIVE and not self._is_suspension_asked
        return is_active and not self._termination.is_under_way

    def _begin(self, order: int, now_ns: int) -> None:
        """Carry out an order to a cluster that is active."""
        if order == ControlToggle.SUSPEND:
            if self._append(ClusterAction.SUSPEND) > 0:
                self._is_suspension_asked = True
                self._effects.update_ingress()
        elif order == ControlToggle.SNAPSHOT and self._snapshot_position == NULL_VALUE:
            self._snapshot_position = max(self._append(ClusterAction.SNAPSHOT), NULL_VALUE)
        elif order == ControlToggle.STANDBY_SNAPSHOT and self._newest_level() >= SEQUENCE_LEVEL:
            if self._append(ClusterAction.SNAPSHOT, codecs.OF_STANDBYS) > 0:
                self._counters.control_toggle.compare_and_set(order, ControlToggle.NEUTRAL)
        elif order == ControlToggle.SHUTDOWN:
            position = self._append(ClusterAction.SNAPSHOT)
            if position > 0:
                self._end_cluster(position, now_ns)
        elif order == ControlToggle.ABORT:
            self._end_cluster(self._sequencer.commit_position, now_ns)
        elif is_transfer(order):
            self._transfer.begin_asked(order, now_ns)
        elif order not in (ControlToggle.SNAPSHOT, ControlToggle.INACTIVE):  # one that nobody takes here
            self._counters.control_toggle.compare_and_set(order, ControlToggle.NEUTRAL)

    def _end_cluster(self, position: int, now_ns: int) -> None:
        """End the cluster: all members end at the position, and no message is appended after it."""
        self._core.begin_termination(position, now_ns)
        self._effects.update_ingress()

    def _append(self, action: ClusterAction, flags: int = 0) -> int:
        """Append a ClusterActionRequest. Returns the log position after it, or a negative result code."""
        length_bytes = codecs.CLUSTER_ACTION_REQUEST.block_length + codecs.HEADER_LENGTH_BYTES
        record = codecs.CLUSTER_ACTION_REQUEST.encode(
            leadership_term_id=self._host.leadership_term_id,
            log_position=self._sequencer.position_after(length_bytes),
            timestamp=self._host.cluster_time,
            action=action,
            flags=flags,
        )
        return int(self._sequencer.append(record))

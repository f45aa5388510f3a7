"""What an operator orders of the whole cluster, through the toggle of its leader (cluster-consensus.md §19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.module.snapshots import SnapshotPoint
from cluster.wire import codecs
from cluster.wire.codecs import ClusterAction
from cluster.wire.counter_types import ControlToggle, ModuleState, is_transfer

if TYPE_CHECKING:
    from cluster.module.consensus_module import ConsensusModule
    from cluster.module.log_executor import LogRecord


class ClusterControl:
    """Orders go into the log and take effect at every member that executes it; a leader stands still at once.

    What has not been committed is forgotten with the leadership.
    """

    def __init__(self, module: ConsensusModule) -> None:
        self._module = module
        self._is_suspended_by_log = False

    @property
    def is_suspended(self) -> bool:
        """By the committed log, or by a leader's order that is in flight."""
        return bool(self._module.counters.state == ModuleState.SUSPENDED)

    def execute(self, record: LogRecord) -> None:
        """A ClusterActionRequest of the committed log."""
        action = record.values.action
        if action == ClusterAction.SNAPSHOT and record.values.flags == 0:
            self._begin_snapshot(record)
        elif action in (ClusterAction.SUSPEND, ClusterAction.RESUME):
            self._suspend(action == ClusterAction.SUSPEND)

    def _begin_snapshot(self, record: LogRecord) -> None:
        module, values = self._module, record.values
        module.executor.pause()
        module.counters.set_state(ModuleState.SNAPSHOT)
        point = SnapshotPoint(record.position, values.leadership_term_id, module.config.app_version)
        module.snapshots.begin(point, values.timestamp)

    def _suspend(self, is_suspended: bool) -> None:
        """Nobody has listened to the sessions when a suspension ends."""
        self._is_suspended_by_log = is_suspended
        self._show_suspension(is_suspended)
        if self._module.is_leader:
            self._module.sessions.touch(self._module.cluster_time)

    def _show_suspension(self, is_suspended: bool) -> None:
        self._module.counters.set_state(ModuleState.SUSPENDED if is_suspended else ModuleState.ACTIVE)
        self._module.update_ingress()

    # -- the leader ------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """The only order to a suspended cluster is to go on: another one would bar the way."""
        toggle = ControlToggle.SUSPEND if self._is_suspended_by_log else ControlToggle.NEUTRAL
        self._module.counters.control_toggle.set(toggle)

    def lose_leadership(self) -> None:
        """What this leader was asked for may never be committed."""
        self._module.counters.control_toggle.set(ControlToggle.INACTIVE)
        self._module.snapshots.is_asked = False
        if self.is_suspended and not self._is_suspended_by_log:
            self._show_suspension(False)

    def ask_snapshot(self) -> bool:
        """As an operator does; False while something else is asked for."""
        toggle = self._module.counters.control_toggle
        return bool(toggle.compare_and_set(ControlToggle.NEUTRAL, ControlToggle.SNAPSHOT))

    def poll(self, now_ns: int) -> None:
        """Looks at the toggle."""
        module = self._module
        toggle = module.counters.control_toggle
        value = toggle.value
        if value == ControlToggle.NEUTRAL or module.transfer.is_under_way:
            return
        if value == ControlToggle.RESUME and self.is_suspended:
            if self._append(ClusterAction.RESUME) > 0:
                toggle.set(ControlToggle.NEUTRAL)
        elif module.counters.state == ModuleState.ACTIVE and not module.termination.is_under_way:
            self._begin(value, now_ns)

    def _begin(self, order: int, now_ns: int) -> None:
        """Of an active cluster."""
        module = self._module
        if order == ControlToggle.SUSPEND:
            if self._append(ClusterAction.SUSPEND) > 0:
                self._show_suspension(True)
        elif order == ControlToggle.SNAPSHOT and not module.snapshots.is_asked:
            module.snapshots.is_asked = self._append(ClusterAction.SNAPSHOT) > 0
        elif order == ControlToggle.SHUTDOWN:
            position = self._append(ClusterAction.SNAPSHOT)
            if position > 0:
                module.core.begin_termination(position, now_ns)
        elif order == ControlToggle.ABORT:
            module.core.begin_termination(module.sequencer.commit_position, now_ns)
        elif is_transfer(order):
            module.transfer.begin_asked(order, now_ns)

    def _append(self, action: ClusterAction) -> int:
        """A ClusterActionRequest; the log position after it, or a negative result code."""
        module = self._module
        length_bytes = codecs.CLUSTER_ACTION_REQUEST.block_length + codecs.HEADER_LENGTH_BYTES
        record = codecs.CLUSTER_ACTION_REQUEST.encode(
            leadership_term_id=module.term_id,
            log_position=module.sequencer.position_after(length_bytes),
            timestamp=module.cluster_time,
            action=action,
            flags=0,
        )
        return int(module.sequencer.append(record))

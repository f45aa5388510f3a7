"""The module's part of a snapshot: begun at its record, captured from the state at that position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, SnapshotPoint, capture

if TYPE_CHECKING:
    from ordo.cluster.module.client_parts import ClientParts
    from ordo.cluster.module.committed_log import CommittedLog
    from ordo.cluster.module.log.cluster_control import ClusterControl
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.snapshots.copied_snapshots import CapturedState, CopiedSnapshots
    from ordo.consensus.core import ConsensusCore


class StateCapture:
    """Gives one member's SnapshotTaker the state of the module, and pauses execution meanwhile."""

    def __init__(
        self,
        core: ConsensusCore,
        committed: CommittedLog,
        clients: ClientParts,
        membership: Membership,
        rules: LogRules,
        control: ClusterControl,
        copies: CopiedSnapshots,
    ) -> None:
        self._core = core
        self._committed = committed
        self._clients = clients
        self._membership = membership
        self._rules = rules
        self._control = control
        self._copies = copies

    @property
    def executed_position(self) -> int:
        """The log position up to which this member has executed everything."""
        return self._committed.executed_position

    def capture_snapshot(self, point: SnapshotPoint) -> ModuleSnapshot:
        """Return the state as of the point, at which execution is paused."""
        configuration = self._membership.at(point.log_position)
        rules = self._rules.at(point.log_position)
        sessions, services = self._clients.sessions, self._clients.services
        return capture(point, sessions, services.timers, services.messages, configuration, self._core.terms, *rules)

    def pause_execution(self) -> None:
        """Execute nothing after the newest executed record until `go_on`."""
        self._committed.pause()

    def go_on(self) -> None:
        """Resume execution: the state is captured, or the snapshot has failed."""
        self._committed.go_on()

    def snapshot_done(self, log_position: int) -> None:
        """Note that the snapshot at this position was taken or has failed."""
        self._control.snapshot_done(log_position)

    def await_copy(self, captured: CapturedState) -> None:
        """Take the state that a snapshot of a standby has to be of."""
        self._copies.await_copy(captured)

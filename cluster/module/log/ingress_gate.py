"""Opens and closes a member's ingress, and tells whether the leader appends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log.cluster_control import ClusterControl
    from ordo.cluster.module.log.disk_space_watch import RoomWatch
    from ordo.cluster.module.state.termination import Termination
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class LeadingHost(Protocol):
    """The member whose ingress this is."""

    @property
    def is_leader(self) -> bool: ...


class IngressGate:
    """Keeps the ingress open while a leader is known, and closed while the cluster is suspended, ends or hands over."""

    _host: LeadingHost
    _transfer: LeadershipTransfer
    _termination: Termination
    _control: ClusterControl
    _room: RoomWatch

    def __init__(self, core: ConsensusCore, sequencer: Sequencer) -> None:
        self._core = core
        self._sequencer = sequencer

    def attach(
        self,
        host: LeadingHost,
        transfer: LeadershipTransfer,
        termination: Termination,
        control: ClusterControl,
        room: RoomWatch,
    ) -> None:
        """Take the parts that hold the ingress; called once, before the member starts."""
        self._host = host
        self._transfer = transfer
        self._termination = termination
        self._control = control
        self._room = room

    @property
    def _ends(self) -> bool:
        """Whether this leader has told all members where to end, after which no message is appended."""
        return self._host.is_leader and self._termination.is_under_way

    @property
    def _is_closed(self) -> bool:
        return self._control.is_suspended or self._transfer.is_under_way or self._ends

    def holds_appends(self) -> bool:
        """Return whether nothing may be appended, though this member may lead."""
        return self._room.is_out or self._is_closed

    def is_log_over(self) -> bool:
        """Return whether the log has ended for a standby to go on with, as far as this member knows."""
        return self._control.is_log_over

    def update(self) -> None:
        """Open or close the ingress according to the present state."""
        has_leader = self._core.leader_member_id != NULL_VALUE
        self._sequencer.open_ingress(has_leader and not self._is_closed)

"""What a member takes up when it becomes the serving leader, and puts down when it is so no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.client_parts import ClientParts
    from ordo.cluster.module.control_parts import ControlParts
    from ordo.cluster.module.log.disk_space_watch import RoomWatch
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.state.own_member import OwnMember
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class LeaderDuties:
    """Begins and ends the leadership of one member with each part that serves only while it leads."""

    def __init__(
        self,
        member: OwnMember,
        core: ConsensusCore,
        sequencer: Sequencer,
        clients: ClientParts,
        controls: ControlParts,
        membership: Membership,
        room: RoomWatch,
        answer_tool: Callable[[bytes | None], None],
    ) -> None:
        """Take the member's parts; `answer_tool` sends an answer to the operator or tool that waits for it, if any."""
        self._member = member
        self._core = core
        self._sequencer = sequencer
        self._clients = clients
        self._controls = controls
        self._membership = membership
        self._room = room
        self._answer_tool = answer_tool

    def on_new_term(self, leadership_term_id: int) -> None:
        """Begin to lead if this record, executed just now, is the first record of this member's own term."""
        if leadership_term_id == self._core.leadership_term_id == self._sequencer.leading_term_id:
            self._serve(leadership_term_id)

    def _serve(self, leadership_term_id: int) -> None:
        member, clients = self._member, self._clients
        member.serve(leadership_term_id)
        clients.take_time_unit(member.clock_watch.clock.unit)
        clients.sessions.lead(member, member.cluster_time, clients.requests.message_bytes_max)
        clients.leader_ingress.lead()
        self._room.lead()
        self._controls.control.lead()
        self._controls.gate.update()

    def lose_leadership(self) -> None:
        """Put down everything that only the serving leader does."""
        member, clients = self._member, self._clients
        self._controls.control.lose_leadership()
        self._controls.transfer.lose_leadership()
        self._answer_tool(self._membership.lose_leadership())
        clients.requests.lose_leadership(member)
        member.stop_serving()
        clients.leader_ingress.lose_leadership()
        clients.sessions.lose_leadership()
        clients.services.lose_leadership()

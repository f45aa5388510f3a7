"""A member that lost what it had promised gives no vote with what is left (Raft §5.2, §5.4.1; CONSENSUS.md, Trust)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.consensus.state.messages import NULL_MEMBER
from ordo.consensus.state.states import Role
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class LostPromises(Invariant):
    """Knows by itself what was lost: the product's own flag is not asked.

    A member that came back with less of the log than it had acknowledged, or with an older vote, must not vote or lead
    before it has all that was committed at that time, and takes no part in terms up to the one in which it voted for
    another member or followed one. Where it stood itself and nobody heard of it, the term is as good as new.
    """

    name = "lost promises"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._terms: dict[int, int] = {}
        self._lacks: dict[int, int] = {}
        """By member: the log position that it must reach again before it may vote."""
        self._forgot: dict[int, int] = {}
        """By member: the term that it was bound to."""

    def on_booted(self, node: SimulatedNode) -> None:
        member_id, core = node.member_id, node.module.core
        if not node.has_lost:
            return
        if node.append_position < node.log_end_acknowledged:
            self._lacks[member_id] = max(self.world.committed_position, self._lacks.get(member_id, 0))
        if core.candidate_term_id < self._terms.get(member_id, -1):
            self._forgot[member_id] = self._terms[member_id]

    def on_step(self, node: SimulatedNode) -> None:
        member_id, core = node.member_id, node.module.core
        voted_for = core._ctx.voted_for
        if voted_for not in (NULL_MEMBER, member_id) or core.leader_member_id not in (NULL_MEMBER, member_id):
            self._terms[member_id] = max(core.candidate_term_id, self._terms.get(member_id, -1))
        if node.has_old_data and not core.is_leading:
            return  # it does not know, and the others look at nothing that it says
        takes_part = voted_for != NULL_MEMBER or core.role is not Role.FOLLOWER
        lacks = self._lacks.get(member_id)
        if lacks is not None and takes_part:
            self.fail(f"{node.name} takes part in an election with {node.append_position}, and had {lacks}")
        forgot = self._forgot.get(member_id)
        follows_below = core.leader_member_id != NULL_MEMBER and core.candidate_term_id < (forgot or 0)
        if forgot is not None and (follows_below or (takes_part and core.candidate_term_id <= forgot)):
            self.fail(f"{node.name} takes part in term {core.candidate_term_id}, was bound to term {forgot}")
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        lacks = self._lacks.get(node.member_id)
        if lacks is not None and node.append_position >= lacks and node.module.core.leader_member_id != NULL_MEMBER:
            del self._lacks[node.member_id]

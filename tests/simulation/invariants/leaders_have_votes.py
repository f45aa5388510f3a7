"""A leader was elected by a quorum of votes of its own term (Raft §5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.consensus.state.messages import NULL_MEMBER
from ordo.consensus.state.states import Role
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class LeadersHaveVotes(Invariant):
    """Knows by itself who has voted for whom. One that has gone on to a later term within a duty cycle may have."""

    name = "leaders have votes"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._votes: dict[tuple[int, int], int] = {}
        """By term and member: whom it has voted for."""
        self._unsure: set[tuple[int, int, int]] = set()
        """By term, member and candidate: votes of duty cycles that ended in the middle, before they were stored or
        after they were sent."""
        self._terms: dict[int, int] = {}
        """The newest term that a member was bound to, over all its lives."""
        self._elected: set[tuple[int, int, int]] = set()
        """By term, member and life of the member."""

    def on_step(self, node: SimulatedNode) -> None:
        core, member_id = node.module.core, node.member_id
        term_id, voted_for = core.candidate_term_id, core._ctx.voted_for
        self._terms[member_id] = max(term_id, self._terms.get(member_id, term_id))
        if voted_for != NULL_MEMBER:
            self._votes.setdefault((term_id, member_id), voted_for)
        election = term_id, member_id, node.boots
        if core.role is Role.LEADER and election not in self._elected:
            self._elected.add(election)
            self._check(node, term_id)

    def on_ended(self, node: SimulatedNode) -> None:
        core = node.module.core
        self._unsure.add((core.candidate_term_id, node.member_id, core._ctx.voted_for))

    def _check(self, node: SimulatedNode, term_id: int) -> None:
        voters = node.module.core.configuration.voter_ids
        votes = [one for one in voters if self._may_have_voted(one, term_id, node.member_id)]
        if 2 * len(votes) <= len(voters):
            self.fail(f"{node.name} leads term {term_id} with the votes of {votes} of {list(voters)}")

    def _may_have_voted(self, member_id: int, term_id: int, candidate_id: int) -> bool:
        if (term_id, member_id, candidate_id) in self._unsure:
            return True
        vote = self._votes.get((term_id, member_id))
        return vote == candidate_id or (vote is None and self._terms.get(member_id, term_id) > term_id)

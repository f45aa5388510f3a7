"""A member never forgets the newest term it was bound to: its vote is durable before it is given (Raft §5.1, §5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class TermsAreKept(Invariant):
    """The candidate term rises, over all lives of a member."""

    name = "terms are kept"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._terms: dict[int, int] = {}

    def on_booted(self, node: SimulatedNode) -> None:
        self._check(node)

    def on_step(self, node: SimulatedNode) -> None:
        self._check(node)

    def on_wiped(self, node: SimulatedNode) -> None:
        self._terms.pop(node.member_id, None)

    def _check(self, node: SimulatedNode) -> None:
        leadership_term_id = node.module.core.candidate_term_id
        known = self._terms.get(node.member_id, -1)
        if leadership_term_id < known:
            self.fail(f"{node.name} was bound to term {known} and is back in term {leadership_term_id}")
        self._terms[node.member_id] = max(leadership_term_id, known)

"""Election safety: at most one leader is elected in a term (Raft §5.2, figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class OneLeaderATerm(Invariant):
    """Whoever publishes the log of a term is its leader, also after a restart."""

    name = "one leader a term"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._leaders: dict[int, tuple[int, int]] = {}

    def on_step(self, node: SimulatedNode) -> None:
        leadership_term_id = node.leads_term
        if leadership_term_id < 0:
            return
        leader = self._leaders.setdefault(leadership_term_id, (node.member_id, node.boots))
        if leader != (node.member_id, node.boots):
            first = f"node{leader[0]} (life {leader[1]})"
            self.fail(f"term {leadership_term_id} is led by {first} and {node.name} (life {node.boots})")

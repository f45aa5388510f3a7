"""What is committed is on a majority of the voters, and counted in the leader's own term only (Raft §5.3, §5.4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.consensus.state.configuration import Configuration
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class CommitIsOnAQuorum(Invariant):
    """`position` is the highest commit position that any member ever had; it was on a majority when it was reached.

    Who votes is said by the configuration in force at the member that reaches the position first, or by the one that
    was in force there when its log ended at that position. Both count, for a leader can commit and then read a new
    configuration behind the commit position, all in one duty cycle.
    """

    name = "commit is on a quorum"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self.position = 0
        self._by_term: dict[int, int] = {}

    def before_term(self, leadership_term_id: int) -> int:
        """What was committed by leaders of earlier terms."""
        return max((position for term, position in self._by_term.items() if term < leadership_term_id), default=0)

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        commit = node.commit_position
        if commit > self.position:
            self._check(node, commit)

    def _check(self, node: SimulatedNode, commit: int) -> None:
        holders = {
            other.member_id
            for other in self.world.nodes
            if other.log_end_acknowledged >= commit or other.acknowledged_before_loss >= commit
        }
        if node.append_position >= commit:
            holders.add(node.member_id)
        core = node.module.core
        if not _is_quorum(holders, core.configuration) and not _is_quorum(
            holders, core.configuration_at(commit) or node.first_configuration
        ):
            self.fail(f"{node.name} commits position {commit}, which is durable on members {sorted(holders)} only")
        if node.leads_term >= 0 and commit <= node.module.core.term_base_position:
            self.fail(
                f"{node.name} leads term {node.leads_term} from {node.module.core.term_base_position} on, "
                f"and commits position {commit} of an earlier term by counting"
            )
        self.position = commit
        self._by_term[node.module.core.leadership_term_id] = commit


def _is_quorum(member_ids: set[int], configuration: Configuration) -> bool:
    return len(member_ids.intersection(configuration.voter_ids)) >= configuration.quorum_threshold

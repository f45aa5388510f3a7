"""A commit position never moves back, never passes the own durable log, and nothing is executed past it (Raft §5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode


class CommitIsMonotonic(Invariant):
    """For one life of a member; the next life starts from its snapshot."""

    name = "commit is monotonic"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._seen: dict[int, int] = {}

    def on_booted(self, node: SimulatedNode) -> None:
        self._seen[node.member_id] = 0

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        commit, seen = node.commit_position, self._seen[node.member_id]
        if commit == seen:
            return
        if commit < seen:
            self.fail(f"{node.name} moved its commit position back from {seen} to {commit}")
        if commit > node.append_position:
            self.fail(f"{node.name} has commit={commit} past the end of its own durable log {node.append_position}")
        self._seen[node.member_id] = commit

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        if node.node is not None and record.position > node.commit_position:
            self.fail(f"{node.name} executed {record.position}, committed is {node.commit_position}: {record.text}")

"""What members of a new epoch execute, after most members were lost for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode


class NewEpochContinues(Invariant):
    """Members of the new epoch execute what the former one executed up to its beginning, and alike from there on."""

    name = "a new epoch continues the former one"

    def __init__(self, world: WatchedWorld, base_position: int) -> None:
        super().__init__(world)
        self.members: list[SimulatedNode] = []
        self.position = min(world.committed_position, base_position)
        """The highest commit position of these members."""
        self._next: dict[int, int] = {}

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        if node in self.members:
            self.position = max(self.position, node.commit_position)

    def on_service_started(self, node: SimulatedNode, position: int, digest: str) -> None:
        self._next[node.member_id] = self.world.executed.index_after(position)

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        index = self._next.get(node.member_id)
        if node not in self.members or index is None:
            return
        self._next[node.member_id] = index + 1
        log = self.world.executed
        if index == len(log.records):
            log.append(record)
        elif log.records[index] != record:
            self.fail(f"{node.name} executed {record.text!r} at {record.position}, not {log.records[index].text!r}")

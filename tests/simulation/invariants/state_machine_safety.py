"""State-machine safety: all members execute the same records at the same positions, to the same state (Raft §5.4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode


class StateMachineSafety(Invariant):
    """The first to execute a position decides what it holds; nobody skips one."""

    name = "state-machine safety"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._next: dict[int, int] = {}

    def on_service_started(self, node: SimulatedNode, position: int, digest: str) -> None:
        self._next[node.member_id] = self.world.executed.index_after(position)

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        log = self.world.executed
        index = self._next[node.member_id]
        self._next[node.member_id] = index + 1
        if index == len(log.records):
            if record.position <= log.end_position:
                self.fail(f"{node.name} executes position {record.position} after {log.end_position}")
            log.append(record)
        elif log.records[index] != record:
            first = log.records[index]
            self.fail(
                f"{node.name} executed {record.text!r} at {record.position} (state {record.digest}), "
                f"another member {first.text!r} at {first.position} (state {first.digest})"
            )

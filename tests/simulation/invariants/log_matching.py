"""Log matching: logs that hold an entry of the same term at the same position are equal up to it (Raft §5.3)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.logs import LogCopy

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class LogMatching(Invariant):
    """Compares the newest entry that two members have in common."""

    name = "log matching"

    def __init__(self, world: WatchedWorld, logs: list[LogCopy]) -> None:
        super().__init__(world)
        self._logs = logs

    def on_step(self, node: SimulatedNode) -> None:
        self._logs[node.member_id].note_end(node.append_position)

    def on_checkpoint(self) -> None:
        for log in self._logs:
            log.refresh()
        for (id_a, a), (id_b, b) in combinations(enumerate(self._logs), 2):
            self._compare(id_a, a, id_b, b)

    def _compare(self, id_a: int, a: LogCopy, id_b: int, b: LogCopy) -> None:
        i, j = len(a.entries) - 1, len(b.entries) - 1
        while i >= 0 and j >= 0:
            first, second = a.entries[i], b.entries[j]
            if first.position == second.position and first.leadership_term_id == second.leadership_term_id:
                if None not in (first.chain, second.chain) and first.chain != second.chain:
                    self.fail(
                        f"node{id_a} and node{id_b} hold an entry of term {first.leadership_term_id} at position "
                        f"{first.position}, and differ before it"
                    )
                return
            if first.position >= second.position:
                i -= 1
            if second.position >= first.position:
                j -= 1

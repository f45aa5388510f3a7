"""Leader completeness: a leader's log holds every entry committed in earlier terms (Raft §5.4, figure 3)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld
from tests.simulation.invariants.commit_is_on_a_quorum import CommitIsOnAQuorum
from tests.simulation.invariants.logs import LogCopy

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class LeaderCompleteness(Invariant):
    """Keeps the committed log (position and hash), and compares every member's part of it and each new leader's."""

    name = "leader completeness"

    def __init__(
        self, world: WatchedWorld, logs: list[LogCopy], committed: CommitIsOnAQuorum, known_chains: dict[int, int]
    ) -> None:
        super().__init__(world)
        self._logs = logs
        self._committed = committed
        self._terms: dict[int, int] = {}
        self._positions: list[int] = []
        self._chains: list[int | None] = []
        self._known_chains = known_chains

    def on_step(self, node: SimulatedNode) -> None:
        leadership_term_id = node.leads_term
        if leadership_term_id == self._terms.get(node.member_id, -1):
            return
        self._terms[node.member_id] = leadership_term_id
        if leadership_term_id < 0:
            return
        base = node.module.core.term_base_position
        committed = self._committed.before_term(leadership_term_id)
        if base < committed:
            self.fail(
                f"{node.name} leads term {leadership_term_id} from {base} on, earlier terms committed {committed}"
            )
        self._check(node.member_id)

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if node.is_alive:
                self._check(node.member_id)

    def _check(self, member_id: int) -> None:
        node, log = self.world.nodes[member_id], self._logs[member_id]
        log.refresh()
        end = min(node.commit_position, node.append_position)
        known = bisect_right(self._positions, end)
        if known and log.positions and log.positions[0] <= self._positions[known - 1] <= log.positions[-1]:
            position, chain = self._positions[known - 1], self._chains[known - 1]
            found = log.chain_at(position)
            if not log.ends_at(position) or (None not in (found, chain) and found != chain):
                self.fail(f"{node.name} has another log up to the committed position {position}")
        if known == len(self._positions):
            self._take_over(log, end)

    def _take_over(self, log: LogCopy, end: int) -> None:
        """What is committed beyond all that was known; nothing where the log begins later than that."""
        last = self._positions[-1] if self._positions else 0
        if log.start_position > last:
            return
        for entry in log.entries[bisect_right(log.positions, last) :]:
            if entry.position > end:
                break
            self._positions.append(entry.position)
            self._chains.append(entry.chain)
            if entry.chain is not None:
                self._known_chains[entry.position] = entry.chain

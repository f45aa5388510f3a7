"""A snapshot that the log orders is taken by those for whom the order is (cluster-consensus.md §16.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.codecs import OF_STANDBYS
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.invariants.logs import LogCopy
    from tests.simulation.nodes import SimulatedNode


class SnapshotsAreOfTheLog(Invariant):
    """Members take none of those that are for standbys alone. Others they also take unasked, as a version changes or as
    evidence of a state that differs."""

    name = "snapshots are of the log"

    def __init__(self, world: WatchedWorld, logs: list[LogCopy]) -> None:
        super().__init__(world)
        self._logs = logs
        self._taken: list[tuple[int, int]] = []
        self.of_standbys: set[int] = set()
        """Where the logs that were read have an order that is for standbys alone."""

    def on_snapshot(self, node: SimulatedNode, position: int, digest: str) -> None:
        self._taken.append((node.member_id, position))

    def on_checkpoint(self) -> None:
        for log in self._logs:
            log.refresh()
            self.of_standbys.update(at for at, flags in log.snapshot_orders if flags == OF_STANDBYS)
        for member_id, position in self._taken:
            if position in self.of_standbys:
                self.fail(f"node{member_id} took the snapshot at {position}, which is for standbys alone")
        self._taken.clear()

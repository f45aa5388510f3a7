"""A snapshot is the state that replaying the log up to its position gives (Raft §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World


class SnapshotsEqualReplay(Invariant):
    """All members take equal snapshots at one position, and start from none but those."""

    name = "snapshots equal replay"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._digests: dict[int, str] = {}

    def on_snapshot(self, node: SimulatedNode, position: int, digest: str) -> None:
        known = self._digests.setdefault(position, digest)
        if known != digest:
            self.fail(f"{node.name} took the snapshot {digest} at {position}, another member {known}")

    def on_service_started(self, node: SimulatedNode, position: int, digest: str) -> None:
        if position > 0 and self._digests.get(position) != digest:
            self.fail(
                f"{node.name} starts at {position} from the snapshot {digest}, taken was {self._digests.get(position)}"
            )

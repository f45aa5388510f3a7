"""What members know of applications and canaries is a function of the log."""

from __future__ import annotations

from tests.simulation.invariants.base import Invariant, WatchedWorld


class ReportsAreOfTheLog(Invariant):
    """Members that have executed the log up to the same position know the same reports, and differences."""

    name = "reports are of the log"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._known: dict[int, tuple[str, list[bytes]]] = {}

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if node.node is None or not node.node.containers or node.is_leaving:
                continue
            reports = [*node.told.instances.snapshot(), *node.told.differences.snapshot()]
            name, known = self._known.setdefault(node.executed_position, (node.name, reports))
            if reports != known:
                self.fail(f"{node.name} knows {len(reports)} at {node.executed_position}, {name} {len(known)}")

"""A member never acts on a frame whose checksum fails: damage ends a reader, it is not executed (DESIGN §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode


class Checksums(Invariant):
    """Knows which bytes of which segment were damaged, and what was executed from there since.

    A reader may hold a block from before the damage, so what counts is a service that starts anew over it.
    """

    name = "checksums"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self.damage: dict[int, list[tuple[int, int]]] = {}
        """By member: (life in which it happened, log position of the damaged byte)."""

    def on_wiped(self, node: SimulatedNode) -> None:
        self.damage.pop(node.member_id, None)

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        if not self.damage:
            return
        for life, position in self.damage.get(node.member_id, []):
            if life < node.boots and position < record.position <= position + 32:
                self.fail(f"{node.name} executed the record at {record.position}, damaged at {position}")

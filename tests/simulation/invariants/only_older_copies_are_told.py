"""Only a member that was given an older copy of its volume is told that it has one (CONSENSUS.md, Whose data a folder
has)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.members.standings import EVERYTHING
from tests.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class OnlyOlderCopiesAreTold(Invariant):
    """A member that lost something and knows it, or has all of it again, keeps its vote: nobody holds it against it."""

    name = "only older copies are told"

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if node.is_alive and node.module.member.starts_again and _was_told(node) and not node.has_old_data:
                self.fail(f"{node.name} was told that its volume is an older copy, and it is its own")


def _was_told(node: SimulatedNode) -> bool:
    """Whether it starts again because it was told, and has written down that it lost everything."""
    with node.readable_disk():
        stored = node.store.load().distrust
    return EVERYTHING in stored and EVERYTHING not in node.module.core.distrust

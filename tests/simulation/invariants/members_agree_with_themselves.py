"""Each member's core is consistent: positions, terms, state and role fit together (consensus/invariants.py)."""

from __future__ import annotations

from tests.simulation.invariants.base import Invariant


class MembersAgreeWithThemselves(Invariant):
    """Runs the core's own checks; one that leaves has read the end of its log, and its core is asked no more."""

    name = "members agree with themselves"

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if node.node is not None and not node.is_leaving:
                try:
                    node.module.core.invariants()
                except AssertionError as error:
                    self.fail(f"{node.name}: {error} {node.module.core.describe()}")

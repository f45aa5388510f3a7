"""What shows that a member's state was not that of the others stays until newer differences push it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.state.state_store import EVIDENCE_MAX, Evidence
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class EvidenceIsKept(Invariant):
    """The recordings of all evidence are in the archive, whole, and the newest of it is never forgotten."""

    name = "evidence is kept"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._newest: dict[int, int] = {}
        """By member: log position of the newest evidence."""

    def on_wiped(self, node: SimulatedNode) -> None:
        self._newest.pop(node.member_id, None)

    def on_booted(self, node: SimulatedNode) -> None:
        if node.has_lost:
            self.on_wiped(node)

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if node.node is None or not node.is_alive:
                continue
            with node.readable_disk():
                self._check(node, node.store.list_evidence())

    def _check(self, node: SimulatedNode, found: list[Evidence]) -> None:
        newest = max((one.log_position for one in found), default=-1)
        if newest < self._newest.get(node.member_id, -1) or len(found) > EVIDENCE_MAX:
            self.fail(f"{node.name} has {found}, and had evidence of {self._newest.get(node.member_id)}")
        self._newest[node.member_id] = newest
        assert node.node is not None
        held = {one.recording_id: one for one in node.node.archive.recordings()}
        for one in found:
            recordings = [held.get(recording_id) for recording_id in one.recording_ids]
            if None in recordings:
                self.fail(f"{node.name} has lost recordings of {one}")
            lengths = [had.stop_position - had.start_position for had in recordings if had and not had.is_active]
            if len(lengths) == len(recordings) and sum(lengths) != one.length_bytes:
                self.fail(f"{node.name} has recordings of {lengths} bytes of {one}")

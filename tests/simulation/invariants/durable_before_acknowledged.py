"""A member reports only what a power loss leaves: it finds it again after every restart (Raft §5; DESIGN §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.archive.segments.segments import parse_segment_name
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class DurableBeforeAcknowledged(Invariant):
    """The append position is what a member answers its leader with. It is compared with the disk itself.

    What its core has told it to cut off, it takes back: it may be gone even where the cut itself fails.
    """

    name = "durable before acknowledged"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._cutting: set[int] = set()
        """Members whose log is being cut off, or whose cut failed, which ends them."""

    def on_booted(self, node: SimulatedNode) -> None:
        self._cutting.discard(node.member_id)
        if node.append_position < node.log_end_acknowledged and not node.has_lost:
            self.fail(
                f"{node.name} had reported position {node.log_end_acknowledged} and restarts with "
                f"{node.append_position}"
            )
        if node.append_position < node.log_end_acknowledged:
            node.acknowledged_before_loss = max(node.acknowledged_before_loss, node.log_end_acknowledged)
        node.log_end_acknowledged = node.append_position
        self._hear_truncations(node)

    def _hear_truncations(self, node: SimulatedNode) -> None:
        log = node.module.log
        truncate = log.truncate

        def hear(position: int) -> None:
            node.log_end_acknowledged = min(node.log_end_acknowledged, position)
            self._cutting.add(node.member_id)
            truncate(position)
            self._cutting.remove(node.member_id)

        log.truncate = hear

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        position = node.append_position
        if position >= node.acknowledged_before_loss:
            node.acknowledged_before_loss = 0
        if position == node.log_end_acknowledged or node.member_id in self._cutting:
            return
        node.log_end_acknowledged = position
        if self.world.options.sync == "commit" and node.disk.remembers:
            self._check_disk(node, position)

    def _check_disk(self, node: SimulatedNode, position: int) -> None:
        prefix = f"{node.archive_folder}/{node.log_recording_id}-"
        for path, offset in node.disk.volatile_from(prefix):
            segment = parse_segment_name(path.rsplit("/", 1)[1])
            assert segment is not None
            if segment.base_position + offset < position:
                self.fail(
                    f"{node.name} reports position {position}, and {path} is not on the disk from "
                    f"{segment.base_position + offset} on"
                )

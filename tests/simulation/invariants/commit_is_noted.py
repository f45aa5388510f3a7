"""What a member published as committed is in its folder before anybody hears of it: a kill loses nothing of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, newest_slot
from ordo.consensus.state.distrust import Distrust
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


def noted_position(node: SimulatedNode) -> int:
    """How far a member has written down that its log is committed; its disk does not notice the look."""
    file = node.disk.files.get(f"{node.config.cluster_dir}/{COMMIT_NOTE_NAME}")
    return 0 if file is None else newest_slot(file.contents())[1]


class CommitIsNoted(Invariant):
    """Except while it lacks a part of its log: what it had noted before says how much, and stays."""

    name = "commit is noted"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._seen: dict[int, int] = {}

    def on_booted(self, node: SimulatedNode) -> None:
        self._seen[node.member_id] = node.commit_position

    def on_step(self, node: SimulatedNode) -> None:
        self.on_moved(node)

    def on_moved(self, node: SimulatedNode) -> None:
        commit = node.commit_position
        if commit == self._seen[node.member_id] or Distrust.LOG in node.module.core.distrust:
            return
        self._seen[node.member_id] = commit
        if (noted := noted_position(node)) < commit:
            self.fail(f"{node.name} has told of commit={commit}, and a kill would leave {noted}")

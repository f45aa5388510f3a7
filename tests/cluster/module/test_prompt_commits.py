"""How soon followers hear of a commit: at once where somebody follows the log there, and with the next record else."""

from __future__ import annotations

from statistics import median

import pytest

from tests.simulation.nodes import SimulatedNode
from tests.simulation.options import Options
from tests.simulation.world import World

US = 1_000
S = 1_000_000_000


class CommitWatch:
    """Notes how long after the leader each follower knows of a commit position, in ns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._committed: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self.delays_ns: list[int] = []
        world._on_moved.append(self.on_moved)

    def on_moved(self, node: SimulatedNode) -> None:
        if node.node is None:
            return
        sequencer = node.node.module.sequencer
        position = sequencer.commit_position
        if sequencer.leading_term_id >= 0:
            self._committed.setdefault(position, self._world.now_ns)
        elif position > self._seen.get(node.member_id, 0):
            self._seen[node.member_id] = position
            if position in self._committed:
                self.delays_ns.append(self._world.now_ns - self._committed[position])


@pytest.mark.parametrize("applications", [0, 1], ids=["nobody follows", "an application follows"])
def test_followers_with_a_reader_hear_of_a_commit_at_once(applications: int) -> None:
    """One message on the way: no record comes soon that could take the commit position along."""
    world = World(1, Options(clients=1, applications=applications, cycle_ns=20 * US))
    world.start()
    assert world.run(10 * S, lambda: world.is_steady())
    world.run(1 * S)
    watch = CommitWatch(world)
    world.run(1 * S)
    waited_ns = median(watch.delays_ns)
    assert waited_ns < 300 * US if applications else waited_ns > 500 * US

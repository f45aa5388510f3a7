"""How soon followers hear of a commit: at once where somebody follows the log there, and with the next record else."""

from __future__ import annotations

from statistics import median

import pytest

from tests.simulation.nodes import SimulatedNode
from tests.simulation.options import Options
from tests.simulation.timeline import Actor
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

    def on_moved(self, actor: Actor) -> None:
        assert isinstance(actor, SimulatedNode)
        if actor.node is None:
            return
        sequencer = actor.node.module.sequencer
        position = sequencer.commit_position
        if sequencer.leading_term_id >= 0:
            self._committed.setdefault(position, self._world.now_ns)
        elif position > self._seen.get(actor.member_id, 0):
            self._seen[actor.member_id] = position
            if position in self._committed:
                self.delays_ns.append(self._world.now_ns - self._committed[position])


@pytest.mark.parametrize("applications", [0, 1], ids=["nobody follows", "an application follows"])
def test_followers_with_a_reader_hear_of_a_commit_at_once(applications: int) -> None:
    """One message on the way: no record comes soon that could take the commit position along."""
    world = World(1, Options(clients=1, applications=applications, cycle_ns=20 * US))
    world.start()
    assert world.run(10 * S, lambda: world.leader is not None and world.is_steady)
    world.run(1 * S)
    watch = CommitWatch(world)
    world.run(1 * S)
    waited_ns = median(watch.delays_ns)
    assert waited_ns < 300 * US if applications else waited_ns > 500 * US

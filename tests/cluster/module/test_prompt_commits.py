"""How soon a follower hears of a commit: at once where somebody follows the log there, else with the next record."""

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
        self.delays_ns: dict[bool, list[int]] = {True: [], False: []}
        """By whether somebody follows the log at the follower."""
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
                has_readers = sequencer.has_readers
                self.delays_ns[has_readers].append(self._world.now_ns - self._committed[position])


@pytest.mark.parametrize("applications", [0, 1], ids=["nobody follows", "an application follows"])
def test_a_follower_with_a_reader_hears_of_a_commit_at_once(applications: int) -> None:
    """One message on the way: no record comes soon that could take the commit position along. The follower that
    nobody reads is not woken for it."""
    world = World(1, Options(clients=1, applications=applications, cycle_ns=20 * US))
    world.start()
    assert world.run(10 * S, lambda: world.is_steady())
    world.run(1 * S)
    watch = CommitWatch(world)
    world.run(1 * S)
    assert bool(watch.delays_ns[True]) == bool(applications)
    assert all(median(waited_ns) < 300 * US for waited_ns in [watch.delays_ns[True]] if waited_ns)
    assert median(watch.delays_ns[False]) > 400 * US


def test_a_follower_sends_its_readers_a_commit_in_the_duty_cycle_that_heard_of_it() -> None:
    world = World(1, Options(clients=1, applications=1, cycle_ns=20 * US))
    world.start()
    assert world.run(10 * S, lambda: world.is_steady())
    world.run(1 * S)
    behind: list[int] = []

    def look(node: SimulatedNode) -> None:
        assert node.node is not None
        sequencer, control = node.node.module.sequencer, node.node.control
        if sequencer.leading_term_id >= 0 or not sequencer.has_readers:
            return
        assert control is not None
        replays = [one._replay for one in control.replays.live._replays]
        behind.extend(sequencer.commit_position - one.position for one in replays if one is not None)

    world._on_moved.append(look)
    world.run(1 * S)
    assert len(behind) > 100 and not any(behind)

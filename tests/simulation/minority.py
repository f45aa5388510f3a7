"""Members of a minority that stay faulty when all else works again: the others must serve without them."""

from __future__ import annotations

from random import Random

from tests.simulation.nodes import SimulatedNode
from tests.simulation.world import World

MS = 1_000_000
FLAPPING_NS = 400 * MS
MANNERS = ("down", "cut off", "deaf", "mute", "flapping")


class FaultyMinority:
    """Keeps as many members faulty as a quorum can do without, each in a manner of its own, from `begin` to `end`.

    Down: its process is gone. Cut off: no member hears it, nor does it hear any. Deaf: it hears none. Mute: none hears
    it. Flapping: cut off and back by turns, at moments of its own.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._random: Random = world.random.stream("minority")
        self._is_on = False
        spared = len(world.nodes) - world.quorum()
        self._members = [
            (node, self._random.choice(MANNERS))
            for node in self._random.sample(world.nodes, self._random.randint(min(1, spared), spared))
        ]

    @property
    def nodes(self) -> list[SimulatedNode]:
        return [node for node, _ in self._members]

    def begin(self) -> None:
        self._is_on = True
        for node, manner in self._members:
            self._world.trace.count_fault(f"stays {manner}")
            self._world.note(f"{node.name} stays {manner}")
            if manner == "down":
                if node.is_alive:
                    node.kill()
            elif manner == "flapping":
                self._flap(node, is_cut_off=True)
            else:
                self._block(node, hears=manner == "mute", is_heard=manner == "deaf")

    def end(self) -> None:
        """The network is as good as ever; whoever is down may be started."""
        self._is_on = False
        self._world.network.heal()
        self._world.note("the minority is well again")
        for node, _ in self._members:
            if not node.is_alive:
                node.boot()

    def _block(self, node: SimulatedNode, *, hears: bool, is_heard: bool) -> None:
        network = self._world.network
        for other in self._world.nodes:
            if other is not node:
                if not is_heard:
                    network.block(node.address, other.address)
                if not hears:
                    network.block(other.address, node.address)

    def _flap(self, node: SimulatedNode, is_cut_off: bool) -> None:
        if not self._is_on:
            return
        if is_cut_off:
            self._block(node, hears=False, is_heard=False)
        else:
            for other in self._world.nodes:
                if all(other is not faulty for faulty, _ in self._members):
                    self._world.network.unblock(node.address, other.address)
                    self._world.network.unblock(other.address, node.address)
        delay_ns = int(self._random.expovariate(1.0) * FLAPPING_NS)
        self._world.at(delay_ns, lambda: self._flap(node, not is_cut_off))

"""After all else: most members get copies of their volumes from a moment ago, while the one with more is down.

No protocol can bear it: what was acknowledged since is with one member alone, and the others elect without it. What the
invariants demand does not hold any more, but one thing does: the member that has it gives up nothing that it knows to
be committed. It is refused, or refuses the others, or ends with one line; its log is what an operator has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.state.commit_note import CommitNote
from tests.simulation.damage import stored_distrust
from tests.simulation.history import Violation
from tests.simulation.invariants.base import Invariant
from tests.simulation.storage import SimulatedStorage

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

MS = 1_000_000
SINCE_NS_MIN, SINCE_NS_MAX = 150 * MS, 900 * MS
"""How old the copies are: what members have acknowledged is told once a second, and noted ten times."""
ALONE_NS = 4_000 * MS
TOGETHER_NS = 4_000 * MS
LAST_WORDS = ("refused to truncate the log", "two members have led it")


class NothingCommittedIsGivenUp(Invariant):
    """The log of one member never ends below what it has written down as committed."""

    name = "nothing committed is given up"

    def __init__(self, world: World, keeper: SimulatedNode, position: int) -> None:
        super().__init__(world)
        self._keeper, self._position = keeper, position

    def on_step(self, node: SimulatedNode) -> None:
        if node is self._keeper and node.append_position < self._position:
            self.fail(
                f"{node.name} has its log up to {node.append_position}, and knew {self._position} to be committed"
            )


def lose_most(world: World) -> None:
    """Lets most of a healthy cluster forget its last moment. Raises Violation where the one that does not gives up."""
    keeper = world.leader()
    voters = [] if keeper is None else [world.nodes[one] for one in keeper.module.core.configuration.voter_ids]
    if keeper is None or len(voters) < 3 or any(not one.is_alive or stored_distrust(one) for one in voters):
        return
    others = [one for one in world.members() if one is not keeper]
    images = [one.disk.image() for one in others]
    ends = max(one.append_position for one in others)
    for client in world.clients:
        client.is_working = True
    world.run(world.random.stream("lost majority").randrange(SINCE_NS_MIN, SINCE_NS_MAX))
    if not (keeper.is_alive and keeper.serves) or noted_position(keeper) <= ends:
        return
    position = noted_position(keeper)
    for client in world.clients:
        client.crash()
    world.watch_only(NothingCommittedIsGivenUp(world, keeper, position))
    for one, image in zip([keeper, *others], [None, *images], strict=True):
        if one.is_alive:
            one.kill()
        if image is not None:
            one.disk.restore(image)
    world.count_fault("most members forget")
    world.note(f"all but {keeper.name} get copies of their volumes; it knows {position} to be committed, they {ends}")
    for one in others:
        one.boot()
    keeper.has_disk_faults = True  # it may end
    world.run(ALONE_NS)
    _come_back(world, keeper)


def _come_back(world: World, keeper: SimulatedNode) -> None:
    if not keeper.is_alive:  # a fault from before may have had it started already
        keeper.boot()
    world.run(TOGETHER_NS)
    if keeper.is_alive:
        return
    said = next((one for one in reversed(world.trace.events) if f"{keeper.name} died" in one), "")
    if not any(words in said for words in LAST_WORDS):
        raise Violation(f"{keeper.name}, which alone has what was committed, ended otherwise: {said}")
    world.count_fault("the last one with the log ends")


def noted_position(node: SimulatedNode) -> int:
    """How far a member has written down that its log is committed."""
    note = CommitNote(SimulatedStorage(node.disk, node.clock), str(node.config.cluster_dir))
    try:
        return note.known_position
    finally:
        note.close()

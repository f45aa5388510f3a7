"""After all else: most members get copies of their volumes from a moment ago, while the one with more is down.

No protocol can bear it: what was acknowledged since is with one member alone, and the others elect without it. What the
invariants demand does not hold any more, but one thing does: the member that has it gives up nothing that it knows to
be committed, which is all that it has told anybody, to the last moment before its process was killed. It is refused, or
refuses the others, or ends with one line; its log is what an operator has left.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME
from ordo.cluster.wire.commit_hint import read_commit_hint
from tests.faults.logs import frames_of, offsets
from tests.simulation.damage import stored_distrust
from tests.simulation.history import Violation
from tests.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

MS = 1_000_000
SINCE_NS_MIN, SINCE_NS_MAX = 2 * MS, 900 * MS
"""How old the copies are, at least: what members have acknowledged is told once a second."""
NEXT_COMMIT_NS_MAX = 200 * MS
RESERVED_VALUE_OFFSET = 24
RESERVED_VALUE = Struct("<q")
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
    random = world.random.stream("lost majority")
    world.run(random.randrange(SINCE_NS_MIN, SINCE_NS_MAX))
    _run_to_commit(world, keeper)
    if not (keeper.is_alive and keeper.serves):
        return
    position = _kill_keeper(world, keeper, loses_note=world.options.sync == "commit" and random.random() < 0.5)
    if position <= ends:
        keeper.boot()
        return
    for client in world.clients:
        client.crash()
    for consumer in world.consumers:  # they have heard what most members are about to forget
        consumer.kill()
    world.watch_only(NothingCommittedIsGivenUp(world, keeper, position))
    for one, image in zip(others, images, strict=True):
        if one.is_alive:
            one.kill()
        one.disk.restore(image)
    world.count_fault("most members forget")
    world.note(f"all but {keeper.name} get copies of their volumes; it knows {position} to be committed, they {ends}")
    for one in others:
        one.boot()
    keeper.has_disk_faults = True  # it may end
    world.run(ALONE_NS)
    _come_back(world, keeper)


def _run_to_commit(world: World, keeper: SimulatedNode) -> None:
    """Up to a moment in which something was committed, and may have been answered, that the note of a moment before
    did not have."""
    before = keeper.commit_position if keeper.is_alive else 0
    world.run(NEXT_COMMIT_NS_MAX, lambda: keeper.is_alive and keeper.commit_position > before)


def _kill_keeper(world: World, keeper: SimulatedNode, *, loses_note: bool) -> int:
    """Kill the leader; return what it must know to be committed all the same. `loses_note`: a loss of power has taken
    its note, and left it what the records of its log tell."""
    position = told_position(keeper) if loses_note else keeper.commit_position
    keeper.kill()
    if loses_note:
        del keeper.disk.files[f"{keeper.config.cluster_dir}/{COMMIT_NOTE_NAME}"]
        world.count_fault("the note of what is committed is lost")
    return position


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


def told_position(node: SimulatedNode) -> int:
    """The highest commit position that a record of a live member's durable log tells of, read from its segments."""
    prefix, told = f"{node.archive_folder}/{node.log_recording_id}-", 0
    for path, file in node.disk.files.items():
        if path.startswith(prefix):
            base = int(path.removeprefix(prefix).removesuffix(".rec"))
            content = file.contents()[: max(0, node.append_position - base)]
            for offset in offsets(list(frames_of(content, len(content)))):
                (value,) = RESERVED_VALUE.unpack_from(content, offset + RESERVED_VALUE_OFFSET)
                told = max(told, read_commit_hint(value, base + offset) if value else 0)
    return told

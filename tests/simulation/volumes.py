"""Volumes that are not the member's own, or not what it had: mixed up, or restored from a copy."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ordo.cluster.module.state.folder_rows import Start
from ordo.consensus.state.messages import NULL_MEMBER
from tests.simulation.damage import stored_distrust
from tests.simulation.nodes import SimulatedNode
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.storage import Image

MS = 1_000_000
OWN_AGAIN_NS = 2_000 * MS
_START_ROW = struct.Struct(">qq")


class VolumeFaults:
    """For one world. `later` does something when an outage is over; `restart` starts a member that does not run."""

    def __init__(
        self,
        world: World,
        random: Random,
        later: Callable[[Callable[[], None]], None],
        restart: Callable[[SimulatedNode], None],
    ) -> None:
        self._world = world
        self._random = random
        self._later = later
        self._restart = restart
        self._own: dict[int, Image] = {}
        """By member: what it has to get back."""

    def trouble(self) -> None:
        node = self._random.choice(self._world.nodes)
        if node.is_leaving or node.boots == 0 or any(each.has_foreign_volume for each in self._world.nodes):
            return
        self._random.choice((self._restore_old, self._restore_old, self._exchange, self._change_cluster))(node)

    def _restore_old(self, node: SimulatedNode) -> None:
        """A copy of before an earlier life. Nobody can see it who has not seen the newest one: so all others have."""
        nodes = self._world.nodes
        if any(stored_distrust(each) or each.has_lost or each.has_old_data for each in nodes):
            return
        newest = node.stored_rows.get(b"start")
        key = b"peer/" + struct.pack(">i", node.member_id)
        others = [each for each in nodes if each is not node]
        older = [image for image in node.images if _is_older(image, node.state_path, newest)]
        if not older or any(each.stored_rows.get(key) != newest for each in others):
            return
        if node.is_alive:
            node.kill()
        node.disk.restore(self._random.choice(older))
        node.has_old_data = node.has_lost = True
        self._world.trace.count_fault("older volume")
        self._world.note(f"{node.name} got an older copy of its volume")
        for invariant in self._world.invariants:
            invariant.on_wiped(node)
        self._later(lambda: self._restart(node))

    def _exchange(self, node: SimulatedNode) -> None:
        """The volume of another member, until somebody has seen to it that it gets its own again."""
        other = self._random.choice(self._world.nodes)
        if other is node or other.boots == 0 or node.has_disk_faults:
            return
        if node.is_alive:
            node.kill()
        own = node.disk.image()
        node.disk.restore(other.disk.image(), str(other.config.node.data_dir), str(node.config.node.data_dir))
        node.has_foreign_volume = True
        self._world.trace.count_fault("volume of another member")
        self._world.note(f"{node.name} got the volume of {other.name}")
        node.boot()
        if node.is_alive:
            self._world.fail(f"{node.name} started with the volume of {other.name}")
            node.kill()
        node.disk.restore(own)
        node.has_foreign_volume = False
        self._later(lambda: self._restart(node))

    def _change_cluster(self, node: SimulatedNode) -> None:
        """The volume says that it is of another cluster: the member is to end, or at least to follow nobody."""
        row = node.stored_rows.get(b"origin")
        if row is None or node.has_disk_faults or node.has_old_data:
            return
        if node.is_alive:
            node.kill()
        self._own[node.member_id] = node.disk.image()
        node.disk.stores[node.state_path][b"origin"] = bytes([row[0] ^ 1]) + row[1:]
        node.has_foreign_volume = True
        self._world.trace.count_fault("volume of another cluster")
        self._world.note(f"{node.name} got the volume of another cluster")
        node.boot()
        self._watch(node, self._world.now_ns + OWN_AGAIN_NS)

    def _watch(self, node: SimulatedNode, until_ns: int) -> None:
        if not node.has_foreign_volume:
            return
        if node.is_alive and node.module.core.leader_member_id != NULL_MEMBER:
            self._world.fail(f"{node.name} takes part with the volume of another cluster")
        if node.is_alive and self._world.now_ns < until_ns:
            self._world.at(10 * MS, lambda: self._watch(node, until_ns))
        else:
            self.give_back(node)
            self._later(lambda: self._restart(node))

    def give_back(self, node: SimulatedNode) -> None:
        """A member that has another volume gets its own again."""
        own = self._own.pop(node.member_id, None)
        if own is None:
            return
        if node.is_alive:
            node.kill()
        node.disk.restore(own)
        node.has_foreign_volume = False
        self._world.note(f"{node.name} got its own volume again")
        for invariant in self._world.invariants:
            invariant.on_wiped(node)


def _is_older(image: Image, state_path: str, newest: bytes | None) -> bool:
    """Whether a copy is of before the newest start; an empty one is for `wipe`."""
    row = image[1].get(state_path, {}).get(b"start")
    if newest is None or row is None:
        return False
    return Start(*_START_ROW.unpack(row)).number < Start(*_START_ROW.unpack(newest)).number

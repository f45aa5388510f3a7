"""Volumes that are not the member's own, or not what it had: mixed up, or restored from a copy."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ordo.cluster.module.state.folder_rows import Start
from ordo.cluster.module.state.peer_notes import PeerNotes, Point
from ordo.consensus.state.messages import NULL_MEMBER
from tests.simulation.damage import stored_distrust
from tests.simulation.invariants.commit_is_noted import noted_position
from tests.simulation.nodes import SimulatedNode
from tests.simulation.storage import SimulatedStorage
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.storage import Image

MS = 1_000_000
OWN_AGAIN_NS = 2_000 * MS
COPY_AGE_NS = 1_200 * MS
"""A standing is told once a second."""
_START_ROW = struct.Struct(">qq")


class VolumeFaults:
    """For one world. `later` does something when an outage is over; `restart` starts a member that does not run;
    `is_on`: faults still come."""

    def __init__(
        self,
        world: World,
        random: Random,
        later: Callable[[Callable[[], None]], None],
        restart: Callable[[SimulatedNode], None],
        is_on: Callable[[], bool],
    ) -> None:
        self._world = world
        self._random = random
        self._later = later
        self._restart = restart
        self._is_on = is_on
        self._own: dict[int, Image] = {}
        """By member: what it has to get back."""

    def trouble(self) -> None:
        node = self._random.choice(self._world.nodes)
        if node.is_leaving or node.boots == 0 or any(each.has_foreign_volume for each in self._world.nodes):
            return
        faults = (
            self._restore_old,
            self._restore_old,
            self._copy_running,
            self._copy_archive,
            self._exchange,
            self._change_cluster,
        )
        self._random.choice(faults)(node)

    def _restore_old(self, node: SimulatedNode) -> None:
        """A copy of before an earlier life. Nobody can see it who has not seen the newest one: so all others have."""
        nodes = self._world.nodes
        newest = node.stored_rows.get(b"start")
        older = [image for image in node.images if _is_older(image, node.state_path, newest)]
        if not older or not _are_all_trusted(nodes):
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

    def _copy_running(self, node: SimulatedNode) -> None:
        """A copy made while the member runs, to be restored later: the others know the start that it has."""
        if not node.is_alive or self._world.options.power_loss_mean_ns:
            return  # a loss of power may take what others know of positions
        core = node.module.core
        image, point = node.disk.image(), (core.candidate_term_id, core.append_position)
        self._world.at(COPY_AGE_NS, lambda: self._restore_running(node, image, point))

    def _restore_running(self, node: SimulatedNode, image: Image, point: Point) -> None:
        """Where all others know that it has had more since, and all of them start again at the same time."""
        nodes = self._world.nodes
        newest = image[1].get(node.state_path, {}).get(b"start")
        if newest is None or newest != node.stored_rows.get(b"start") or node.is_leaving or not self._is_on():
            return
        if not _are_all_trusted(nodes) or any(one.has_foreign_volume for one in nodes):
            return
        start, others = Start(*_START_ROW.unpack(newest)), [one for one in nodes if one is not node]
        if any(one.boots == 0 or one.is_leaving or _known_to(one, node, start) <= point for one in others):
            return
        for one in (node, *others):
            if one.is_alive:
                one.kill()
        node.disk.restore(image)
        node.has_old_data = node.has_lost = True
        self._world.trace.count_fault("copy of a running volume")
        self._world.note(f"{node.name} got a copy of its volume that was made while it ran")
        for invariant in self._world.invariants:
            invariant.on_wiped(node)
        for one in nodes:
            self._later(partial(self._restart, one))
        self._watch_old(node, node.boots + 1)

    def _watch_old(self, node: SimulatedNode, life: int) -> None:
        """Whoever leads counts nothing of the member before it knows that it lacks something."""
        if node.boots > life or (node.boots == life and not (node.is_alive and node.has_old_data)):
            return
        for one in self._world.nodes if node.boots == life else ():
            core = one.module.core if one.is_alive and one is not node else None
            if core is not None and core.is_leading and core.progress.member_position(node.member_id) >= 0:
                self._world.fail(f"{one.name} counts {node.name}, which has an older copy of its volume")
        self._world.at(5 * MS, lambda: self._watch_old(node, life))

    def _copy_archive(self, node: SimulatedNode) -> None:
        """The archive is on a volume of its own, which is replaced by a copy; the rest of the folder is as it was."""
        if not node.is_alive:
            return
        image, position, life = node.disk.image(), node.append_position, (node.boots, node.log_recording_id)
        delay_ns = self._random.randrange(COPY_AGE_NS)
        self._world.at(delay_ns, lambda: self._restore_archive(node, image, position, life))

    def _restore_archive(self, node: SimulatedNode, image: Image, position: int, life: tuple[int, int]) -> None:
        """Where the member itself knows that its log had gone on."""
        nodes = self._world.nodes
        if not self._is_on() or not node.is_alive or node.is_leaving or node.has_disk_faults:
            return
        if (
            (node.boots, node.log_recording_id) != life
            or not _are_all_trusted(nodes)
            or noted_position(node) <= position
        ):
            return
        node.kill()
        (files, stores), (old_files, old_stores) = node.disk.image(), image
        folder = node.archive_folder
        mixed = (_with_former(files, old_files, folder), _with_former(stores, old_stores, folder))
        node.disk.restore(mixed)
        node.has_lost = True
        # Without syncs its own note proves nothing to it: the others tell it that it has had more.
        node.has_old_data = self._world.options.sync == "none"
        self._world.trace.count_fault("older volume of the archive")
        self._world.note(f"{node.name} got an older copy of its archive, which ends at {position} or below")
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
        if row is None or node.has_disk_faults or node.has_old_data or b"log" not in node.stored_rows:
            return  # with a snapshot that was just fetched, and no log, it would be this cluster's folder again
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


def _are_all_trusted(nodes: Sequence[SimulatedNode]) -> bool:
    """Whether no member has older data, and none is about to be told so: all know the newest start of each other."""
    if any(stored_distrust(one) or one.has_lost or one.has_old_data for one in nodes):
        return False
    newest = {b"peer/" + struct.pack(">i", one.member_id): one.stored_rows.get(b"start") for one in nodes}
    own = [b"peer/" + struct.pack(">i", one.member_id) for one in nodes]
    return all(
        one.stored_rows.get(key) == start
        for one, own_key in zip(nodes, own, strict=True)
        for key, start in newest.items()
        if key != own_key
    )


def _known_to(one: SimulatedNode, node: SimulatedNode, start: Start) -> Point:
    """What a member has written down of what another one acknowledged."""
    notes = PeerNotes(SimulatedStorage(one.disk, one.clock), str(one.config.cluster_dir))
    try:
        return notes.load({node.member_id: start}).get(node.member_id, (-1, -1))
    finally:
        notes.close()


def _with_former(now: dict[str, Any], former: dict[str, Any], folder: str) -> dict[str, Any]:
    """What a disk has, with what a copy of it had below one folder."""
    kept = {path: one for path, one in now.items() if not path.startswith(folder)}
    return kept | {path: one for path, one in former.items() if path.startswith(folder)}


def _is_older(image: Image, state_path: str, newest: bytes | None) -> bool:
    """Whether a copy is of before the newest start; an empty one is for `wipe`."""
    row = image[1].get(state_path, {}).get(b"start")
    if newest is None or row is None:
        return False
    return Start(*_START_ROW.unpack(row)).number < Start(*_START_ROW.unpack(newest)).number

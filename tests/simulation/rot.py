"""Bits that flip in the logs of members while they run, and are to be mended while they run."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from archive.recovery import find_damage
from tests.simulation import damage

if TYPE_CHECKING:
    from archive.catalog import RecordingDescriptor
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

FLIPS_MAX = 3


def _log(node: SimulatedNode) -> RecordingDescriptor | None:
    """The log of a live member up to what it knows to be committed and durable."""
    found: RecordingDescriptor | None = None
    if node.node is not None and node.module.log.recording_id >= 0:
        archive = node.node.archive
        found = archive.descriptor(node.module.log.recording_id)
        active = archive.recording(found.recording_id)
        durable = found.stop_position if active is None else active.durable_position
        found = found._replace(stop_position=min(durable, node.commit_position))
    return found


def rot_log(world: World, node: SimulatedNode, random: Random) -> bool:
    """Flips some bits below what is committed; whether it did."""
    log = _log(node)
    if log is None:
        return False
    with node.readable_disk():
        losses = [
            damage.flip(node, random, log, log.start_position, log.stop_position, "rotten while running")
            for _ in range(random.randint(1, FLIPS_MAX))
        ]
    for loss in losses:
        if loss is not None:
            node.is_rotten = True
            world.trace.count_fault(loss.kind)
            world.note(loss.text)
    return any(losses)


def is_whole(node: SimulatedNode) -> bool:
    """Every frame of the log is good."""
    log = _log(node)
    if log is None:
        return False
    with node.readable_disk():
        return find_damage(damage.storage_of(node), node.archive_folder, log, log.start_position) is None

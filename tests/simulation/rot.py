"""Bits that flip in the logs and snapshots of members while they run, and are to be mended while they run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ordo.archive.segments.recovery import find_damage
from ordo.runtime.errors import CorruptFrameError, StorageError
from tests.simulation import damage
from tests.simulation.damage import Loss

if TYPE_CHECKING:
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.module.state.state_store import SnapshotEntry
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

FLIPS_MAX = 3
KINDS: dict[str, tuple[float, Callable[..., Loss | None]]] = {
    "page unreadable": (0.3, damage.break_page),
    "write lost": (0.45, damage.lose_write),
    "write misdirected": (0.6, damage.misdirect),
    "page reads old": (0.75, damage.make_stale),
    "rotten while running": (1.0, damage.flip),
}
"""What befalls a log: each below which draw."""


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
    """Flips some bits of what is committed and another member has, or has the device fail with a page there; whether
    it did."""
    log = _log(node)
    others = [found.start_position for one in world.members() if one is not node and (found := _log(one))]
    if log is None or not others:
        return False
    begin = max(log.start_position, min(others))
    with node.readable_disk():
        count, draw = random.randint(1, FLIPS_MAX), random.random()
        kind = world.options.rot_kind or next(name for name, (below, _) in KINDS.items() if draw < below)
        spoil = KINDS[kind][1]
        times = count if spoil is damage.flip else 1
        losses = [spoil(node, random, log, begin, log.stop_position, kind) for _ in range(times)]
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
        try:
            return find_damage(damage.storage_of(node), node.archive_folder, log, log.start_position) is None
        except StorageError:
            return False


def _snapshots(node: SimulatedNode) -> dict[tuple[int, bytes], SnapshotEntry]:
    """The whole snapshots of a live member, by position and digest."""
    if node.node is None:
        return {}
    with node.readable_disk():
        state = node.store.load()
    return {
        (entry.log_position, state.digests[entry.log_position]): entry
        for entry in state.snapshots
        if entry.is_valid and state.digests.get(entry.log_position)
    }


def rot_snapshot(world: World, node: SimulatedNode, random: Random) -> int | None:
    """Flips a bit of a snapshot that another member holds, too: its log position, or None where there is none."""
    others = [_snapshots(one) for one in world.members() if one is not node]
    shared = {key: entry for key, entry in _snapshots(node).items() if any(key in one for one in others)}
    if not shared or node.node is None:
        return None
    entry = shared[max(shared)]
    recording_id = random.choice(entry.recording_ids)
    descriptor = node.node.archive.descriptor(recording_id)
    with node.readable_disk():
        loss = damage.flip(node, random, descriptor, 0, descriptor.stop_position, "snapshot rotten while running")
    if loss is None:
        return None
    node.is_rotten = True
    world.trace.count_fault(loss.kind)
    world.note(loss.text)
    return entry.log_position


def is_snapshot_whole(node: SimulatedNode, log_position: int) -> bool:
    """The snapshot there is good again, or was deleted."""
    if node.node is None:
        return False
    with node.readable_disk():
        entry = next((one for one in node.store.load().snapshots if one.log_position == log_position), None)
        if entry is None:
            return True
        try:
            for recording_id in entry.recording_ids:
                node.node.archive.reader(recording_id, None).skip_messages()
        except CorruptFrameError:
            return False
    return entry.is_valid

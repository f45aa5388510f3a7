"""What a running member does about damage that its scrubber finds (docs/ARCHITECTURE.md, Rot while a member runs)."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import segment_name
from ordo.cluster.module.snapshots.log_repair import PAGE_BYTES
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.runtime.errors import StorageError
from ordo.runtime.io.storage import storage_error
from ordo.runtime.native.time_units import SECOND_NS
from tests.simulation import rot
from tests.simulation.nodes import SimulatedNode
from tests.simulation.options import Options
from tests.simulation.world import World


def cluster(**options: Any) -> tuple[World, SimulatedNode]:
    """A cluster that has written for two seconds, and a follower of it."""
    world = World(1, Options(clients=1, operation_mean_ns=2_000_000, padding_max=3000, **options))
    world.start()
    world.run(SECOND_NS)
    take_snapshot(world)
    for client in world.clients:
        client.is_working = False
    assert world.run(5 * SECOND_NS, world.is_steady)
    return world, next(one for one in world.nodes if not one.serves)


def take_snapshot(world: World) -> None:
    leader = world.leader()
    assert leader is not None
    leader.module.counters.control_toggle.compare_and_set(ControlToggle.NEUTRAL, ControlToggle.SNAPSHOT)
    world.run(SECOND_NS)


def damage_segment(node: SimulatedNode) -> Any:
    """Flips a bit of the log's second segment: the log's recording."""
    assert node.node is not None
    log = node.node.archive.descriptor(node.module.log.recording_id)
    node.disk.files[f"{node.archive_folder}/{log.recording_id}-{log.segment_length}.rec"].flip_bit(40, 3)
    node.is_rotten = True
    return log


def tell(node: SimulatedNode, log: Any, error: StorageError) -> None:
    """The scrubber's step from one frame of the segment on could not read."""
    node.module.exchange.repair.scrubber._on_damage(log, log.segment_length, error)


def test_what_the_device_cannot_read_is_mended_like_a_wrong_checksum() -> None:
    world, node = cluster()
    log = damage_segment(node)
    assert not rot.is_whole(node)
    tell(node, log, storage_error(errno.EIO, f"read recording {log.recording_id}", "0-65536.rec"))
    assert world.run(20 * SECOND_NS, lambda: rot.is_whole(node))
    assert node.module.exchange.repair.repaired_count == 1


def wipe(world: World, node: SimulatedNode) -> int:
    """The member comes back without a disk: where its log begins then, behind a snapshot."""
    node.kill()
    node.wipe()
    for invariant in world.invariants:
        invariant.on_wiped(node)
    node.boot()
    assert world.run(20 * SECOND_NS, world.is_steady)
    log = rot._log(node)
    assert log is not None
    return int(log.start_position)


def write_until(world: World, node: SimulatedNode, position: int) -> None:
    world.clients[0].is_working = True
    assert world.run(5 * SECOND_NS, lambda: node.commit_position > position)
    world.clients[0].is_working = False


def break_page(node: SimulatedNode, log: Any, position: int) -> str:
    """The path of the segment in which the device cannot read the page of a position."""
    base = base_of(log, position)
    path = f"{node.archive_folder}/{segment_name(log.recording_id, base)}"
    node.disk.files[path].break_page(position - base)
    node.is_rotten = True
    return path


def test_a_page_is_mended_that_the_others_have_though_their_logs_begin_later() -> None:
    """A step of the scrubber begins before their logs do; what cannot be read is behind that."""
    world, node = cluster(
        snapshot_every_bytes=100 << 10, retention_bytes=64 << 10, snapshots_kept=1, scrub_ns=SECOND_NS
    )
    take_snapshot(world)
    starts = [wipe(world, one) for one in world.nodes if one is not node]
    log = rot._log(node)
    assert log is not None and base_of(log, max(starts)) < min(starts)
    write_until(world, node, max(starts) + 4 * PAGE_BYTES)
    world.run(2 * SECOND_NS)  # the next pass of the scrubber is the one that finds it
    break_page(node, log, max(starts) + 2 * PAGE_BYTES)
    assert not rot.is_whole(node)
    assert world.run(20 * SECOND_NS, lambda: rot.is_whole(node))
    assert node.module.exchange.repair.repaired_count == 1


def test_a_page_is_mended_in_which_the_log_begins() -> None:
    """Behind a snapshot a log begins within a page, and a device takes whole pages only."""
    world, node = cluster(snapshot_every_bytes=100 << 10, retention_bytes=64 << 10, snapshots_kept=1)
    start = wipe(world, node)
    log = rot._log(node)
    assert log is not None and (start - base_of(log, start)) % PAGE_BYTES > 0
    write_until(world, node, start + 2 * PAGE_BYTES)
    path = break_page(node, log, start)
    error = storage_error(errno.EIO, f"read recording {log.recording_id}", path)
    node.module.exchange.repair.scrubber._on_damage(log, start, error)
    assert not rot.is_whole(node)
    assert world.run(20 * SECOND_NS, lambda: rot.is_whole(node))
    assert node.module.exchange.repair.repaired_count == 1


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE])
def test_what_could_not_be_opened_is_left_alone(code: int) -> None:
    world, node = cluster()
    tell(node, damage_segment(node), storage_error(code, "open", "0-65536.rec"))
    world.run(5 * SECOND_NS)
    assert node.module.exchange.repair.repaired_count == 0
    assert not rot.is_whole(node)


def test_a_rotten_snapshot_is_replaced_while_the_member_runs() -> None:
    world, node = cluster(scrub_ns=SECOND_NS // 2)
    held, exchange = node.module.held, node.module.exchange
    world.run(2 * SECOND_NS)
    (before,) = held.shelf.valid()[:1]
    position = rot.rot_snapshot(world, node, Random(1))
    assert position is not None
    assert position == before.log_position
    assert not rot.is_snapshot_whole(node, position)
    assert world.run(20 * SECOND_NS, lambda: rot.is_snapshot_whole(node, position))
    (after,) = held.shelf.valid()[:1]
    assert after[:4] == before[:4], "the same snapshot"
    assert not {after.module_recording_id, after.service_recording_id} & {
        before.module_recording_id,
        before.service_recording_id,
    }
    assert exchange.snapshot_repair.repaired_count == 1
    assert node.node is not None
    kept = {one.recording_id for one in node.node.archive.recordings()}
    assert before.module_recording_id not in kept and before.service_recording_id not in kept
    counters = node.module.counters
    world.run(2 * SECOND_NS)
    assert (counters.damage_found.value, counters.damage_mended.value, counters.damage_left.value) == (1, 1, 0)

"""The log of a cluster that was ended in order begins anew, with other lengths, as `ordo cluster renew-log` has it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.admin import log_renewal
from ordo.cluster.admin.member_store import open_stored
from tests.simulation.damage import storage_of

if TYPE_CHECKING:
    from ordo.runtime.random import RandomSource
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.options import Options

KIB = 1024


class RenewalWorld(Protocol):
    """Whose members they are."""

    options: Options
    random: RandomSource
    nodes: list[SimulatedNode]

    def note(self, text: str) -> None: ...
    def count_fault(self, kind: str) -> None: ...


def renew_by_chance(world: RenewalWorld, random: Random) -> bool:
    lengths = random.choice((64, 128, 256)) * KIB, random.choice((512, 1408))
    return renew_all(world, *lengths, _draw_members(world) if world.options.renews_some else None)


def _draw_members(world: RenewalWorld) -> list[SimulatedNode]:
    random = world.random.stream("renewals")
    return random.sample(world.nodes, random.randint(1, len(world.nodes)))


def renew_all(
    world: RenewalWorld, term_length_bytes: int, mtu_bytes: int, members: Sequence[SimulatedNode] | None = None
) -> bool:
    """An operator writes other lengths into all configurations, and looks at the members one after the other, or at
    these only and forgets the rest; where one of them refuses, the log stays. False: not done."""
    if any(node.is_alive for node in world.nodes):
        return False
    holders = [node for node in members or world.nodes if node.state_path in node.disk.stores]
    former = [node.config for node in world.nodes]
    set_lengths(world, term_length_bytes, mtu_bytes)
    if not holders or any(_refuses(node) for node in holders):
        for node, config in zip(world.nodes, former, strict=True):
            node.config = config
        return False
    for node in holders:
        with node.readable_disk():
            world.note(log_renewal.renew_log(node.config, storage_of(node)))
    return True


def renew_forgotten(world: RenewalWorld, node: SimulatedNode) -> None:
    """A member that ended because the others' log begins anew: an operator does what its last line says."""
    node.is_forgotten = False
    node.disk.heal()
    if not _refuses(node):
        world.count_fault("forgotten log renewed")
        world.note(log_renewal.renew_log(node.config, storage_of(node)))
    node.boot()


def _refuses(node: SimulatedNode) -> bool:
    storage = storage_of(node)
    with node.readable_disk(), open_stored(node.config, storage) as store:
        return bool(log_renewal.find_refusal(node.config, store.load(), storage))


def set_lengths(world: RenewalWorld, term_length_bytes: int, mtu_bytes: int) -> None:
    """Writes lengths into the configurations of all members."""
    for node in world.nodes:
        settings = node.config.cluster
        lengths = {
            "log_term_length_bytes": term_length_bytes,
            "segment_length_bytes": max(settings.segment_length_bytes, term_length_bytes),
            "mtu_bytes": mtu_bytes,
        }
        node.config = node.config.model_copy(update={"cluster": settings.model_copy(update=lengths)})

"""A cluster whose members copy their snapshots from a standby, which dies, lags, or has another state.

Whatever happens, what members hold is of their own state, and log goes only below what a quorum holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.node.node import Node, NodeSeams
from ordo.standby.copying import CopyingNode
from tests.simulation.invariants.snapshots_equal_replay import SnapshotsEqualReplay
from tests.simulation.nodes import PORT, SimulatedNode, node_address
from tests.simulation.options import Options
from tests.simulation.standby import LIMIT_NS, StandbyWorld, _go_on, await_following, kill_one, lose_primary, promote

if TYPE_CHECKING:
    from random import Random

    from ordo.cluster.container.versions import ServiceVersions
    from ordo.service_api.service import Service

S = 1_000_000_000
PATIENCE_S = 2


class CopyingMember(SimulatedNode):
    """A member that asks the standby for snapshots."""

    world: CopyingWorld

    def __init__(self, world: CopyingWorld, member_id: int) -> None:
        super().__init__(world, member_id)
        standby = f"{node_address(world.options.nodes + world.options.spares)}:{PORT}"
        update = {"by": "standby", "standbys": (standby,), "standby_patience_seconds": PATIENCE_S}
        snapshot = self.config.snapshot.model_copy(update=update)
        self.config = self.config.model_copy(update={"snapshot": snapshot})

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        member = self

        class Made(CopyingNode):
            def _on_tick(self, now_ns: int) -> None:
                with member.world.answering(member.address):
                    super()._on_tick(now_ns)

        return Made(self.config, seams, services)


class CopyingWorld(StandbyWorld):
    """A world of such members, and their standby."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        self._answers_at = self.standby.address
        self.differs = False
        """The standby's service has another state than the members', as one has that is not deterministic."""
        self._of_standby: set[int] = set()
        self._of_members: set[int] = set()
        """Where snapshots were taken, by log position."""
        (self._replay,) = (one for one in self.invariants if isinstance(one, SnapshotsEqualReplay))

    def make_member(self, member_id: int) -> SimulatedNode:
        return CopyingMember(self, member_id)

    @contextmanager
    def answering(self, address: str) -> Iterator[None]:
        """Have answers come to this address: it is asked of the system otherwise."""
        former, self._answers_at = self._answers_at, address
        try:
            yield
        finally:
            self._answers_at = former

    def answer_channel(self, _: Any) -> str:
        return f"aeron:udp?endpoint={self._answers_at}:0"

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        super().on_snapshot(member_id, position, digest)
        (self._of_standby if member_id == self.standby.member_id else self._of_members).add(position)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        """What a member starts from that a standby took is what the members have executed up to there."""
        if member_id != self.standby.member_id and position in self._of_standby and position not in self._of_members:
            service, index = self.nodes[member_id].service, self.executed.index_after(position)
            assert service is not None
            if service.state.differs or service.state.digest != self.executed.records[index - 1].digest:
                self.fail(f"node{member_id} starts at {position} from a state that no member had there")
            self._replay.on_copied(position, digest)
            self.count_fault("started from a copy")
        if member_id == self.standby.member_id and self.differs:
            assert self.standby.service is not None
            self.standby.service.state.differs = True
        super().on_started(member_id, position, digest)

    def count(self, name: str) -> int:
        """Return what all members that run have counted."""
        return sum(getattr(one.module.counters.snapshots, name).value for one in self.nodes if one.is_alive)


def run_copying(seed: int, options: Options, *, differs: bool = False) -> CopyingWorld:
    """Run one seed to its end: faults, in which members start from copies, and a promotion.

    `differs`: the standby has another state, and is not promoted.
    """
    world = CopyingWorld(seed, options)
    world.differs = differs
    try:
        with mock.patch.object(settings, "_response_channel", world.answer_channel):
            _follow(world, world.random.stream("copying"))
        if not differs:
            promote(world, world.standby)
            _go_on(world)
        return world
    finally:
        world.standby.release()
        world.forget()


def _follow(world: CopyingWorld, random: Random) -> None:
    world.start()
    world.standby.prepare()
    world.standby.boot()
    copied = 0
    for _ in range(random.randrange(4, 8)):
        world.run(random.randrange(S))
        copied = max(copied, world.count("copied"))
        kill_one(world, random)
    await_following(world)
    world.run(LIMIT_NS // 4)
    if max(copied, world.count("copied")):
        world.count_fault("snapshot copied")
    if world.count("instead"):
        world.count_fault("snapshot of members instead")
    lose_primary(world, random)

"""A standby beside a cluster whose members die and come back; then the cluster is gone, and the standby is promoted.

Until then the standby must have nothing that the cluster may take back, and execute what the members execute. Behind
the promotion it goes on from the told position exactly, whatever the former members do when they come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.node.node import Node, NodeSeams
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.holdings import examine
from ordo.salvage.new_epoch import Recovered, go_on_alone
from ordo.standby.feed import Primary
from ordo.standby.node import StandbyNode
from tests.simulation.damage import storage_of
from tests.simulation.history import Executed, Violation
from tests.simulation.invariants import SnapshotsAreOfTheLog
from tests.simulation.invariants.new_epoch_continues import NewEpochContinues
from tests.simulation.nodes import PORT, SimulatedNode, node_address
from tests.simulation.options import Options
from tests.simulation.world import World

if TYPE_CHECKING:
    from random import Random

    from ordo.cluster.container.versions import ServiceVersions
    from ordo.service_api.service import Service
    from tests.simulation.timeline import Actor

MS = 1_000_000
S = 1_000_000_000
PAUSE_NS_MAX = 600 * MS
LIMIT_NS = 40 * S


class SimulatedStandby(SimulatedNode):
    """A standby through all its lives; once `is_promoted`, the only member of a cluster of its own."""

    def __init__(self, world: StandbyWorld, member_id: int) -> None:
        super().__init__(world, member_id)
        own = [one for one in self.config.members if one.id == member_id]
        node = self.config.node.model_copy(update={"learner": False})
        self.config = self.config.model_copy(update={"members": own, "node": node})
        self._addresses = [f"{node_address(one)}:{PORT}" for one in range(world.options.nodes)]
        self.is_promoted = False

    def follow(self, primary: SimulatedNode) -> None:
        """Follow this one from the next start on."""
        self._addresses = [f"{primary.address}:{PORT}"]

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        if self.is_promoted:
            return Node(self.config, seams, services)
        primary = Primary(self._addresses, report=lambda text: self.world.note(f"{self.name}: {text}"))
        return StandbyNode(self.config, seams, services, primary=primary)

    def prepare(self) -> None:
        """An operator has chosen an empty folder for it."""
        storage = storage_of(self)
        for path in (self.config.node.data_dir, self.config.archive_dir, self.config.cluster_dir):
            storage.make_directory(str(path))
        store = StateStore(storage.open_metadata(self.state_path))
        store.folder.put_standby()
        store.close()


class StandbyWorld(World):
    """A world whose invariants hear nothing of the standby before it is promoted."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        self.standby = self.make_standby(options.nodes + options.spares)
        self.actors.append(self.standby)
        self.new_epoch: NewEpochContinues | None = None
        self._copied: list[Executed] = []
        (self._snapshots,) = (one for one in self.invariants if isinstance(one, SnapshotsAreOfTheLog))
        self._taken: list[int] = []

    def make_standby(self, member_id: int) -> SimulatedStandby:
        return SimulatedStandby(self, member_id)

    def on_changed(self, actor: Actor) -> None:
        if actor is not self.standby or self.new_epoch is not None:
            super().on_changed(actor)

    def on_moved(self, actor: Actor) -> None:
        if actor is not self.standby or self.new_epoch is not None:
            super().on_moved(actor)

    def on_booted(self, node: SimulatedNode) -> None:
        if node is not self.standby:
            super().on_booted(node)

    def note_end(self, node: SimulatedNode) -> None:
        if node is not self.standby:
            super().note_end(node)

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        if member_id != self.standby.member_id:
            super().on_executed(member_id, position, digest, text, wrong)
            return
        if wrong:
            self.fail(f"the standby at position {position}: {wrong}")
        record = Executed(position, digest, text)
        if self.new_epoch is not None:
            self.new_epoch.on_executed(self.standby, record)
            return
        if position > self.committed_position:
            self.fail(f"the standby executed position {position}, which nobody has committed")
        self._copied.append(record)

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        if member_id != self.standby.member_id:
            super().on_numbered(member_id, position, sequence)

    def on_arrived(self, member_id: int, position: int, arrival_ns: int | None) -> None:
        if member_id != self.standby.member_id:
            super().on_arrived(member_id, position, arrival_ns)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        if member_id != self.standby.member_id:
            super().on_started(member_id, position, digest)
        elif self.new_epoch is not None:
            self.new_epoch.on_service_started(self.standby, position, digest)

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        if member_id != self.standby.member_id:
            super().on_snapshot(member_id, position, digest)
        elif self.new_epoch is None:
            self._taken.append(position)
        elif position in self._snapshots.of_standbys:
            self.fail(f"the promoted standby took the snapshot at {position}, which was for standbys alone")

    def order_standby_snapshot(self) -> None:
        """As `ordo cluster snapshot --standbys` does."""
        leader = self.leader()
        if leader is not None and leader.ask(ControlToggle.STANDBY_SNAPSHOT):
            self.count_fault("snapshot of standbys ordered")

    def check_copied(self) -> None:
        """What the standby has executed is what the members have. Raises Violation."""
        known = {one.position: one for one in self.executed.records}
        for record in self._copied:
            if known.get(record.position, record) != record:
                raise Violation(f"the standby executed {record.text!r} at {record.position}")
        if not self._copied:
            raise Violation("the standby executed nothing")
        for _ in self._snapshots.of_standbys.intersection(self._taken):
            self.count_fault("snapshot of standbys taken")


def run_standby(seed: int, options: Options) -> StandbyWorld:
    """Run one seed to its end. Raises Violation."""
    world = StandbyWorld(seed, options)
    answers = f"aeron:udp?endpoint={world.standby.address}:0"
    try:
        # which of this machine's addresses answers come to is asked of the system
        with mock.patch.object(settings, "_response_channel", lambda _: answers):
            _follow(world, world.random.stream("standby"))
        promote(world, world.standby)
        _go_on(world)
        return world
    finally:
        world.standby.release()
        world.forget()


def _follow(world: StandbyWorld, random: Random) -> None:
    """Members and the standby are killed, one at a time, while clients work; then the cluster is gone."""
    world.start()
    world.standby.prepare()
    world.standby.boot()
    for _ in range(random.randrange(3, 7)):
        world.run(random.randrange(PAUSE_NS_MAX))
        world.order_standby_snapshot()
        world.run(random.randrange(PAUSE_NS_MAX))
        kill_one(world, random)
    await_following(world)
    lose_primary(world, random)


def kill_one(world: StandbyWorld, random: Random) -> None:
    """Kill a member or the standby, which comes back after a while."""
    victim = random.choice([*world.nodes, world.standby])
    if victim.is_alive:
        victim.kill()
        world.count_fault(f"killed {'the standby' if victim is world.standby else 'a member'}")
    world.run(random.randrange(PAUSE_NS_MAX))
    if not victim.is_alive:
        victim.boot()


def await_following(world: StandbyWorld) -> None:
    """Wait until the standby has executed something. Raises Violation."""
    if not world.run(LIMIT_NS, lambda: world.standby.is_alive and world.standby.executed_position > 0):
        raise Violation(f"the standby does not follow: {world.describe()}")


def lose_primary(world: StandbyWorld, random: Random) -> None:
    """Kill all members for good, and the standby, whose log must be a beginning of theirs."""
    world.run(random.randrange(PAUSE_NS_MAX))
    for node in (*world.nodes, world.standby):
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()
    world.check_copied()


def promote(world: StandbyWorld, standby: SimulatedStandby) -> Recovered:
    """As `ordo standby promote` does it; a node that is started before refuses the copy."""
    standby.is_promoted = standby.has_disk_faults = True  # it may end
    standby.boot()
    if standby.is_alive:
        raise Violation("a node started with a copy that was not promoted")
    standby.has_disk_faults = False
    with standby.readable_disk():
        findings = examine(standby.config, storage_of(standby))
    if findings.holding.end_position > world.committed_position:
        raise Violation(f"the standby has {findings.holding.end_position}, {world.committed_position} is committed")
    former = standby.stored_rows.get(b"origin")
    draw = world.random.stream("promotion").randbytes(16)
    clock = VirtualClock(world.now_ns)
    made = go_on_alone(standby.config, findings, {}, storage=storage_of(standby), clock=clock, draw=draw)
    if standby.stored_rows.get(b"origin") == former or b"standby" in standby.stored_rows:
        raise Violation("the promoted standby cannot be told from the former cluster")
    world.new_epoch = NewEpochContinues(world, made.from_position)
    world.new_epoch.members.append(standby)
    world.begin_epoch(world.new_epoch, made.from_position)
    world.count_fault("promoted")
    return made


def _go_on(world: StandbyWorld) -> None:
    """The new cluster serves, and former members that come back change nothing."""
    standby = world.standby
    standby.boot()
    if not world.run(LIMIT_NS, lambda: standby.serves and standby.executed_position >= standby.append_position > 0):
        raise Violation(f"the promoted standby does not serve: {world.describe()}")
    identity: Any = standby.stored_rows[b"origin"]
    for node in world.nodes:
        node.boot()
    world.run(4 * S)
    if not standby.serves or standby.stored_rows[b"origin"] != identity:
        raise Violation("the promoted standby was disturbed by former members")

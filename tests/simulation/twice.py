"""A cluster is gone on with twice while a standby is away, which follows only where its log is a beginning of theirs.

Two standbys follow, one after the other. The first one is promoted, serves for a while, and is recovered once more
behind that. The other one then comes back, with less of the former cluster's log than the promoted one went on with, or
with more: what it has more was dropped by the first epoch, and ends before the second one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.log_identity import Origin
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.new_epoch import go_on_alone
from tests.simulation.damage import storage_of
from tests.simulation.history import Violation
from tests.simulation.invariants.new_epoch_continues import NewEpochContinues
from tests.simulation.nodes import PORT, SimulatedNode
from tests.simulation.options import Options
from tests.simulation.rejoin import RejoinWorld, answered_at, look_into
from tests.simulation.standby import LIMIT_NS, PAUSE_NS_MAX, SimulatedStandby, promote

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.timeline import Actor

MORE_BYTES = 4096
"""By so much two logs differ at least."""


class TwiceWorld(RejoinWorld):
    """A world with a second standby, of which the invariants hear nothing before it follows the newest epoch."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        self.late = self.make_standby(self.standby.member_id + 1)
        self.actors.append(self.late)

    def _is_watched(self, member_id: int) -> bool:
        return member_id != self.late.member_id or member_id in self.pair

    def on_changed(self, actor: Actor) -> None:
        if actor is not self.late or self.late.member_id in self.pair:
            super().on_changed(actor)

    def on_moved(self, actor: Actor) -> None:
        if actor is not self.late or self.late.member_id in self.pair:
            super().on_moved(actor)

    def on_booted(self, node: SimulatedNode) -> None:
        if node is not self.late:
            super().on_booted(node)

    def note_end(self, node: SimulatedNode) -> None:
        if node is not self.late:
            super().note_end(node)

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        if self._is_watched(member_id):
            super().on_executed(member_id, position, digest, text, wrong)

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        if member_id != self.late.member_id:
            super().on_numbered(member_id, position, sequence)

    def on_arrived(self, member_id: int, position: int, arrival_ns: int | None) -> None:
        if member_id != self.late.member_id:
            super().on_arrived(member_id, position, arrival_ns)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        if self._is_watched(member_id):
            super().on_started(member_id, position, digest)

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        if member_id != self.late.member_id:
            super().on_snapshot(member_id, position, digest)


def run_twice(seed: int, options: Options, *, has_more: bool) -> TwiceWorld:
    """Run one seed to its end. `has_more`: the one that comes back has what the first epoch dropped.

    Raises Violation.
    """
    world = TwiceWorld(seed, options)
    random = world.random.stream("twice")
    first, late = world.standby, world.late
    try:
        world.start()
        for one in (first, late) if has_more else (late, first):
            _follow(world, one, random)
        _lose_all(world, [*world.nodes])
        end = look_into(late).holding.end_position
        base = promote(world, first).from_position
        if (base < end) is not has_more:
            raise Violation(f"{base=} and {end=} are not what this run is about")
        _serve(world, first, end + MORE_BYTES)
        _lose_all(world, [first])
        _recover(world, first)
        _serve(world, first, first_position=0)
        _come_back(world, first, late, end, has_more=has_more)
        return world
    finally:
        for node in (first, late):
            node.release()
        world.forget()


def _follow(world: TwiceWorld, standby: SimulatedStandby, random: Random) -> None:
    """Have a standby follow for a while, behind what anybody has by now, and die."""
    position = world.committed_position + MORE_BYTES
    standby.prepare()
    standby.boot()
    with answered_at(standby):
        if not world.run(LIMIT_NS, lambda: standby.is_alive and standby.executed_position >= position):
            raise Violation(f"{standby.name} does not follow: {world.describe()}")
        world.run(random.randrange(PAUSE_NS_MAX))
    standby.kill()


def _lose_all(world: TwiceWorld, nodes: list[SimulatedNode]) -> None:
    for node in nodes:
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()
    history = world.clients_history
    history.executed.clear()  # what was acknowledged may be lost by now: that is told elsewhere


def _serve(world: TwiceWorld, node: SimulatedNode, first_position: int) -> None:
    """Have the newest cluster serve until it has committed so much."""
    world.pair = {node.member_id: node}
    node.boot()
    if not world.run(LIMIT_NS, lambda: node.serves and node.executed_position >= node.append_position > 0):
        raise Violation(f"{node.name} does not serve: {world.describe()}")
    for client in world.clients:
        client.more_endpoints = [f"{node.address}:{PORT}"]
        client.boot()
    position = max(first_position, node.commit_position + MORE_BYTES)
    if not world.run(LIMIT_NS, lambda: node.commit_position >= position):
        raise Violation(f"{node.name} takes nothing: {world.describe()}")


def _recover(world: TwiceWorld, node: SimulatedStandby) -> None:
    """As `ordo cluster recover` does it with the only member that is left: its log goes on as another one's."""
    findings, former = look_into(node), read_origin(node)
    draw = world.random.stream("recovery").randbytes(16)
    clock = VirtualClock(world.now_ns)
    made = go_on_alone(node.config, findings, {}, storage=storage_of(node), clock=clock, draw=draw)
    assert read_origin(node) != former
    world.new_epoch = NewEpochContinues(world, made.from_position)
    world.new_epoch.members.append(node)
    world.begin_epoch(world.new_epoch, made.from_position)
    world.count_fault("recovered")


def read_origin(node: SimulatedNode) -> Origin:
    """Return the newest identity of a folder."""
    row = node.stored_rows[b"origin"]
    return Origin(row[:16], int.from_bytes(row[16:], "big"))


def _come_back(world: TwiceWorld, first: SimulatedNode, late: SimulatedStandby, end: int, *, has_more: bool) -> None:
    """The other standby follows the newest cluster, or ends, and has what it had."""
    if read_origin(first).position <= end:
        raise Violation(f"the newest identity begins at {read_origin(first).position}, not behind {end}")
    late.follow(first)
    late.has_disk_faults = has_more  # it may end
    if not has_more:
        assert world.new_epoch is not None
        world.new_epoch.members.append(late)
        world.pair[late.member_id] = late
    late.boot()
    with answered_at(late):
        position = first.commit_position
        world.run(LIMIT_NS, lambda: not late.is_alive or late.executed_position >= position)
    if late.is_alive:
        late.kill()
    elif has_more:
        world.count_fault("refused")
    found = look_into(late).holding.end_position
    if has_more and found != end:
        raise Violation(f"{late.name} has recorded from {end} to {found} of a log that does not go on with its own")
    if not has_more and found < position:
        raise Violation(f"{late.name} has {found}, and {position} was committed")
    if has_more and not world.trace.tally["refused"]:
        raise Violation(f"{late.name} goes on asking a cluster that is not its own")

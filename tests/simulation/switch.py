"""A planned switch while members and the standby are killed: what the primary acknowledged is in the new cluster.

The operator does what `ordo standby switch` does, and finds out after each fault how far it has come. Behind the switch
the former members go on living, with clients that ask them and an operator who wants them to go on: they serve nobody.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.node.node import Node, NodeSeams
from ordo.cluster.wire.counters.counter_types import ControlToggle, ModuleState, succeed_value
from ordo.cluster.wire.levels import SUCCESSION_LEVEL
from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.cluster.wire.succession import IS_OVER
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.holdings import examine
from ordo.salvage.new_epoch import go_on_alone
from ordo.standby.feed import Primary
from ordo.standby.node import StandbyNode
from tests.simulation.damage import storage_of
from tests.simulation.history import Violation
from tests.simulation.invariants.new_epoch_continues import NewEpochContinues
from tests.simulation.nodes import SimulatedNode
from tests.simulation.options import Options
from tests.simulation.standby import LIMIT_NS, MS, PAUSE_NS_MAX, S, SimulatedStandby, StandbyWorld

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ordo.cluster.container.versions import ServiceVersions
    from ordo.service_api.service import Service

NUMBER = 4711
"""By which the primary's log names the standby."""
STEP_NS = 50 * MS
TERM = "term "
"""So begins what is told of a new leader's first record: the former members may elect as long as they like."""


class NamedStandby(SimulatedStandby):
    """A standby that the primary may end its log for."""

    made: StandbyNode | None = None

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        if self.is_promoted:
            return Node(self.config, seams, services)
        primary = Primary(self._addresses, report=lambda text: self.world.note(f"{self.name}: {text}"))
        self.made = StandbyNode(self.config, seams, services, primary=primary, number=lambda: NUMBER)
        return self.made

    @property
    def is_successor(self) -> bool:
        return self.made is not None and self.made.is_successor


class SwitchWorld(StandbyWorld):
    """A world in which the former primary may execute nothing behind the end of its log."""

    end_position = -1
    """Where the new cluster has begun; -1: not yet."""
    waits_for_end = True

    def make_standby(self, member_id: int) -> SimulatedStandby:
        return NamedStandby(self, member_id)

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        is_former = member_id != self.standby.member_id and not text.startswith(TERM)
        if is_former and 0 <= self.end_position < position:
            self.fail(f"member {member_id} executed {text!r} at {position}, behind the end of its log")
        super().on_executed(member_id, position, digest, text, wrong)


def run_switch(seed: int, options: Options, *, waits_for_end: bool = True) -> SwitchWorld:
    """Run one seed to its end. Raises Violation. Without `waits_for_end` the standby is promoted too early."""
    world = SwitchWorld(seed, options)
    world.waits_for_end = waits_for_end
    answers = f"aeron:udp?endpoint={world.standby.address}:0"
    random = world.random.stream("switch")
    try:
        with mock.patch.object(settings, "_response_channel", lambda _: answers):
            world.start()
            world.standby.prepare()
            world.standby.boot()
            world.run(random.randrange(PAUSE_NS_MAX) + S)
            _order(world, random)
        _promote(world)
        _go_on(world)
        return world
    finally:
        world.standby.release()
        world.forget()


def _order(world: SwitchWorld, random: Random) -> None:
    """Have the log end, whatever is killed meanwhile; return once the standby has found that."""
    faults, deadline_ns = random.randrange(4), world.now_ns + LIMIT_NS
    while world.now_ns < deadline_ns:
        if faults and random.random() < 0.2:
            faults -= 1
            victim = random.choice([*world.nodes, world.standby])
            if victim.is_alive:
                victim.kill()
                world.count_fault("killed in a switch")
        _advance(world)
        if _is_successor(world) or (not world.waits_for_end and _has_ended(world)):
            return
        world.run(random.randrange(STEP_NS))
        for node in (*world.nodes, world.standby):
            if not node.is_alive and random.random() < 0.3:
                node.boot()
    raise Violation(f"the log does not end for the standby: {world.describe()}")


def _is_successor(world: SwitchWorld) -> bool:
    return isinstance(world.standby, NamedStandby) and world.standby.is_successor


def _has_ended(world: SwitchWorld) -> bool:
    return any(node.is_alive and node.module.controls.control.successor for node in world.nodes)


def _advance(world: SwitchWorld) -> None:
    """Give the order that is next, as the leader's toggle and the standby's log show it."""
    leader, standby = world.leader(), world.standby
    if leader is None or not leader.serves:
        return
    counters = leader.module.counters
    if leader.module.rules.levels.newest < SUCCESSION_LEVEL:
        return  # it would be refused, and be given up
    if counters.control_toggle.value == ControlToggle.NEUTRAL:
        leader.ask(ControlToggle.SUSPEND)
    elif counters.control_toggle.value == ControlToggle.SUSPEND and counters.state == ModuleState.SUSPENDED:
        is_near = standby.is_alive and standby.commit_position >= leader.commit_position
        if is_near or not world.waits_for_end:
            leader.ask(succeed_value(NUMBER), ControlToggle.SUSPEND)


def _promote(world: SwitchWorld) -> None:
    """As the process of the standby does it, while the members live."""
    standby = world.standby
    if standby.is_alive:
        standby.kill()
    with standby.readable_disk():
        findings = examine(standby.config, storage_of(standby))
    end_position = findings.holding.end_position
    last = max((one.position for one in world.executed.records if not one.text.startswith(TERM)), default=0)
    if last > end_position:
        raise Violation(f"the primary has executed {last}, and the standby goes on behind the end at {end_position}")
    if findings.survey.successor != NUMBER:
        raise Violation("the log that the standby has does not end for it")
    draw = world.random.stream("promotion").randbytes(16)
    clock = VirtualClock(world.now_ns)
    standby.is_promoted = True
    made = go_on_alone(standby.config, findings, {}, storage=storage_of(standby), clock=clock, draw=draw)
    world.new_epoch = NewEpochContinues(world, made.from_position)
    world.new_epoch.members.append(standby)
    world.begin_epoch(world.new_epoch, made.from_position)
    world.end_position = made.from_position
    world.count_fault("switched")


def _go_on(world: SwitchWorld) -> None:
    """The new cluster serves; the former members, asked to go on by clients and an operator, do not."""
    standby = world.standby
    standby.boot()
    if not world.run(LIMIT_NS, lambda: standby.serves and standby.executed_position >= standby.append_position > 0):
        raise Violation(f"the promoted standby does not serve: {world.describe()}")
    if standby.is_suspended:
        raise Violation("the new cluster is suspended, as the former one was")
    for _ in range(4):
        world.run(600 * MS)
        for node in world.nodes:
            if node.is_alive:
                node.ask_to_resume()
                node.ask(ControlToggle.RESUME, ControlToggle.SUCCEEDED)
                _demand_members_stay(node)
        world.run(400 * MS)
        _restart_one(world)
    if not standby.serves:
        raise Violation("the promoted standby was disturbed by former members")


def _demand_members_stay(node: SimulatedNode) -> None:
    """An operator has a former leader remove another member, and is refused."""
    if not (node.serves and node.module.member.is_leader):
        return
    other = next(one for one in node.module.core.configuration.voter_ids if one != node.member_id)
    request = SimpleNamespace(correlation_id=0, member_id=other, change=MembershipChange.REMOVE, member="")
    answer = node.module.membership.on_request(request, node.clock.now())
    if answer is None or IS_OVER.encode() not in answer:
        raise Violation(f"{node.name} changes its members behind the end of its log")


def _restart_one(world: SwitchWorld) -> None:
    """Kill the one that leads, or start those that are dead."""
    leader: SimulatedNode | None = world.leader()
    if leader is not None:
        leader.kill()
        return
    for node in world.nodes:
        if not node.is_alive:
            node.boot()

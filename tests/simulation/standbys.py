"""Three standby nodes of one cluster, which is gone; an operator promotes one, and the others join it.

Whatever is killed meanwhile, and whichever node is behind: the new cluster goes on with the log of the chosen one, no
two clusters serve, and what the new one has executed, and so acknowledged, it keeps when its leader dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.node.node import Node, NodeSeams
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.holdings import examine
from ordo.salvage.new_epoch import go_on_alone, join_epoch
from ordo.standby.feed import Primary
from ordo.standby.node import StandbyNode
from ordo.standby.others import Standing, find_refusal
from tests.simulation.damage import storage_of
from tests.simulation.history import Executed, Violation
from tests.simulation.invariants.new_epoch_continues import NewEpochContinues
from tests.simulation.nodes import PORT, SimulatedNode, node_address
from tests.simulation.standby import LIMIT_NS, MS, PAUSE_NS_MAX, S, SimulatedStandby, StandbyWorld
from tests.simulation.storage import PowerLoss

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ordo.cluster.container.versions import ServiceVersions
    from ordo.service_api.service import Service
    from tests.simulation.options import Options
    from tests.simulation.timeline import Actor

STANDBYS = 3
STEP_NS = 30 * MS
TRANSACTIONS_MAX = 6
WRITES_MAX = 12


class OneOfSeveral(SimulatedStandby):
    """One of several standby nodes; `is_promoted`: its folder is that of a voter."""

    world: StandbysWorld
    made: StandbyNode | None = None
    is_lost = False
    """Nobody starts it, for the time being."""

    def __init__(self, world: StandbysWorld, member_id: int) -> None:
        super().__init__(world, member_id)
        first = world.options.nodes + world.options.spares
        own = self.config.members[-1]
        others = [
            own.model_copy(update={"id": one, "host": node_address(one)}) for one in range(first, first + STANDBYS)
        ]
        self.config = self.config.model_copy(update={"members": others})

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        self.made = None
        if self.is_promoted:
            return Node(self.config, seams, services)
        primary = Primary(self._addresses, report=lambda text: self.world.note(f"{self.name}: {text}"))
        self.made = AnsweredNode(self.config, seams, services, primary=primary)
        self.made.answers = self
        return self.made

    @property
    def is_voter(self) -> bool:
        return self.made is not None and self.made.is_voter

    @property
    def identity(self) -> bytes:
        return self.stored_rows.get(b"origin", b"")

    def end_position(self) -> int:
        with self.readable_disk():
            return examine(self.config, storage_of(self)).holding.end_position


class AnsweredNode(StandbyNode):
    """What asks in its duty cycle is answered at its own address."""

    answers: OneOfSeveral

    def _on_tick(self, now_ns: int) -> None:
        self.answers.world.asking = self.answers
        super()._on_tick(now_ns)


class StandbysWorld(StandbyWorld):
    """A world with several standby nodes."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        first = options.nodes + options.spares
        more = [OneOfSeveral(self, one) for one in range(first + 1, first + STANDBYS)]
        assert isinstance(self.standby, OneOfSeveral)
        self.standbys: list[OneOfSeveral] = [self.standby, *more]
        self.actors.extend(self.standbys[1:])
        self.asking: SimulatedNode = self.standby
        self.former = self.executed
        """What the primary executed, at its end."""
        self.base_position = -1
        """Up to here the new cluster's log is the former one's."""
        self.asked_ns = 0
        """When clients began to ask the new cluster."""
        self.served: set[bytes] = set()
        """The identities of clusters of standby nodes that have had a leader."""

    def make_standby(self, member_id: int) -> SimulatedStandby:
        return OneOfSeveral(self, member_id)

    def _find(self, member_id: int) -> OneOfSeveral | None:
        return next((one for one in self.standbys if one.member_id == member_id), None)

    def on_changed(self, actor: Actor) -> None:
        if actor not in self.standbys:
            super(StandbyWorld, self).on_changed(actor)
            return
        if isinstance(actor, OneOfSeveral) and actor.is_promoted and actor.serves:
            self.served.add(actor.identity)
            if len(self.served) > 1:
                self.fail("two clusters of standby nodes have served")
        if self.new_epoch is not None and actor in self.new_epoch.members and actor.is_promoted:
            super(StandbyWorld, self).on_changed(actor)

    def on_moved(self, actor: Actor) -> None:
        if actor not in self.standbys or (
            self.new_epoch is not None and isinstance(actor, OneOfSeveral) and actor.is_promoted
        ):
            super(StandbyWorld, self).on_moved(actor)

    def on_booted(self, node: SimulatedNode) -> None:
        if node not in self.standbys:
            super(StandbyWorld, self).on_booted(node)

    def note_end(self, node: SimulatedNode) -> None:
        if node not in self.standbys:
            super(StandbyWorld, self).note_end(node)

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        standby = self._find(member_id)
        if standby is None:
            super().on_executed(member_id, position, digest, text, wrong)
            return
        if wrong:
            self.fail(f"{standby.name} at position {position}: {wrong}")
        record = Executed(position, digest, text)
        if self.new_epoch is not None:
            self.new_epoch.on_executed(standby, record)
        elif position > self.committed_position:
            self.fail(f"{standby.name} executed position {position}, which nobody has committed")
        else:
            self._copied.append(record)

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        if self._find(member_id) is None:
            super().on_numbered(member_id, position, sequence)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        standby = self._find(member_id)
        if standby is None:
            super().on_started(member_id, position, digest)
        elif self.new_epoch is not None:
            self.new_epoch.on_service_started(standby, position, digest)

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        if self._find(member_id) is None:
            super().on_snapshot(member_id, position, digest)

    def serving(self) -> OneOfSeveral | None:
        """The standby node that leads the new cluster."""
        found = [one for one in self.standbys if one.is_promoted and one.serves]
        return max(found, key=lambda one: one.leads_term, default=None)


def run_standbys(
    seed: int, options: Options, *, is_one_behind: bool = False, is_founder_lost: bool = False
) -> StandbysWorld:
    """Run one seed to its end. Raises Violation.

    `is_one_behind`: one node certainly has less, and can be reached. `is_founder_lost`: the one that was promoted is,
    after it was started.
    """
    world = StandbysWorld(seed, options)
    random = world.random.stream("standbys")
    try:
        with mock.patch.object(settings, "_response_channel", lambda _: f"aeron:udp?endpoint={world.asking.address}:0"):
            _follow(world, random)
            _end_primary(world, random, is_one_behind)
            founder = _promote(world, random)
            if is_founder_lost or (random.random() < 0.4 and not is_one_behind):
                founder = _lose_founder(world, founder, random, is_founder_lost)
            _gather(world, random)
            _serve(world, random)
        return world
    finally:
        for one in world.standbys:
            one.release()
        world.forget()


def _follow(world: StandbysWorld, random: Random) -> None:
    """Members and standby nodes are killed, one at a time, while clients work."""
    world.start()
    for one in world.standbys:
        one.prepare()
        one.boot()
    for _ in range(random.randrange(2, 5)):
        world.run(random.randrange(PAUSE_NS_MAX))
        victim = random.choice([*world.nodes, *world.standbys])
        if victim.is_alive:
            victim.kill()
            world.count_fault("killed while it is followed")
        world.run(random.randrange(PAUSE_NS_MAX))
        if not victim.is_alive:
            victim.boot()
    if not world.run(LIMIT_NS, lambda: all(one.is_alive and one.executed_position > 0 for one in world.standbys)):
        raise Violation(f"the standby nodes do not follow: {world.describe()}")


def _end_primary(world: StandbysWorld, random: Random, is_one_behind: bool) -> None:
    """One standby node may be killed some time before: it is behind."""
    victim = random.choice(world.standbys) if random.random() < 0.7 or is_one_behind else None
    if victim is not None:
        victim.kill()
        world.count_fault("a standby node is behind")
    world.run(random.randrange(PAUSE_NS_MAX) + (PAUSE_NS_MAX if is_one_behind else 0))
    for node in world.nodes:
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()
    world.check_copied()
    if victim is not None and (random.random() < 0.7 or is_one_behind):
        victim.boot()
    world.run(random.randrange(PAUSE_NS_MAX))


def _promote(world: StandbysWorld, random: Random) -> OneOfSeveral:
    """As `ordo standby promote` does it, killed anywhere and given again; return the one that was promoted."""
    reachable = [one for one in world.standbys if one.is_alive]
    assert len(reachable) >= 2, "most of the nodes can be reached, or it is refused"
    standings = [Standing(one.member_id, one.name, one.append_position, "") for one in reachable]
    allowed = [
        one
        for one, own in zip(reachable, standings, strict=True)
        if not find_refusal(own, [other for other in standings if other is not own], STANDBYS)
    ]
    founder = random.choice(allowed)
    world.count_fault("promoted")
    founder.kill()
    while True:
        if random.random() < 0.6:
            founder.disk.transactions_until_loss = random.randrange(TRANSACTIONS_MAX)
            founder.disk.loss_follows_commit = random.random() < 0.5
        try:
            _found(world, founder)
        except PowerLoss:
            founder.disk.kill()
            world.count_fault("killed while it is promoted")
        founder.disk.heal()
        if b"standby" not in founder.stored_rows:
            break
    founder.is_promoted = True
    return founder


def _found(world: StandbysWorld, founder: OneOfSeveral) -> None:
    findings = examine(founder.config, storage_of(founder))
    own_id = founder.member_id
    others = [one for one in founder.config.member_list if one.id != own_id]
    draw, clock = world.random.stream(f"promotion {own_id}").randbytes(16), VirtualClock(world.now_ns)
    base_position = findings.holding.end_position
    go_on_alone(
        founder.config,
        findings,
        {},
        storage=storage_of(founder),
        clock=clock,
        draw=draw,
        others=others,
        tell=lambda _: _begin(world, founder, base_position),
    )


def _begin(world: StandbysWorld, founder: OneOfSeveral, base_position: int) -> None:
    """What all standby nodes execute from now on is one log, of which this much is the former cluster's."""
    if world.new_epoch is None:
        world.former = world.executed
    world.executed = world.former  # of a promotion that is given up nobody has executed anything
    world.new_epoch = NewEpochContinues(world, base_position)
    world.begin_epoch(world.new_epoch, base_position)
    world.base_position = base_position
    for one in world.standbys:
        if one.is_alive:
            world.new_epoch.on_service_started(one, one.executed_position, "")
        at = base_position if one is founder else one.append_position if one.is_alive else one.end_position()
        if at <= base_position:
            world.new_epoch.members.append(one)
        elif not one.is_alive:
            one.has_disk_faults = True  # it was not reached, and has more: it may end
            world.count_fault("one that was not reached has more")


def _lose_founder(world: StandbysWorld, former: OneOfSeveral, random: Random, is_started: bool) -> OneOfSeveral:
    """The one that was promoted is gone, perhaps for good, before or after another has taken its log."""
    if random.random() < 0.5 or is_started:
        former.boot()
        world.run(random.randrange(PAUSE_NS_MAX) + (S if is_started else 0))
        if former.is_alive:
            former.kill()
    world.count_fault("the promoted one is lost")
    others = [one for one in world.standbys if one is not former]
    for one in others:
        if not one.is_alive:
            one.boot()
    if any(one.is_voter for one in others):
        return former  # they go on without it
    world.run(random.randrange(PAUSE_NS_MAX))
    have_joined = any(one.is_voter or one.identity == former.identity for one in others)
    if have_joined or not all(one.is_alive for one in others):
        return former
    founder = _promote(world, random)
    former.is_lost = former.has_disk_faults = True  # it may end
    assert world.new_epoch is not None
    world.new_epoch.members[:] = [one for one in world.new_epoch.members if one is not former]
    world.count_fault("promoted twice")
    return founder


def _gather(world: StandbysWorld, random: Random) -> None:
    """The others join, whatever is killed, until there is a leader and most have what it has."""
    faults, deadline_ns = random.randrange(5), world.now_ns + LIMIT_NS
    while world.now_ns < deadline_ns:
        if faults and random.random() < 0.15:
            faults -= 1
            victim = random.choice(world.standbys)
            if victim.is_alive:
                victim.kill()
                world.count_fault("killed while they gather")
        _join(world, random)
        world.run(random.randrange(STEP_NS))
        for one in world.standbys:
            if not one.is_alive and not one.is_lost and random.random() < 0.3:
                one.boot()
        if not faults and _is_whole(world):
            return
    raise Violation(f"the standby nodes become no cluster: {world.describe()}")


def _join(world: StandbysWorld, random: Random) -> None:
    """As the processes do that have the whole log of the cluster that names them."""
    for one in world.standbys:
        if not one.is_voter:
            continue
        if one.is_alive:
            one.kill()
        if random.random() < 0.3:
            one.disk.transactions_until_loss, one.disk.loss_follows_commit = 0, random.random() < 0.5
        try:
            with_log = join_epoch(one.config, examine(one.config, storage_of(one)), storage_of(one))
            if not with_log:
                raise Violation(f"{one.name} has the log of a cluster that does not name it")
        except PowerLoss:
            one.disk.kill()
            world.count_fault("killed while it joins")
        one.disk.heal()
        one.made = None
        one.is_promoted = b"standby" not in one.stored_rows
        one.boot()


def _is_whole(world: StandbysWorld) -> bool:
    """Whether a leader serves, and all that can take part have executed what it has."""
    leader = world.serving()
    if leader is None:
        return False
    able = [one for one in world.standbys if not one.has_disk_faults]
    position = leader.commit_position
    return len(able) >= 2 and all(
        one.is_alive and one.is_promoted and one.executed_position >= position for one in able
    )


def _serve(world: StandbysWorld, random: Random) -> None:
    """The leader dies under load, and the others go on; nodes that come back change nothing."""
    for one in world.standbys:
        if one.is_lost:
            one.boot()
    leader = world.serving()
    assert leader is not None
    _ask(world)
    world.run(random.randrange(PAUSE_NS_MAX) + PAUSE_NS_MAX)
    identity = leader.identity
    if leader.is_alive:
        leader.kill()
    able = [one for one in world.standbys if not one.has_disk_faults and one is not leader]
    if len(able) < 2:
        leader.boot()
    if not world.run(LIMIT_NS, lambda: world.serving() is not None):
        raise Violation(f"nobody goes on for a leader that died: {world.describe()}")
    world.run(PAUSE_NS_MAX)
    for client in world.clients:
        client.crash()
    if not leader.is_alive:
        leader.boot()
    if not world.run(LIMIT_NS, lambda: _is_whole(world)):
        raise Violation(f"the leader that died does not come back: {world.describe()}")
    if {one.identity for one in world.standbys if not one.has_disk_faults} != {identity}:
        raise Violation("the standby nodes are of two clusters")
    _check_kept(world)
    _return(world)


def _return(world: StandbysWorld) -> None:
    """Former members that come back change nothing."""
    for node in world.nodes:
        node.boot()
    world.run(2 * S)
    if world.serving() is None or not _is_whole(world):
        raise Violation("the new cluster was disturbed by former members")


def _ask(world: StandbysWorld) -> None:
    """Clients ask the new cluster, while the former one is gone, also what that executed behind the new beginning."""
    world.asked_ns = world.now_ns
    executed = world.clients_history.executed
    for key in [key for key, position in executed.items() if position > world.base_position]:
        del executed[key]
    for client in world.clients:
        client.more_endpoints = [f"{one.address}:{PORT}" for one in world.standbys]
        client.boot()


def _check_kept(world: StandbysWorld) -> None:
    """What the new cluster has acknowledged is in the one log that its nodes have executed. Raises Violation."""
    history, kept = world.clients_history, {one.position for one in world.executed.records}
    told = {key: history.executed[key] for key, when_ns in history.acknowledged.items() if when_ns > world.asked_ns}
    if not told:
        raise Violation("the new cluster has answered nobody")
    if lost := [position for position in told.values() if position not in kept]:
        raise Violation(f"acknowledged by the new cluster, and lost: what was executed at {lost}")

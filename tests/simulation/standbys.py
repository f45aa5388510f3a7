"""Three standbys of one primary, which ends or lives on while operators promote; any of them is killed, or lost.

Of the standbys that hold for a candidate when it is promoted none may have more than it has, and all that are left
follow it. Without a word of an operator that the promoted one is lost, no other one is promoted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.module.state.folder_rows import Hold
from ordo.cluster.node.node import Node, NodeSeams
from ordo.cluster.settings.sections import StandbySection
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.holdings import examine
from ordo.salvage.new_epoch import go_on_alone
from ordo.standby.feed import Primary
from ordo.standby.holds import NOBODY, Order, Seen, find_refusal
from ordo.standby.node import Orders, PromotedNode, StandbyNode
from tests.simulation.damage import storage_of
from tests.simulation.history import Violation
from tests.simulation.nodes import PORT, SimulatedNode, node_address
from tests.simulation.standby import LIMIT_NS, MS, PAUSE_NS_MAX, S, SimulatedStandby
from tests.simulation.storage import PowerLoss
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ordo.cluster.container.versions import ServiceVersions
    from ordo.service_api.service import Service
    from tests.simulation.options import Options
    from tests.simulation.timeline import Actor

STANDBYS = 3
TERM = b"term/"
STEP_NS = 300 * MS
FAULTS_MAX = 8
PATIENCE_NS_MAX = 4 * S
OPERATORS_LIMIT_NS = 300 * S


class OneOfSeveral(SimulatedStandby):
    """One of three standbys; `is_promoted`: its folder is that of a cluster of its own."""

    world: StandbysWorld

    def __init__(self, world: StandbysWorld, member_id: int) -> None:
        super().__init__(world, member_id)  # type: ignore[arg-type]
        first = world.options.nodes + world.options.spares
        named = [
            StandbySection(id=one, ingress=f"{node_address(one)}:{PORT}") for one in range(first, first + STANDBYS)
        ]
        self.config = self.config.model_copy(update={"standbys": named})
        self.made: StandbyNode | None = None
        self.candidacy: Order | None = None
        """The file hold.json of its folder."""
        self.is_ordered = False
        """The file promote.json of its folder."""
        self.is_lost = False
        self.texts: dict[int, str] = {}
        """What it has executed since it was started."""

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        self.made = None
        if self.is_promoted:
            return PromotedNode(self.config, seams, services)
        primary = Primary(self._addresses, report=lambda text: self.world.note(f"{self.name}: {text}"))
        orders = Orders(candidacy=lambda: self.candidacy)
        self.made = AskingNode(self.config, seams, services, primary=primary, orders=orders)
        self.made.asker = self
        return self.made

    @property
    def hold(self) -> Hold | None:
        """Whom it holds for, as its disk has it."""
        row = self.stored_rows.get(b"hold")
        return None if row is None else Hold(int.from_bytes(row[:8]), int.from_bytes(row[8:]))

    def end_position(self) -> int:
        """Where its log ends."""
        if self.made is not None and self.is_alive:
            log = self.made.module.log
            recording = self.made.archive.recording(log.recording_id)
            return int(log.copied_position if recording is None else recording.written_position)
        with self.readable_disk():
            return examine(self.config, storage_of(self)).holding.end_position

    @property
    def last_term_id(self) -> int:
        """The newest term of its log that its store has."""
        return max((int.from_bytes(key[len(TERM) :]) for key in self.stored_rows if key.startswith(TERM)), default=-1)

    def look(self) -> Seen | None:
        """What it answers, if it does."""
        if not self.is_alive:
            return None
        if self.is_promoted:
            return Seen(self.member_id, is_standby=False)
        return None if self.made is None or self.made.feed is None else self.made.describe_seen()


class AskingNode(StandbyNode):
    """What asks in its duty cycle is answered at its own address."""

    asker: OneOfSeveral

    def _on_tick(self, now_ns: int) -> None:
        self.asker.world.asking = self.asker
        super()._on_tick(now_ns)


class StandbysWorld(World):
    """A world whose invariants are about the primary; of the standbys `check` says what must be so."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        first = options.nodes + options.spares
        self.standbys = [OneOfSeveral(self, one) for one in range(first, first + STANDBYS)]
        self.actors.extend(self.standbys)
        self.asking: SimulatedNode = self.standbys[0]
        self.promoted: list[OneOfSeveral] = []
        self.counted: list[OneOfSeveral] = []
        """The standbys that held for the one that was promoted last."""
        self.base_position = -1
        """Behind it the log of the one that was promoted last is its own."""

    def find(self, member_id: int) -> OneOfSeveral | None:
        return next((one for one in self.standbys if one.member_id == member_id), None)

    def on_changed(self, actor: Actor) -> None:
        if actor not in self.standbys:
            super().on_changed(actor)

    def on_moved(self, actor: Actor) -> None:
        if actor not in self.standbys:
            super().on_moved(actor)

    def on_booted(self, node: SimulatedNode) -> None:
        if node not in self.standbys:
            super().on_booted(node)

    def note_end(self, node: SimulatedNode) -> None:
        if node not in self.standbys:
            super().note_end(node)

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        standby = self.find(member_id)
        if standby is None:
            super().on_executed(member_id, position, digest, text, wrong)
            return
        if wrong:
            self.fail(f"{standby.name} at position {position}: {wrong}")
        if position > self.committed_position and not self.promoted:
            self.fail(f"{standby.name} executed position {position}, which nobody has committed")
        standby.texts[position] = f"{digest} {text}"

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        if self.find(member_id) is None:
            super().on_numbered(member_id, position, sequence)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        standby = self.find(member_id)
        if standby is None:
            super().on_started(member_id, position, digest)
        else:
            standby.texts.clear()

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        if self.find(member_id) is None:
            super().on_snapshot(member_id, position, digest)


@dataclass(eq=False)
class Operator:
    """Gives `ordo standby promote` for one standby after the other, until one is promoted; may be killed anywhere."""

    world: StandbysWorld
    random: Random
    instead_of: int = NOBODY
    target: OneOfSeveral | None = None
    deadline_ns: int = 0
    refused: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Do the next thing that the command does."""
        if self.target is None:
            self._begin()
        elif not self.target.is_alive or self.target.is_promoted:
            self.target = None  # the command ends, and leaves what it has written
        elif self.random.random() < 0.05:
            self.target = None
            self.world.count_fault("the command is killed")
        else:
            self._ask(self.target)

    def _begin(self) -> None:
        able = [one for one in self.world.standbys if one.is_alive and not one.is_promoted]
        if not able:
            return
        self.target = target = self.random.choice(able)
        self.deadline_ns = self.world.now_ns + self.random.randrange(S, PATIENCE_NS_MAX)
        promotion = self.random.getrandbits(62) if target.candidacy is None else target.candidacy.promotion
        target.candidacy = Order(promotion, self.instead_of)

    def _ask(self, target: OneOfSeveral) -> None:
        own, order = target.look(), target.candidacy
        if own is None or order is None or own.position < 0 or own.promotion != order.promotion:
            refusal, seen = "not yet", []
        else:
            looks = [one.look() for one in self.world.standbys if one is not target and self.random.random() < 0.9]
            seen = [one for one in looks if one is not None]
            refusal = find_refusal(own, seen, STANDBYS)
        if not refusal and own is not None and (self.random.random() < 0.3 or all(one.holds_for(own) for one in seen)):
            counted = [self.world.find(one.member_id) for one in seen if one.holds_for(own)]
            self.target = None
            _promote(self.world, target, [one for one in counted if one is not None], self)
        elif self.world.now_ns > self.deadline_ns:
            self.refused.append(refusal)
            target.candidacy = self.target = None


def run_standbys(seed: int, options: Options, *, lives_on: bool | None = None) -> StandbysWorld:
    """Run one seed to its end. Raises Violation. `lives_on`: the primary does; None: the seed says it."""
    world = StandbysWorld(seed, options)
    random = world.random.stream("standbys")
    try:
        with mock.patch.object(settings, "_response_channel", lambda _: f"aeron:udp?endpoint={world.asking.address}:0"):
            _follow(world, random)
            if not (random.random() < 0.6 if lives_on is None else lives_on):
                _end_primary(world)
            _order(world, random, NOBODY)
            _settle(world)
            if random.random() < 0.5:
                _lose_promoted(world, random)
        return world
    finally:
        for one in world.standbys:
            one.release()
        world.forget()


def _follow(world: StandbysWorld, random: Random) -> None:
    """Members and standbys are killed, one at a time, while clients work."""
    world.start()
    for one in world.standbys:
        one.prepare()
        one.boot()
    for _ in range(random.randrange(1, 4)):
        world.run(random.randrange(PAUSE_NS_MAX))
        victim = random.choice([*world.nodes, *world.standbys])
        if victim.is_alive:
            victim.kill()
        world.run(random.randrange(PAUSE_NS_MAX))
        if not victim.is_alive:
            victim.boot()
    if not world.run(LIMIT_NS, lambda: all(one.is_alive and one.executed_position > 0 for one in world.standbys)):
        raise Violation(f"the standbys do not follow: {world.describe()}")


def _end_primary(world: StandbysWorld) -> None:
    for node in world.nodes:
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()


def _order(world: StandbysWorld, random: Random, instead_of: int) -> None:
    """One or two operators order promotions, whatever is killed or lost meanwhile, until one has come about."""
    operators = [Operator(world, random, instead_of) for _ in range(random.randrange(1, 3))]
    before, faults, deadline_ns = len(world.promoted), random.randrange(FAULTS_MAX), world.now_ns + OPERATORS_LIMIT_NS
    if random.random() < 0.3 and not any(one.is_lost for one in world.standbys):
        _lose(world, random.choice(world.standbys))
    while len(world.promoted) == before:
        if world.now_ns > deadline_ns:
            refused = "; ".join({one for operator in operators for one in operator.refused})
            raise Violation(f"nobody is promoted: {refused}: {world.describe()}")
        if faults and random.random() < 0.2:
            faults -= 1
            _disturb(world, random.choice(world.standbys), random)
        for one in operators:
            one.step()
        world.run(random.randrange(STEP_NS))
        _boot(world, random, 0.3)
    for _ in range(random.randrange(10)):  # the other operator knows nothing of it
        for one in operators:
            one.step()
        world.run(random.randrange(STEP_NS))
        _boot(world, random, 0.3)
    for standby in world.standbys:
        standby.candidacy = None  # what is left is taken back


def _disturb(world: StandbysWorld, victim: OneOfSeveral, random: Random) -> None:
    """Kill one, now or when it writes next."""
    if not victim.is_alive:
        return
    if random.random() < 0.5:
        victim.kill()
        world.count_fault("killed in a promotion")
    else:
        victim.disk.transactions_until_loss = random.randrange(2)
        victim.disk.loss_follows_commit = random.random() < 0.5
        world.count_fault("power is lost with a transaction")


def _boot(world: StandbysWorld, random: Random, chance: float) -> None:
    for one in world.standbys:
        if not one.is_alive and not one.is_lost and random.random() < chance:
            one.disk.heal()
            one.boot()


def _lose(world: StandbysWorld, one: OneOfSeveral) -> None:
    if one.is_alive:
        one.kill()
    one.is_lost = True
    world.count_fault("lost for ever")


def _promote(world: StandbysWorld, chosen: OneOfSeveral, counted: list[OneOfSeveral], operator: Operator) -> None:
    """As the process does it with the order; it is killed anywhere, and goes on."""
    lost_ids = {one.member_id for one in world.standbys if one.is_lost}
    if any(one.member_id not in lost_ids for one in world.promoted):
        raise Violation(f"{chosen.name} is promoted beside {world.promoted[-1].name}")
    order = chosen.candidacy
    assert order is not None
    chosen.kill()
    chosen.disk.heal()
    if chosen.hold != Hold(order.promotion, chosen.member_id):
        raise Violation(f"{chosen.name} is promoted and does not hold for itself: {chosen.hold}")
    with chosen.readable_disk():
        term_id, position = examine(chosen.config, storage_of(chosen)).holding.rank
    for one in counted:
        if one.hold != Hold(order.promotion, chosen.member_id):
            raise Violation(f"{one.name} holds for {one.hold}, and was counted for {chosen.name}")
        if (has := one.end_position()) > position and one.last_term_id >= term_id:
            raise Violation(f"{one.name} has {has}, more than {chosen.name}, which is promoted behind {position}")
    _carry_out(world, chosen, operator.random)
    chosen.is_promoted, chosen.candidacy = True, None
    world.promoted.append(chosen)
    world.counted = [one for one in counted if one.end_position() <= position]  # or it has more of an earlier epoch
    world.base_position = position
    world.count_fault("promoted")


def _carry_out(world: StandbysWorld, chosen: OneOfSeveral, random: Random) -> None:
    while b"standby" in chosen.stored_rows:
        if random.random() < 0.5:
            chosen.disk.transactions_until_loss = random.randrange(6)
            chosen.disk.loss_follows_commit = random.random() < 0.5
        try:
            findings = examine(chosen.config, storage_of(chosen))
            draw, clock = random.randbytes(16), VirtualClock(world.now_ns)
            go_on_alone(chosen.config, findings, {}, storage=storage_of(chosen), clock=clock, draw=draw)
        except PowerLoss:
            chosen.disk.kill()
            world.count_fault("killed while it is promoted")
        chosen.disk.heal()


def _settle(world: StandbysWorld) -> None:
    """Without faults the promoted one serves, and the others follow it. Raises Violation."""
    chosen, random = world.promoted[-1], world.random.stream("settle")
    for one in world.standbys:
        one.disk.heal()
        one.has_disk_faults = one is not chosen and one not in world.counted  # it may have more, and end of it
    _boot(world, random, 1.0)
    if not world.run(LIMIT_NS, lambda: chosen.serves and chosen.executed_position > world.base_position):
        raise Violation(f"the promoted standby does not serve: {world.describe()}")
    followers = [one for one in world.counted if not one.is_lost]

    def follow() -> bool:
        _boot(world, random, 1.0)
        return all(one.is_alive and one.executed_position >= chosen.executed_position for one in followers)

    if not world.run(LIMIT_NS, follow):
        raise Violation(f"one that held does not follow the promoted one: {world.describe()}")
    for one in followers:
        for position in one.texts.keys() & chosen.texts.keys():
            if one.texts[position] != chosen.texts[position]:
                raise Violation(f"{one.name} executed {one.texts[position]!r} at {position}")


def _lose_promoted(world: StandbysWorld, random: Random) -> None:
    """The promoted one is lost for ever, which an operator says: another one goes on, and has what it has copied."""
    if any(one.is_lost for one in world.standbys):
        return  # two of three are left for nobody
    chosen = world.promoted[-1]
    able = [one for one in world.standbys if one.is_alive]
    if len(able) < STANDBYS or not all(one.executed_position > world.base_position for one in able):
        return  # one of them had more, and ends
    _lose(world, chosen)
    world.run(random.randrange(S))
    _order(world, random, chosen.member_id)
    _settle(world)

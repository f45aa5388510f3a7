"""After all else: a term is led twice, as most members get copies of their volumes from before they voted in it.

No protocol can bear it: one member leads a term, and something is committed in it; the others come back as they were
before they had voted, and elect another one of them in that term. Tables of terms do not tell the two logs apart. What
must hold all the same: who leads or follows has one log with the others, and the first leader, which knows what was
committed, never follows a log without it. It ends with one line, at whatever term the others have come to.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import transfer_value
from tests.simulation.damage import stored_distrust
from tests.simulation.history import Violation
from tests.simulation.invariants.base import Invariant
from tests.simulation.invariants.logs import LogCopy
from tests.simulation.lost_majority import LAST_WORDS

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

MS = 1_000_000
ELECTION_NS_MAX = 800 * MS
"""A standing is told once a second: whoever knows of more refuses the others, and no term is led twice."""
COMMIT_NS_MAX = 200 * MS
ALONE_NS_MAX = 8_000 * MS
TOGETHER_NS = 4_000 * MS
LATER_TERMS_MAX = 2
STILL_NS = 60 * MS


class LogsAreOne(Invariant):
    """Members that lead or follow in one term, and are live, have one log."""

    name = "logs are one"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._logs = [LogCopy(node, {}) for node in world.nodes]

    def on_step(self, node: SimulatedNode) -> None:
        self._logs[node.member_id].note_end(node.append_position)

    def on_checkpoint(self) -> None:
        alive = [node for node in self.world.nodes if node.is_alive]
        for node in alive:
            self._logs[node.member_id].refresh()
        for leader in (node for node in alive if node.module.core.is_serving):
            for node in alive:
                core, led = node.module.core, leader.module.core
                session = led.leadership_term_id, led.log_session_id
                if node is not leader and (core.leadership_term_id, core.log_session_id) == session and is_live(node):
                    self._compare(leader, node)

    def _compare(self, leader: SimulatedNode, node: SimulatedNode) -> None:
        theirs, own = self._logs[leader.member_id], self._logs[node.member_id]
        index = bisect_right(own.positions, theirs.positions[-1] if theirs.positions else 0) - 1
        if index < 0 or own.positions[index] <= max(theirs.start_position, own.start_position):
            return
        position, chain = own.positions[index], own.entries[index].chain
        if not theirs.ends_at(position) or (chain is not None and theirs.chain_at(position) not in (None, chain)):
            self.fail(f"{node.name} follows {leader.name}, and its log is another one at {position} or before")


def is_live(node: SimulatedNode) -> bool:
    """Whether a member follows, and acknowledges what it has."""
    return node.is_alive and node.module.core.is_bound_to(
        node.module.core.leadership_term_id, node.module.core.leader_member_id
    )


def lead_twice(world: World) -> None:
    """Lets a term of a healthy cluster be led twice. Raises Violation where the two logs are taken for one."""
    former = world.leader()
    voters = [] if former is None else [world.nodes[one] for one in former.module.core.configuration.voter_ids]
    if former is None or len(voters) < 3 or any(not one.is_alive or stored_distrust(one) for one in voters):
        return
    random, members = world.random.stream("led twice"), world.members()
    images = {one.member_id: one.disk.image() for one in members}
    for client in world.clients:
        client.is_working = True
    first = _elect_another(world, former)
    if first is None:
        return
    term_id = first.leads_term
    begin = first.module.core.progress.first_record_end
    world.run(random.randrange(COMMIT_NS_MAX), lambda: first.is_alive and first.commit_position > begin)
    for client in world.clients:
        client.crash()
    for consumer in world.consumers:  # they have heard what most members are about to forget
        consumer.kill()
    for reader in world.readers:
        if reader.is_alive:
            reader.kill()
    if not first.serves or first.leads_term != term_id:
        return
    end_position = first.append_position
    world.watch_only(LogsAreOne(world))
    for one in world.nodes:
        one.has_disk_faults = True  # it may end
        if one.is_alive:
            one.kill()
    for one in members:
        if one is first:
            continue
        one.disk.restore(images[one.member_id])
        one.boot()
    world.count_fault("most members forget an election")
    world.note(f"all but {first.name}, which led term {term_id}, get copies of their volumes from before it")
    is_led_twice = _lead_again(world, random, term_id, end_position)
    if not first.is_alive:  # a fault from before may have had it started already
        first.boot()
    world.run(TOGETHER_NS)
    if is_led_twice:
        _judge(world, first, term_id)


def _elect_another(world: World, former: SimulatedNode) -> SimulatedNode | None:
    """By a transfer, so that no member starts again: the others would know of its newer start."""
    if not former.ask(transfer_value(None)):
        return None

    def is_done() -> bool:
        leader = world.leader()
        return leader is not None and leader is not former

    return world.leader() if world.run(ELECTION_NS_MAX, is_done) else None


def _lead_again(world: World, random: Random, term_id: int, end_position: int) -> bool:
    """Whether the others have led the term, too. They go on until their log is longer than the first one's, and often
    in later terms: then the leader's term tells nothing of who led the one before."""
    if not world.run(ALONE_NS_MAX, lambda: world.leader() is not None):
        return False
    leader = world.leader()
    assert leader is not None
    is_led_twice = leader.leads_term == term_id
    if is_led_twice:
        world.count_fault("a term is led twice")
        _write(world, end_position)
    for _ in range(random.randrange(LATER_TERMS_MAX + 1)):
        leader = world.leader()
        if leader is not None:
            leader.kill()
            world.run(STILL_NS)
            leader.boot()
            world.run(ALONE_NS_MAX, lambda: world.leader() is not None)
    return is_led_twice


def _write(world: World, end_position: int) -> None:
    """Clients go on, whose requests are judged by nothing but the log."""
    options = world.options
    if options.requests or options.tracks:
        return
    options.query_mean_ns = 0
    for client in world.clients:
        client.is_working = True
        client.boot()

    def is_longer() -> bool:
        leader = world.leader()
        return leader is not None and leader.commit_position > end_position

    world.run(ALONE_NS_MAX, is_longer)
    for client in world.clients:
        client.crash()


def _judge(world: World, first: SimulatedNode, term_id: int) -> None:
    if first.is_alive:
        if is_live(first):
            raise Violation(f"{first.name} led term {term_id}, and follows a log in which another member led it")
        return
    said = next((one for one in reversed(world.trace.events) if f"{first.name} died" in one), "")
    if not any(words in said for words in LAST_WORDS):
        raise Violation(f"{first.name}, which has led term {term_id} first, ended otherwise: {said}")
    world.count_fault("the first leader of a term ends")

"""After all else: most members are gone for good, and an operator goes on with what is left, as a new epoch.

The members that are left are stopped and compared and, as `ordo cluster recover` does, one of them becomes a cluster of
its own. What the former cluster answered and the new one does not have must be within what the operator was told.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.runtime.errors import StorageError
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.comparison import Comparison, compare, find_refusal
from ordo.salvage.holdings import Findings, examine
from ordo.salvage.new_epoch import Recovered, begin_epoch
from tests.simulation.damage import storage_of
from tests.simulation.feeds import find_unread
from tests.simulation.history import Violation
from tests.simulation.invariants.new_epoch_continues import NewEpochContinues

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
LAST_MOMENTS_NS_MAX = 400 * MS
ALONE_NS_MAX = 40 * S
TOGETHER_NS = 4 * S
CALLS_MAX = 40
"""Of names and metadata: within so many of them a recovery is over."""


def lose_for_good(world: World) -> None:
    """Take most disks away, go on with the rest, and check what the operator was told. Raises Violation."""
    leader = world.leader()
    voters = [] if leader is None else [world.nodes[one] for one in leader.module.core.configuration.voter_ids]
    if len(voters) < 2 or any(not one.is_alive for one in voters):
        return
    random = world.random.stream("lost for good")
    _last_moments(world, random)
    answered = {key: world.clients_history.executed[key] for key in world.clients_history.acknowledged}
    for node in world.nodes:
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()
    left = random.sample(voters, random.randint(1, len(voters) // 2))
    world.note(f"{[one.name for one in voters if one not in left]} are gone for good")
    found = {one.member_id: _examine(one) for one in left}
    comparison = compare([one.holding for one in found.values()])
    _check_told(comparison, answered)
    chosen = world.nodes[comparison.best.member_id]
    former = chosen.stored_rows.get(b"origin")
    recovered = _recover(world, chosen, found[chosen.member_id], comparison, random)
    chosen.disk.heal()
    if chosen.stored_rows.get(b"origin") == former:
        raise Violation(f"{chosen.name} cannot be told from the former cluster: it has the same identity")
    world.count_fault("recovered without a majority")
    _go_on(world, chosen, recovered, voters)


def _last_moments(world: World, random: Random) -> None:
    """Clients ask on, while one member after the other may be killed or cut off."""
    for client in world.clients:
        client.is_working = True
    for node in random.sample(world.nodes, random.randrange(len(world.nodes))):
        world.run(random.randrange(1, LAST_MOMENTS_NS_MAX))
        if node.is_alive:
            node.kill()
    world.run(random.randrange(1, LAST_MOMENTS_NS_MAX))


def _examine(node: SimulatedNode) -> Findings:
    node.disk.heal()
    with node.readable_disk():
        return examine(node.config, storage_of(node))


def _check_told(comparison: Comparison, answered: dict[tuple[int, int], int]) -> None:
    """What was answered and is not in the log that goes on lies in the told interval."""
    loss = comparison.loss
    newest = max(answered.values(), default=0)
    if newest > loss.from_position and loss.at_most_position is not None and newest > loss.at_most_position:
        raise Violation(f"position={newest} was answered; lost was told from {loss.from_position}, {loss}")


def _recover(
    world: World, node: SimulatedNode, findings: Findings, comparison: Comparison, random: Random
) -> Recovered:
    """As the command does it; sometimes it fails in the middle, and is given again."""
    if refusal := find_refusal(comparison, node.member_id):
        raise Violation(f"{node.name} may not go on: {refusal}")
    if random.random() < 0.5:
        node.disk.metadata_until_failure = random.randrange(1, CALLS_MAX)
        try:
            return _begin(world, node, findings, comparison, random)
        except StorageError as error:
            world.note(f"the recovery of {node.name} failed: {error}")
            world.count_fault("recovery failed in the middle")
        node.disk.heal()
        _demand_refused_start(world, node)
        findings = _examine(node)
        comparison = compare(
            [findings.holding, *(one for one in comparison.holdings if one.member_id != node.member_id)]
        )
    return _begin(world, node, findings, comparison, random)


def _begin(world: World, node: SimulatedNode, findings: Findings, comparison: Comparison, random: Random) -> Recovered:
    clock, draw = VirtualClock(world.now_ns), random.randbytes(16)
    return begin_epoch(node.config, findings, comparison, storage=storage_of(node), clock=clock, draw=draw)


def _demand_refused_start(world: World, node: SimulatedNode) -> None:
    """A member whose recovery did not come to its end does not start."""
    if b"recovering" not in node.stored_rows:
        return
    node.has_disk_faults = True  # it may end
    node.boot()
    node.has_disk_faults = False
    if node.is_alive:
        raise Violation(f"{node.name} started in the middle of its recovery")
    node.disk.heal()
    world.count_fault("start refused in the middle of a recovery")


def _go_on(world: World, chosen: SimulatedNode, recovered: Recovered, voters: list[SimulatedNode]) -> None:
    """The new epoch serves alone, gets a member, and former members that come back change nothing."""
    invariant = NewEpochContinues(world, recovered.from_position)
    invariant.members.append(chosen)
    world.begin_epoch(invariant, recovered.from_position)
    for one in world.nodes:
        one.has_disk_faults = one is not chosen  # it may end: what it knows to be committed it does not give up
    chosen.boot()
    if not world.run(ALONE_NS_MAX, lambda: chosen.serves):
        raise Violation(f"{chosen.name} does not serve alone: {world.describe()}")
    if world.options.requests == "":
        _demand_answers(world, recovered)
    _add_member(world, invariant, voters)
    for one in voters:
        if one is not chosen and not one.is_alive:
            one.disk.heal()
            one.boot()
    identity = chosen.stored_rows[b"origin"]
    world.run(TOGETHER_NS)
    if not world.run(ALONE_NS_MAX, lambda: chosen.serves) or chosen.stored_rows[b"origin"] != identity:
        raise Violation(f"{chosen.name} was disturbed by former members: {world.describe()}")
    if any(one.member_id in chosen.module.core.configuration.voter_ids for one in voters if one is not chosen):
        raise Violation(f"{chosen.name} has a former member among its voters")
    _finish_readers(world)


def _finish_readers(world: World) -> None:
    """As in `finish_readers`: what is deleted everywhere is waited for until members that may have it are given up."""
    if not world.run(ALONE_NS_MAX // 2, lambda: not _find_unread(world)):
        for reader in world.readers:
            if world.executed in reader.logs:
                reader.forget_the_dead()
    if not world.run(ALONE_NS_MAX, lambda: not _find_unread(world)):
        raise Violation(f"{_find_unread(world)}: {world.describe()}")


def _find_unread(world: World) -> str:
    """Readers that go on with the new epoch and do not have all of it, and those with more that are not told so."""
    going_on = [one for one in world.readers if world.executed in one.logs]
    untold = [one.name for one in world.readers if one.is_alive and one not in going_on]
    return find_unread(going_on) or (f"{untold} are not told that it is another cluster" if untold else "")


def _demand_answers(world: World, recovered: Recovered) -> None:
    """Every client is answered by the new epoch, which executes what is lost to the former one anew."""
    history = world.clients_history
    for key, position in list(history.executed.items()):
        if position > recovered.from_position:
            del history.executed[key]
    world.options.query_mean_ns = 0  # answers are judged by the former cluster's states
    before = {}
    for client in world.clients:
        before[client.client_id] = client.number
        client.is_working = True
        client.boot()

    def are_answered() -> bool:
        return all(client.answered_last > before[client.client_id] for client in world.clients)

    if not world.run(ALONE_NS_MAX, are_answered):
        raise Violation(f"the new epoch does not answer: {world.describe()}")
    for client in world.clients:
        client.crash()


def _add_member(world: World, invariant: NewEpochContinues, voters: list[SimulatedNode]) -> None:
    """A member with an empty folder, which was no voter before, gets all of the new epoch's log."""
    (chosen,) = invariant.members
    spares = [one for one in world.nodes[world.options.nodes :] if one not in voters]
    if not spares:
        return
    spare = spares[0]
    if spare.is_alive:
        spare.kill()
    spare.disk.wipe()
    spare.has_disk_faults = False
    invariant.members.append(spare)
    change, member = MembershipChange.ADD_LEARNER, spare.config.own_member.encode()
    request = SimpleNamespace(correlation_id=0, member_id=spare.member_id, change=change, member=member)
    refused = chosen.module.membership.on_request(request, chosen.clock.now())
    spare.boot()
    end_position = chosen.append_position

    def has_all() -> bool:
        return spare.is_alive and spare.executed_position >= end_position

    if not world.run(ALONE_NS_MAX, has_all):
        raise Violation(f"{spare.name} does not get the new epoch's log ({refused}): {world.describe()}")
    world.count_fault("member added to a new epoch")

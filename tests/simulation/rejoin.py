"""A former primary comes back as a standby of the one that was promoted, and the two change places once more.

The standby is killed some time before its primary, so that the primary has more. The operator's `ordo standby rejoin`
is ended anywhere, also by a loss of power, and given again. What it tells must be what the folder has and the new
cluster has not, record for record, and everything that was acknowledged and is lost must be in it; then the folder
follows, and executes what the new cluster executes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING
from unittest import mock

from ordo.archive.client import settings
from ordo.cluster.wire.log_identity import Origin
from ordo.runtime.errors import ClusterError, StorageError
from ordo.runtime.native.clock import VirtualClock
from ordo.salvage.holdings import Findings, Recordings, examine
from ordo.standby.divergence import Divergence, compare_with
from ordo.standby.rejoin import become_standby, settle
from ordo.standby.surplus import keep_surplus
from tests.simulation.damage import storage_of
from tests.simulation.history import Executed, Violation
from tests.simulation.nodes import PORT, SimulatedNode
from tests.simulation.options import Options
from tests.simulation.standby import LIMIT_NS, MS, PAUSE_NS_MAX, SimulatedStandby, StandbyWorld, promote
from tests.simulation.storage import PowerLoss

if TYPE_CHECKING:
    from random import Random

CALLS_MAX = 30
"""Within so many calls of one kind a rejoin is over."""
FAULTS = ("metadata_until_failure", "writes_until_failure", "syncs_until_failure", "transactions_until_loss")
FAULT_CHANCE = 0.7
ROUNDS = 2


class Returned(SimulatedStandby):
    """A node of a former primary with its folder, and a configuration that names it alone."""

    def __init__(self, world: StandbyWorld, former: SimulatedNode, primary: SimulatedNode) -> None:
        super().__init__(world, former.member_id)
        self.name = f"{former.name} returned {former.boots}"
        self.disk = former.disk
        self.disk.remembers = True
        self.follow(primary)


class RejoinWorld(StandbyWorld):
    """A world whose present epoch is executed by a primary, and by one that has come back to follow it."""

    def __init__(self, seed: int, options: Options) -> None:
        super().__init__(seed, options)
        self.pair: dict[int, SimulatedNode] = {}
        """The primary and its standby, once the first one was promoted, by member id."""

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        node = self.pair.get(member_id)
        if node is None or self.new_epoch is None:
            super().on_executed(member_id, position, digest, text, wrong)
            return
        if wrong:
            self.fail(f"{node.name} at position {position}: {wrong}")
        self.new_epoch.on_executed(node, Executed(position, digest, text))

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        node = self.pair.get(member_id)
        if node is None or self.new_epoch is None:
            super().on_started(member_id, position, digest)
        else:
            self.new_epoch.on_service_started(node, position, digest)

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        if member_id not in self.pair:
            super().on_snapshot(member_id, position, digest)


class LiveLog:
    """The log of a simulated primary, as its archive serves it."""

    def __init__(self, primary: SimulatedNode) -> None:
        self._primary = primary
        row = primary.stored_rows[b"origin"]
        self.origin = Origin(row[:16], int.from_bytes(row[16:], "big"))
        self._recordings = Recordings(storage_of(primary), primary.archive_folder)
        found = self._recordings.find(primary.log_recording_id)
        assert found is not None
        self.start_position = found.start_position

    def messages(self, position: int) -> Iterator[tuple[int, bytes]]:
        reader = self._recordings.reader(self._primary.log_recording_id, position)
        for message in reader.messages(self._primary.commit_position):
            yield message.position, message.payload


def run_rejoin(seed: int, options: Options) -> RejoinWorld:
    """Run one seed to its end. Raises Violation."""
    world, random = RejoinWorld(seed, options), None
    random = world.random.stream("rejoin")
    try:
        _follow(world, world.standby, random)
        primary, formers = world.standby, [*world.nodes]
        for number in range(ROUNDS):
            lost = _fail_over(world, primary, formers)
            standby = Returned(world, random.choice(formers), primary)
            world.actors.append(standby)
            _rejoin(world, primary, standby, lost if _has_most(standby, formers) else set(), random)
            if number + 1 < ROUNDS:
                _follow(world, standby, random, primary)
            primary, formers = standby, [primary]
        _run_to(world, standby, formers[0])
        return world
    finally:
        for node in world.pair.values():
            node.release()
        world.standby.release()
        world.forget()


def answered_at(node: SimulatedNode) -> mock._patch[object]:
    """Which of this machine's addresses answers come to is asked of the system."""
    return mock.patch.object(settings, "_response_channel", lambda _: f"aeron:udp?endpoint={node.address}:0")


def _follow(
    world: RejoinWorld, standby: SimulatedStandby, random: Random, primary: SimulatedNode | None = None
) -> None:
    """Clients ask the primary, and the standby follows; it dies first, and a while later everything else."""
    if primary is None:
        world.start()
        standby.prepare()
        standby.boot()
    with answered_at(standby):
        start = standby.started_position
        if not world.run(LIMIT_NS, lambda: standby.is_alive and standby.executed_position > start):
            raise Violation(f"the standby does not follow: {world.describe()}")
        if primary is not None:
            _run_to(world, standby, primary)
        world.run(random.randrange(PAUSE_NS_MAX))
    standby.kill()
    for node in random.sample(world.nodes, len(world.nodes)) if primary is None else [primary]:
        world.run(random.randrange(PAUSE_NS_MAX // 3))
        if node.is_alive:
            node.kill()
    for client in world.clients:
        client.crash()


def _run_to(world: RejoinWorld, standby: SimulatedNode, primary: SimulatedNode) -> None:
    """Have the standby execute what the primary has committed by now."""
    position = primary.commit_position
    if not world.run(LIMIT_NS, lambda: standby.is_alive and standby.executed_position >= position):
        raise Violation(f"{standby.name} does not follow up to {position}: {world.describe()}")


def _fail_over(world: RejoinWorld, standby: SimulatedStandby, formers: list[SimulatedNode]) -> set[int]:
    """Promote, and have the clients ask the new cluster; return where stands what was acknowledged and is lost."""
    made, history = promote(world, standby), world.clients_history
    world.pair = {standby.member_id: standby}
    behind = {key: position for key, position in history.executed.items() if position > made.from_position}
    lost = {position for key, position in behind.items() if key in history.acknowledged}
    for key in behind:
        del history.executed[key]
    standby.boot()
    if not world.run(LIMIT_NS, lambda: standby.serves and standby.executed_position >= standby.append_position > 0):
        raise Violation(f"{standby.name} does not serve: {world.describe()}")
    for client in world.clients:
        client.more_endpoints = [f"{standby.address}:{PORT}"]
        client.boot()
    world.run(400 * MS)
    return lost


def _has_most(chosen: SimulatedNode, formers: list[SimulatedNode]) -> bool:
    ranks = {one.member_id: look_into(one).holding.rank for one in formers}
    return ranks[chosen.member_id] == max(ranks.values())


def look_into(node: SimulatedNode) -> Findings:
    with node.readable_disk():
        return examine(node.config, storage_of(node))


# -- the operator ------------------------------------------------------------------------------------------------------


def _rejoin(world: RejoinWorld, primary: SimulatedNode, standby: Returned, lost: set[int], random: Random) -> None:
    """As `ordo standby rejoin` does it, until it has come to its end."""
    surplus, told = _find_surplus(primary, standby), None
    while b"standby" not in standby.stored_rows:
        if random.random() < FAULT_CHANCE:
            setattr(standby.disk, random.choice(FAULTS), random.randrange(CALLS_MAX))
            standby.disk.loss_follows_commit = random.random() < 0.5
        try:
            if b"rejoining" in standby.stored_rows:
                settle(standby.config, storage_of(standby), VirtualClock(world.now_ns))
            else:
                told = _compare(primary, standby)
                _check_told(told, surplus, lost)
                _carry_out(world, standby, told)
        except PowerLoss:
            standby.disk.crash()
            world.count_fault("power lost in a rejoin")
        except StorageError:
            standby.disk.kill()
            world.count_fault("a rejoin failed in the middle")
        standby.disk.heal()
        _demand_refused_start(world, standby)
    _check_kept(standby, told, surplus)
    world.pair[standby.member_id] = standby
    assert world.new_epoch is not None
    world.new_epoch.members.append(standby)
    standby.boot()
    world.count_fault("rejoined")
    with answered_at(standby):
        _run_to(world, standby, primary)


def _compare(primary: SimulatedNode, standby: Returned) -> Divergence:
    findings = examine(standby.config, storage_of(standby))
    try:
        return compare_with(findings, standby.archive_folder, storage_of(standby), LiveLog(primary))
    except ClusterError as error:
        raise Violation(f"{standby.name} is refused: {error}") from None


def _carry_out(world: RejoinWorld, standby: Returned, told: Divergence) -> None:
    storage, findings = storage_of(standby), examine(standby.config, storage_of(standby))
    assert findings.log is not None
    if told.records:
        keep_surplus(storage, str(standby.config.node.data_dir), standby.archive_folder, findings.log, told)
    clock = VirtualClock(world.now_ns)
    become_standby(standby.config, findings, told, {}, storage=storage, clock=clock)


def _find_surplus(primary: SimulatedNode, former: SimulatedNode) -> list[tuple[int, bytes]]:
    """What the folder has and the primary has not: both logs read from their beginning."""
    findings = look_into(former)
    assert findings.log is not None
    reader = Recordings(storage_of(former), former.archive_folder).reader(findings.log.recording_id, 0)
    own = [(one.position, one.payload) for one in reader.messages(findings.holding.end_position)]
    pairs = zip(own, LiveLog(primary).messages(0), strict=False)
    return own[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]


def _check_told(told: Divergence, surplus: list[tuple[int, bytes]], lost: set[int]) -> None:
    shown = [one.position for one in told.records]
    if shown != [position for position, _ in surplus]:
        raise Violation(f"told of {shown}, and the new cluster lacks {[position for position, _ in surplus]}")
    if untold := lost.difference(shown):
        raise Violation(f"{sorted(untold)} were acknowledged, are lost, and are not told")


def _check_kept(standby: Returned, told: Divergence | None, surplus: list[tuple[int, bytes]]) -> None:
    """What was dropped is kept, byte for byte."""
    assert told is not None
    if not surplus:
        return
    folder = f"{standby.config.node.data_dir}/surplus-{told.position}-{told.end_position}/archive"
    reader = Recordings(storage_of(standby), folder).reader(0)
    if [(one.position, one.payload) for one in reader.messages(told.end_position)] != surplus:
        raise Violation(f"{folder} has something else than what was dropped")


def _demand_refused_start(world: RejoinWorld, standby: Returned) -> None:
    """No node starts with a folder whose rejoin has begun and did not come to its end."""
    if b"rejoining" not in standby.stored_rows:
        return
    standby.has_disk_faults = True  # it may end
    for standby.is_promoted in (True, False):
        standby.boot()
        if standby.is_alive:
            raise Violation(f"{standby.name} started in the middle of its rejoin")
        standby.disk.heal()
    standby.has_disk_faults = False
    world.count_fault("start refused in the middle of a rejoin")

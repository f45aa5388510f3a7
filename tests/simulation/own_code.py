"""Which versions of its services a simulated member has code of: in some lives one of them is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.wire.app_version import format_version

if TYPE_CHECKING:
    from ordo.runtime.random import RandomSource
    from tests.simulation.options import Options

VERSIONS = (1, 2, 65536)


class CodeWorld(Protocol):
    """Whose members they are."""

    options: Options
    random: RandomSource

    @property
    def nodes(self) -> Sequence[CodedNode]: ...
    def note(self, text: str) -> None: ...
    def count_fault(self, kind: str) -> None: ...
    def leader(self) -> CodedNode | None: ...
    def quorum(self) -> int: ...


class CodedNode(Protocol):
    """A member, as far as its code is concerned."""

    name: str
    code: OwnCode

    @property
    def is_alive(self) -> bool: ...
    @property
    def module(self) -> Any: ...
    def kill(self) -> None: ...
    def boot(self) -> None: ...


class OwnCode:
    """Of one member, from its second life on: the first may have to begin the log."""

    def __init__(self, world: CodeWorld, name: str) -> None:
        self._world = world
        self._name = name
        self._random: Random = world.random.stream(f"{name} code")
        self.missing: tuple[int, int] | None = None
        """A service, and the version that it has no code of."""
        self.may_change = True

    def of(self, service_id: int) -> Sequence[int]:
        """The versions that a service of this member has."""
        return [one for one in VERSIONS if (service_id, one) != self.missing]

    def draw(self) -> None:
        """For the next life; never more members lack code than a quorum can do without."""
        options = self._world.options
        if not (self.may_change and options.lack_chance):
            return
        lacking = sum(node.code.missing is not None for node in self._world.nodes if node.code is not self)
        chance = self._random.random()
        drawn = self._random.randrange(options.services), self._random.choice(VERSIONS)
        is_drawn = chance < options.lack_chance and lacking < options.nodes - self._world.quorum()
        self.missing = drawn if is_drawn else None
        if is_drawn:
            self._world.count_fault("code missing")
            self._world.note(f"{self._name} has no code of version {format_version(drawn[1])} of service {drawn[0]}")


def stop_changing(world: CodeWorld) -> None:
    """From now on members are started with the code that they have."""
    for node in world.nodes:
        node.code.may_change = False


def spare_code(world: CodeWorld, faulty: Sequence[CodedNode]) -> None:
    """Where members that stay faulty, and others that lack code, are more than a quorum can do without, these are given
    it, and keep it: a record at which services fail is left out when a quorum has come to it."""
    stop_changing(world)
    lacking = [node for node in world.nodes if node.code.missing is not None and node not in faulty]
    if len(lacking) + len(faulty) > world.options.nodes - world.quorum():
        for node in lacking:
            _give(world, node)


def _give(world: CodeWorld, node: CodedNode) -> None:
    world.note(f"{node.name} is given the code that it lacks")
    world.count_fault("code given")
    node.code.missing = None
    if node.is_alive:
        node.kill()
        node.boot()


def with_code(world: CodeWorld, is_done: Callable[[], bool]) -> Callable[[], bool]:
    """`is_done`, while members are given code of what is in force at the end of the log, where they lack it: no
    snapshot can be behind that. All others must go on by themselves."""

    def probe() -> bool:
        leader = world.leader()
        for node in world.nodes:
            if leader is not None and node.is_alive and _lacks_what_is_in_force(node, leader):
                _give(world, node)
        return is_done()

    return probe


def _lacks_what_is_in_force(node: CodedNode, leader: CodedNode) -> bool:
    in_force = leader.module.rules.versions.log.at(leader.module.sequencer.commit_position)
    lacks = node.module.rules.versions.lacks
    return any(lacks.of(one).app_version == version for one, version in enumerate(in_force))

"""The services of a node are replicated each for itself: state-machine safety of the services 1, 2, ..."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from ordo.cluster.wire.app_version import NO_VERSION
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.history import Executed
    from tests.simulation.nodes import SimulatedNode


class ServicesAgree(Invariant):
    """The first member to execute a position decides what state a service has there; nobody leaves one out, and a
    snapshot gives the state of its position back. Each executes a record with code of its version that is in force."""

    name = "services agree"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._positions: dict[int, list[int]] = {}
        """By service: where records end that it has executed."""
        self._digests: dict[int, dict[int, str]] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._changes: dict[int, tuple[int, int]] = {}
        """By position of a record in front of one that was executed: the version, and the service that it is for."""
        self._messages: dict[int, set[int]] = {one: set() for one in range(world.options.services)}
        """By service: where messages of clients end that it has executed, beyond what was compared."""
        self._compared_position = 0
        options = world.options
        self._compares_messages = not (options.poison_chance or options.own_error_mean_ns or options.applications)
        self._compares_versions = world.options.services > 1 and world.options.upgrade_mean_ns > 0

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        if self._compares_versions and node.service is not None:
            self._compare_version(node, 0, record.position, node.service.version)

    def on_client_message(self, service_id: int, position: int) -> None:
        if position > self._compared_position:
            self._messages[service_id].add(position)

    def on_checkpoint(self) -> None:
        """A message is executed by all services of a node, or by none: which requests wait is a function of the log."""
        if not self._compares_messages:
            return
        end_position = min(max(one, default=0) for one in self._messages.values())
        found: list[set[int]] = [{one for one in its if one <= end_position} for its in self._messages.values()]
        if any(one != found[0] for one in found):
            differing = sorted(set().union(*found) - found[0].intersection(*found))
            self.fail(f"not all services have executed the messages of clients at {differing[:5]}")
        self._compared_position = max(self._compared_position, end_position)
        self._messages = {key: its - found[0] for key, its in self._messages.items()}

    def on_snapshot(self, node: SimulatedNode, position: int, digest: str) -> None:
        """Nothing but the snapshot may have been executed behind a change, and the log may go with it."""
        if self._compares_versions:
            self._note_changes(node, position + 1)

    def _compare_version(self, node: SimulatedNode, service_id: int, position: int, version: int) -> None:
        self._note_changes(node, position)
        of_service = (one for one, (_, its) in self._changes.items() if one < position and its in (service_id, -1))
        newest = max(of_service, default=None)
        in_force = NO_VERSION if newest is None else self._changes[newest][0]
        if in_force not in (version, NO_VERSION):  # of the first record no service knows before what is in force
            self.fail(
                f"{node.name} service {service_id} executed {position} with code of version {version}, and {in_force} "
                "is in force"
            )

    def _note_changes(self, node: SimulatedNode, position: int) -> None:
        """What the log of this member has in front of a record that is committed; what is left out changes nothing."""
        skipped = node.module.rules.skips.known
        for at, version, service_id in node.module.rules.versions.log.changes:
            if at in skipped:
                self._changes.pop(at, None)
            elif at < position:
                self._changes[at] = version, service_id

    def on_other_started(self, member_id: int, service_id: int, position: int, digest: str) -> None:
        positions = self._positions.setdefault(service_id, [])
        digests = self._digests.setdefault(service_id, {})
        index = bisect_right(positions, position)
        self._next[member_id, service_id] = index
        known = digests[positions[index - 1]] if index else ""
        if digest != known:
            self.fail(f"node{member_id} service {service_id} starts at {position} with {digest}, known is {known}")

    def on_other_executed(self, member_id: int, service_id: int, position: int, digest: str, version: int) -> None:
        if self._compares_versions:
            self._compare_version(self.world.nodes[member_id], service_id, position, version)
        positions, digests = self._positions[service_id], self._digests[service_id]
        index = self._next[member_id, service_id]
        self._next[member_id, service_id] = index + 1
        if index == len(positions):
            positions.append(position)
            digests[position] = digest
        elif (positions[index], digests[positions[index]]) != (position, digest):
            self.fail(
                f"node{member_id} service {service_id} executed {position} (state {digest}), another member "
                f"{positions[index]} (state {digests[positions[index]]})"
            )

"""Which door coordinates which group: leases in cluster time, and epochs that refuse what a door says too late.

A door registers with the address that clients are told, and the network in which they are. It gets a node id, which
stays with these two, and a lease, which it renews. The first door that needs a group coordinates it, with an epoch that
is higher than all before it. What a door does for a group carries this epoch, and is refused once another door has the
group.

A lease that is not renewed in time has lapsed. A lapsed lease goes on when it is renewed, unless another door needed
one of its groups meanwhile: then it has ended, with all its groups, and the door has to register again.

All of this is a function of the log: time is that of the record which is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ordo.gateway.kafka.service.orders import KafkaError, OrderAnswer
from ordo.runtime.native.cluster_time import TimeUnit

DOORS_MAX = 64
"""Addresses that are remembered. The one that was silent longest goes when another one needs its place."""
CLAIMS_MAX = 1_024
"""Groups that have a coordinator at a time."""
NO_LEASE = 0
FIRST_EPOCH = 1


@dataclass
class Door:
    """One address at which a door listens, or did."""

    node_id: int
    address: str
    process: str
    """What the process that listens there calls itself, which is different each time one starts."""
    network: str
    """Doors of one network are named to each other's clients."""
    lease: int
    """NO_LEASE: it has ended."""
    until: int
    """Cluster time at which the lease lapses."""
    length: int
    """So long the lease lasts from a renewal on, in cluster time."""

    def is_live(self, now: int) -> bool:
        """Return whether it has a lease that has not lapsed."""
        return self.lease != NO_LEASE and now < self.until


class Claim(NamedTuple):
    """A group's coordinator."""

    lease: int
    epoch: int


class Coordinators:
    """All doors, and the groups that they coordinate."""

    def __init__(self) -> None:
        self._doors: dict[tuple[str, str], Door] = {}
        """Keyed by network and address: a loopback address is that of another machine in another network."""
        self._claims: dict[str, Claim] = {}
        self._next_epoch = FIRST_EPOCH
        """The next lease or epoch."""

    def _take_epoch(self) -> int:
        self._next_epoch += 1
        return self._next_epoch - 1

    def _door_of(self, lease: int) -> Door | None:
        found = (one for one in self._doors.values() if one.lease == lease)
        return next(found, None) if lease != NO_LEASE else None

    def _holder_of(self, group: str) -> Door | None:
        claim = self._claims.get(group)
        return None if claim is None else self._door_of(claim.lease)

    def _end(self, door: Door) -> None:
        """End a lease, and with it whatever its door coordinates."""
        self._claims = {group: one for group, one in self._claims.items() if one.lease != door.lease}
        door.lease = NO_LEASE

    def rescale(self, former: TimeUnit, unit: TimeUnit) -> None:
        """Give all leases the unit that cluster time has from here on."""
        for door in self._doors.values():
            door.until, door.length = former.rescale(door.until, unit), former.rescale(door.length, unit)

    # What doors ask

    def register(self, address: str, process: str, network: str, length: int, now: int) -> OrderAnswer:
        """Give a door a lease, and return it; what another process had at this address is over."""
        door = self._doors.get((network, address))
        if door is None:
            if len(self._doors) >= DOORS_MAX and not self._forget_door(now):
                return OrderAnswer(KafkaError.POLICY_VIOLATION, -1)
            taken = {one.node_id for one in self._doors.values()}
            node_id = next(number for number in range(DOORS_MAX) if number not in taken)
            door = self._doors[network, address] = Door(node_id, address, process, network, NO_LEASE, now, length)
        if door.lease != NO_LEASE and door.process != process:
            self._end(door)
        if door.lease == NO_LEASE:
            door.lease = self._take_epoch()
        door.process, door.length, door.until = process, length, now + length
        return OrderAnswer(KafkaError.NONE, door.lease)

    def _forget_door(self, now: int) -> bool:
        gone = min((one for one in self._doors.values() if not one.is_live(now)), key=_until, default=None)
        if gone is not None:
            if gone.lease != NO_LEASE:
                self._end(gone)
            del self._doors[gone.network, gone.address]
        return gone is not None

    def renew(self, lease: int, released: Sequence[tuple[str, int]], now: int) -> OrderAnswer:
        """Renew a lease, let go of groups (with their epochs) that its door does not need, and return its node id."""
        door = self._door_of(lease)
        if door is None:
            return OrderAnswer(KafkaError.NOT_COORDINATOR, -1)
        door.until = now + door.length
        for group, epoch in released:
            if self._claims.get(group) == (lease, epoch):
                del self._claims[group]
        return OrderAnswer(KafkaError.NONE, door.node_id)

    def leave(self, lease: int) -> OrderAnswer:
        """End a lease."""
        door = self._door_of(lease)
        if door is None:
            return OrderAnswer(KafkaError.NOT_COORDINATOR, -1)
        self._end(door)
        return OrderAnswer(KafkaError.NONE, door.node_id)

    def coordinate(self, group: str, lease: int, now: int) -> OrderAnswer:
        """Give a door a group, and return its epoch; with NOT_COORDINATOR, the node id of the door that has it."""
        asking, holder = self._door_of(lease), self._holder_of(group)
        if asking is None or not asking.is_live(now):
            return OrderAnswer(KafkaError.NOT_COORDINATOR, -1)
        if holder is not None and holder is not asking:
            if holder.is_live(now):
                is_near = holder.network == asking.network
                return OrderAnswer(
                    KafkaError.NOT_COORDINATOR if is_near else KafkaError.COORDINATOR_NOT_AVAILABLE,
                    holder.node_id if is_near else -1,
                )
            self._end(holder)
        if group not in self._claims and len(self._claims) >= CLAIMS_MAX and not self._end_lapsed(now):
            return OrderAnswer(KafkaError.POLICY_VIOLATION, -1)
        self._claims[group] = Claim(lease, self._take_epoch())
        return OrderAnswer(KafkaError.NONE, self._claims[group].epoch)

    def _end_lapsed(self, now: int) -> bool:
        """Make room for claims, and return whether there is some."""
        for one in self._doors.values():
            if one.lease != NO_LEASE and not one.is_live(now):
                self._end(one)
        return len(self._claims) < CLAIMS_MAX

    def judge(self, group: str, epoch: int | None, now: int) -> int:
        """Return why something must not be done for a group: its coordinator alone may, with the group's epoch.

        None is the epoch of doors from before there were any. They may while no other door has a lease on the group.
        """
        claim, holder = self._claims.get(group), self._holder_of(group)
        if epoch is not None:
            is_held = claim is not None and claim.epoch == epoch and holder is not None
            return KafkaError.NONE if is_held else KafkaError.NOT_COORDINATOR
        if holder is not None and holder.is_live(now):
            return KafkaError.NOT_COORDINATOR
        if holder is not None:
            self._end(holder)
        return KafkaError.NONE

    # What is asked about them

    def doors(self, now: int) -> list[tuple[int, str, str, str, bool]]:
        """Return each door's node id, address, process, network, and whether it is live."""
        doors = self._doors.values()
        return [(one.node_id, one.address, one.process, one.network, one.is_live(now)) for one in doors]

    def held(self, now: int) -> dict[str, int]:
        """Return the node id of each group's coordinator, where its lease has not lapsed."""
        holders = {one.lease: one.node_id for one in self._doors.values() if one.is_live(now)}
        return {group: holders[one.lease] for group, one in self._claims.items() if one.lease in holders}

    # Snapshots

    def state(self) -> Iterator[tuple[object, ...]]:
        """Give what a snapshot needs, in order: nothing before the first door, as members of older releases do."""
        if self._next_epoch == FIRST_EPOCH:
            return
        yield "epoch", self._next_epoch
        for one in self._doors.values():
            yield "door", one.node_id, one.address, one.process, one.network, one.lease, one.until, one.length
        for group, (lease, epoch) in self._claims.items():
            yield "claim", group, lease, epoch

    def restore(self, line: list[object]) -> None:
        """Take one line of a snapshot; others are none of these."""
        match line:
            case ["epoch", int(number)]:
                self._next_epoch = number
            case ["door", int(node_id), str(address), str(process), str(network), int(lease), int(until), int(length)]:
                self._doors[network, address] = Door(node_id, address, process, network, lease, until, length)
            case ["claim", str(group), int(lease), int(epoch)]:
                self._claims[group] = Claim(lease, epoch)


def _until(door: Door) -> int:
    return door.until

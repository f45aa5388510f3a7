"""The door among the doors of its cluster: its lease, the groups that it coordinates, and where the others are.

The service `ordo:Topics` decides who coordinates a group, by leases in cluster time. A door takes its lease for over
somewhat earlier, by its own clock, counted from when it asked: until then nobody else has its groups. A door that stood
still for longer finds so before it answers anything for a group, and what it may have sent carries an old epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple
from uuid import uuid4

from ordo.gateway.doors.knocks import Knocks
from ordo.gateway.kafka.caller import Caller, error_of_group, is_final
from ordo.gateway.kafka.door_sessions import DoorSessions
from ordo.gateway.kafka.groups.groups import Groups
from ordo.gateway.kafka.service.coordinators import DOORS_MAX
from ordo.gateway.kafka.service.orders import (
    NOT_A_QUERY,
    OTHER_SERVICE,
    UNKNOWN_KIND,
    KafkaError,
    OrderKind,
    encode_order,
)
from ordo.gateway.kafka.sessions import ClusterSessions
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.runtime.errors import ClusterTimeoutError, DecodeError, OrdoError
from ordo.runtime.reporting.logging import get_logger

HELD_PART = 0.8
"""A door takes its lease for over after this part of it: clocks of members and doors may differ by the rest."""
RENEWALS = 3
"""So often a lease is renewed in its time."""
RETRY_S = 0.5
READY_S = 5.0
"""So long a request that needs the lease waits for it."""
UNUSED_S = 120.0
"""A group that nobody has asked for so long gets no coordinator kept for it."""
RELEASES_MAX = 40
"""So many groups are let go at a time: with the longest names they fill most of what a request may have."""
LEAVE_S = 2.0
LOOK_S = 2.0
KNOCK_EVERY_S = 1.0
"""So long a door without a lease asks where the others are, before it tries again to get one."""
OLD_SERVICE = "the cluster's service knows no doors: update its members first; until then there are no groups here"
NO_NODE = -1
FIRST_NODE = 0
UNREGISTERED_NODE = DOORS_MAX
"""What a door calls itself that the cluster does not know, where another one has the id that it would have."""


class Neighbour(NamedTuple):
    """One door of the cluster, as the service has it."""

    node_id: int
    address: str
    process: str
    network: str
    is_live: bool


class Coordinator(NamedTuple):
    """Who coordinates a group."""

    error: int
    """What a client is told that asks this door for something; NOT_COORDINATOR: it has to look for its door again."""
    epoch: int = 0
    """What this door shows with whatever it does for the group; 0 if another one coordinates it."""
    node_id: int = NO_NODE


class Doors(NamedTuple):
    """What one response says of the doors: it is taken at one moment, so that every leader is one of the brokers."""

    node_id: int
    """That of the door that is asked."""
    brokers: Sequence[Mapping[str, object]]
    leaders: Collection[int]
    """The node ids of those that lead topics."""

    def leader_of(self, topic: str) -> int:
        """Return the node id of the door that leads a topic: the same at every door while none comes or goes."""
        return max(self.leaders, key=lambda node_id: (_weight_of(node_id, topic), node_id))


class DoorLease:
    """The lease of one door. Belongs to one event loop; `run` keeps it."""

    def __init__(self, settings: KafkaSettings, sessions: ClusterSessions, groups: Groups) -> None:
        self._settings = settings
        self._sessions = DoorSessions(sessions, settings.lease_s * HELD_PART)
        self._groups = groups
        self._loop = asyncio.get_running_loop()
        self._address, self._network = "", ""
        self._process = uuid4().hex
        self._had_lease = False
        self._lease = 0
        self._held_until_s = 0.0
        self._epochs: dict[str, int] = {}
        self._used_s: dict[str, float] = {}
        self._released: dict[str, int] = {}
        """Groups with their epochs that this door has let go, until the cluster knows."""
        self._claiming: dict[str, asyncio.Task[Coordinator]] = {}
        self._neighbours: Sequence[Neighbour] = ()
        self._knocks = Knocks()
        self._changed = asyncio.Event()
        self._woken = asyncio.Event()
        self._node_id = FIRST_NODE
        self.refusal = ""
        """Why the door gets no lease."""

    # What requests ask

    @property
    def is_held(self) -> bool:
        """Return whether no other door can have a group of this one."""
        return self._lease != 0 and self._loop.time() < self._held_until_s

    @property
    def node_id(self) -> int:
        """Return the node id that the cluster gave this door; while it has none, one that no other door has."""
        own = self._network, self._address
        is_taken = any(one.node_id == self._node_id and (one.network, one.address) != own for one in self._neighbours)
        return UNREGISTERED_NODE if is_taken else self._node_id

    def epoch_of(self, group: str) -> int:
        """Return the epoch of a group that this door coordinates for sure; 0 for others."""
        if not self.is_held:
            return 0
        epoch = self._epochs.get(group, 0)
        if epoch:
            self._used_s[group] = self._loop.time()
        return epoch

    async def claim(self, group: str) -> Coordinator:
        """Return who coordinates a group; this door does if no other one does."""
        if epoch := self.epoch_of(group):
            return Coordinator(KafkaError.NONE, epoch, self.node_id)
        task = self._claiming.get(group)
        if task is None:
            task = self._claiming[group] = asyncio.create_task(self._claim(group))
            task.add_done_callback(lambda _: self._claiming.pop(group, None))
        return await asyncio.shield(task)

    async def _claim(self, group: str) -> Coordinator:
        if not await self._await_held():
            return Coordinator(KafkaError.NOT_COORDINATOR)
        lease = self._lease
        try:
            answer = await self._sessions.best.order(encode_order(OrderKind.COORDINATE, lease=lease, group=group))
        except OrdoError as error:
            return Coordinator(error_of_group(error))
        if answer.error:
            away = answer.error == KafkaError.COORDINATOR_NOT_AVAILABLE  # in another network
            return Coordinator(KafkaError.NOT_COORDINATOR if away else answer.error, node_id=answer.number)
        if lease != self._lease or not self.is_held:  # it is over meanwhile
            return Coordinator(KafkaError.NOT_COORDINATOR)
        self._epochs[group], self._used_s[group] = answer.number, self._loop.time()
        self._released.pop(group, None)
        return Coordinator(KafkaError.NONE, answer.number, self.node_id)

    def lose(self, group: str, epoch: int) -> None:
        """Note that the cluster refused an epoch: nothing is held until it says what is."""
        if self._epochs.get(group) == epoch:
            del self._epochs[group], self._used_s[group]
            self._groups.drop(group)
            self._held_until_s = 0.0
            self._woken.set()

    async def _await_held(self) -> bool:
        deadline_s = self._loop.time() + READY_S
        while not self.is_held and not self.refusal:
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return self.is_held

    async def await_place(self) -> None:
        """Wait until the cluster has given this door a lease, or has said why it does not. Raises OrdoError."""
        if not self._had_lease and not await self._await_held() and not self.refusal:
            raise ClusterTimeoutError("the cluster has not given this door a lease yet")

    def doors(self, caller: Caller) -> Doors:
        """Return the doors that are live, and this one, under the address by which the caller came.

        The live ones lead the topics: a door without a lease does not, unless it knows of no other. One whose process
        has ended is left out before its lease is over; what it coordinates waits for that.
        """
        node_id = self.node_id
        live = [one for one in self._live() if not self._knocks.is_gone(one.process)]
        others = [_broker(one.node_id, one.address) for one in live if one.node_id != node_id]
        host, port = caller.door
        own = {"node_id": node_id, "host": host, "port": port}
        return Doors(node_id, [own, *others], {one.node_id for one in live} or {node_id})

    def _live(self) -> Sequence[Neighbour]:
        """Return the doors of this network whose lease has not lapsed."""
        return [one for one in self._neighbours if one.is_live and one.network == self._network]

    async def watch(self) -> None:
        """Look once a second whether the other doors still listen."""
        while True:
            others = {one.process: one.address for one in self._live() if one.process != self._process}
            found, gone = await self._knocks.ask(others)
            for event, names in (("kafka.door-reached", found), ("kafka.door-gone", gone)):
                for name in sorted(names):
                    get_logger().info(event, address=others[name])
            await asyncio.sleep(KNOCK_EVERY_S)

    async def find(self, caller: Caller, group: str) -> Mapping[str, object]:
        """Return a group's coordinator as FindCoordinator does: error, node, host and port.

        One whose process has ended has the group until its lease is over, and is not named: clients ask again.
        """
        found = await self.claim(group)
        if found.epoch:
            host, port = caller.door
            return {"error_code": KafkaError.NONE, "node_id": self.node_id, "host": host, "port": port}
        if found.node_id != NO_NODE:
            if not any(one.node_id == found.node_id for one in self._neighbours):
                with suppress(OrdoError):
                    await self._look()
            other = next((one for one in self._neighbours if one.node_id == found.node_id), None)
            if other is not None and not self._knocks.is_gone(other.process):
                return {"error_code": KafkaError.NONE, **_broker(other.node_id, other.address)}
        error = KafkaError.COORDINATOR_NOT_AVAILABLE if found.error == KafkaError.NOT_COORDINATOR else found.error
        return {"error_code": error, "node_id": NO_NODE, "host": "", "port": -1}

    async def coordinated_by_others(self) -> set[str]:
        """Return the groups of other doors. Raises OrdoError."""
        if self.refusal:
            return set()
        found = await self._sessions.best.query(OrderKind.COORDINATORS)
        if not isinstance(found, dict):
            raise DecodeError(OTHER_SERVICE)
        return {group for group, node_id in found.items() if node_id != self.node_id}

    # The lease

    async def run(self, address: str) -> None:
        """Keep the lease of a door that clients find at this address."""
        self._address, self._network = address, self._settings.network_of(address)
        while True:
            begin_s = self._loop.time()
            try:
                await self._renew(begin_s)
            except (OrdoError, OSError) as error:
                await self._look_without_lease()
                self._refuse(_reason_of(error), str(error))
            every_s = self._settings.lease_s / RENEWALS if self.is_held else RETRY_S
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(begin_s + every_s):
                    await self._woken.wait()

    async def _renew(self, begin_s: float) -> None:
        """Renew the lease, or get another one. Raises OrdoError."""
        if self._lease:
            released = self._release(begin_s)
            answer = await self._sessions.order(OrderKind.RENEW, lease=self._lease, released=released)
            if answer.error:
                self._end()
                return
            for group, epoch in released:
                if self._released.get(group) == epoch:
                    del self._released[group]
        else:
            if self._had_lease and await self._is_replaced():
                self._refuse(f"another door is registered as {self._address}: give each an --advertise of its own")
                return
            answer = await self._sessions.order(
                OrderKind.REGISTER,
                address=self._address,
                process=self._process,
                network=self._network,
                lease_ms=round(self._settings.lease_s * 1_000),
            )
            if answer.error:
                await self._look_without_lease()
                self._refuse("the cluster remembers as many doors as it can, and all of them are live")
                return
            self._lease = answer.number
        own = await self._look()
        if own is not None and own.process == self._process:
            self._hold(begin_s, own.node_id)

    def _hold(self, begin_s: float, node_id: int) -> None:
        if not self._had_lease or self.refusal:
            get_logger().info("kafka.registered", address=self._address, node_id=node_id)
        self._had_lease, self.refusal, self._node_id = True, "", node_id
        self._held_until_s = begin_s + self._settings.lease_s * HELD_PART
        self._changed.set()
        self._changed = asyncio.Event()

    def _end(self) -> None:
        """Forget the lease, and everything that came with it."""
        get_logger().warning("kafka.lease-ended", address=self._address, groups=len(self._epochs))
        self._lease, self._held_until_s = 0, 0.0
        self._epochs.clear()
        self._used_s.clear()
        self._released.clear()
        self._groups.drop_all()

    def _refuse(self, why: str, trouble: str = "") -> None:
        """Note why the door gets no lease; an empty reason passes."""
        if why and why != self.refusal:
            get_logger().warning("kafka.not-registered", address=self._address, why=why, trouble=trouble[:200])
            self._changed.set()
            self._changed = asyncio.Event()
        self.refusal = why or self.refusal

    def _release(self, now_s: float) -> Sequence[tuple[str, int]]:
        """Let go of groups that nobody uses, and return those of which the cluster does not know it, with epochs."""
        unused = [
            group
            for group in self._epochs
            if now_s - self._used_s[group] > UNUSED_S and not self._groups.is_used(group)
        ]
        for group in unused[: RELEASES_MAX - len(self._released)]:
            self._released[group] = self._epochs.pop(group)
            del self._used_s[group]
        return list(self._released.items())

    async def _is_replaced(self) -> bool:
        own = await self._look()
        return own is not None and own.is_live and own.process != self._process

    async def _look(self) -> Neighbour | None:
        """Ask where the doors are, and return this one. Raises OrdoError."""
        found = await self._sessions.best.query(OrderKind.DOORS)
        try:
            self._neighbours = [Neighbour(*one) for one in found]
        except TypeError:
            raise DecodeError(OTHER_SERVICE) from None
        name = self._network, self._address
        return next((one for one in self._neighbours if (one.network, one.address) == name), None)

    async def _look_without_lease(self) -> None:
        """Learn of doors that come and go, so that clients of this door go over to them as clients of others do."""
        if not self.is_held:
            with suppress(OrdoError, OSError, TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look()

    async def end(self) -> None:
        """Give the lease up, so that other doors have its groups at once. Idempotent."""
        lease, self._lease = self._lease, 0
        if lease:
            with suppress(OrdoError, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._sessions.best.order(encode_order(OrderKind.LEAVE, lease=lease), LEAVE_S)


def _reason_of(error: OrdoError | OSError) -> str:
    """Return why a door gets no lease after an error; empty where it may pass."""
    if not isinstance(error, OrdoError) or not is_final(error):
        return ""
    is_old = any(one in error.message for one in (UNKNOWN_KIND, NOT_A_QUERY))
    return OLD_SERVICE if is_old else error.message


def _weight_of(node_id: int, topic: str) -> bytes:
    """Return a hash that is as good as random: the door with the greatest leads the topic, so all have equal shares.

    A CRC would not do: it is linear, so the node ids alone decide most comparisons.
    """
    return blake2b(f"{node_id} {topic}".encode(), digest_size=8).digest()


def _broker(node_id: int, address: str) -> Mapping[str, object]:
    host, _, port = address.rpartition(":")
    return {"node_id": node_id, "host": host.strip("[]"), "port": int(port)}

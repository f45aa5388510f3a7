"""Compositions: a service made of several machines in one process, which execute each record in a declared order."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import ClassVar

from ordo.runtime.errors import Reject, ServiceError, SnapshotError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.cluster import (
    ClientSession,
    CloseReason,
    Cluster,
    NewLeadershipTermEvent,
    Payload,
    Role,
)
from ordo.service_api.native import Header
from ordo.service_api.service import ClusteredService, check_hash
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

MACHINES_MAX = 256
TIMER_ID_MAX = (1 << 55) - 1
"""Correlation ids of machines' timers: the rest of the 64 bits says which machine's it is."""
_BEGIN, _STATE = b"\0", b"\1"
"""How each message of a snapshot begins: the name of the next machine, or a part of its state."""


_LENGTHS = struct.Struct("<ii")


class MachineCluster:
    """The cluster as one of several machines sees it, with timers of its own. It is a `service_api.service.Cluster`."""

    def __init__(self, cluster: Cluster, index: int) -> None:
        self._cluster = cluster
        self._index = index

    @property
    def member_id(self) -> int:
        return self._cluster.member_id

    @property
    def role(self) -> Role:
        return self._cluster.role

    @property
    def log_position(self) -> int:
        return self._cluster.log_position

    @property
    def time(self) -> int:
        return self._cluster.time

    @property
    def time_unit(self) -> TimeUnit | None:
        return self._cluster.time_unit

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        return self._cluster.client_sessions

    def get_client_session(self, session_id: int) -> ClientSession | None:
        """Return an open session; see Cluster."""
        return self._cluster.get_client_session(session_id)

    def close_client_session(self, session_id: int) -> bool:
        """Ask for a session to be closed; see Cluster."""
        return self._cluster.close_client_session(session_id)

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Schedule a timer of this machine; see Cluster.

        Raises ServiceError for a correlation id beyond TIMER_ID_MAX.
        """
        return self._cluster.schedule_timer(self._timer_id(correlation_id), deadline)

    def cancel_timer(self, correlation_id: int) -> bool:
        """Cancel a timer of this machine; see Cluster."""
        return self._cluster.cancel_timer(self._timer_id(correlation_id))

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        """Put a message into the log, which comes back to all machines; see Cluster."""
        return self._cluster.offer(payload) if id is None else self._cluster.offer(payload, id=id)

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Publish to a topic; see Cluster."""
        return self._cluster.publish(topic, payload, *more)

    def idle(self) -> None:
        """Let the transport work; see Cluster."""
        self._cluster.idle()

    def _timer_id(self, correlation_id: int) -> int:
        if not -TIMER_ID_MAX <= correlation_id <= TIMER_ID_MAX:
            raise ServiceError(f"correlation_id={correlation_id}: of a machine, up to {TIMER_ID_MAX} are allowed")
        return correlation_id * MACHINES_MAX + self._index


class Composition(ClusteredService):
    """A service of several machines, named in `machines`, which all execute every record, one after the other.

    What one of them puts into the log with `cluster.offer` comes back to all. At most one answers a message, and only
    the first may refuse it: the others would leave what those before them did. Each has timers of its own, and its own
    part of the snapshot, under the name of its class; one that is new in it starts without. Machines take messages one
    at a time.
    """

    machines: ClassVar[Sequence[Callable[[], ClusteredService]]] = ()
    """The classes, in the order in which they execute. The order never changes and new ones are appended, since timers
    are stored by it."""

    def __init__(self) -> None:
        """Make the machines. Raises ServiceError if the class is not a valid composition."""
        self.parts = [make() for make in self.machines]
        self._names = [type(one).__name__ for one in self.parts]
        if not 1 <= len(self.parts) <= MACHINES_MAX or len(set(self._names)) != len(self._names):
            raise ServiceError(
                f"{type(self).__name__}.machines has {', '.join(self._names) or 'none'}: give 1 to {MACHINES_MAX}, "
                "each class once"
            )
        strange = [name for name, one in zip(self._names, self.parts, strict=True) if not _is_plain(one)]
        if strange:
            raise ServiceError(f"{type(self).__name__}.machines: {', '.join(strange)} must be a plain ClusteredService")
        self.can_fork = all(one.can_fork for one in self.parts)

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        """Start the machines, each with its part of the snapshot.

        Raises SnapshotError for a snapshot of other machines.
        """
        waiting = list(enumerate(self.parts))
        messages = None if snapshot is None else snapshot.messages()
        begin = None if messages is None else next(messages, None)
        while messages is not None and begin is not None:
            name = begin[1:].decode(errors="replace")
            while waiting and self._names[waiting[0][0]] != name:
                index, machine = waiting.pop(0)
                machine.on_start(MachineCluster(cluster, index), None)
            if begin[:1] != _BEGIN or not waiting:
                raise SnapshotError(
                    f"the snapshot has the state of {name!r} where {type(self).__name__} expects one of "
                    f"{', '.join(self._names)}, in this order"
                )
            index, machine = waiting.pop(0)
            part = _Part(messages)
            machine.on_start(MachineCluster(cluster, index), SnapshotReader(part))
            begin = part.skip()
        for index, machine in waiting:
            machine.on_start(MachineCluster(cluster, index), None)

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        for machine in self.parts:
            machine.on_session_open(session, timestamp)

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        for machine in self.parts:
            machine.on_session_close(session, timestamp, close_reason)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        """Hand the message to each machine. Raises ServiceError for a second answer, and for a late refusal."""
        answer = self.parts[0].on_session_message(session, timestamp, payload, header)
        for name, machine in zip(self._names[1:], self.parts[1:], strict=True):
            try:
                one = machine.on_session_message(session, timestamp, payload, header)
            except Reject as why:
                raise ServiceError(f"{name} refuses a message that {self._names[0]} took: {why}") from why
            if one is not None and answer is not None:
                raise ServiceError(f"{name} answers a message that has an answer already")
            answer = one if answer is None else answer
        return answer

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """Pass the event to the machine whose timer it is."""
        self.parts[correlation_id % MACHINES_MAX].on_timer_event(correlation_id // MACHINES_MAX, timestamp)

    def on_query(self, payload: bytes) -> bytes:
        """Return the answer of the first machine that has one. Raises NotImplementedError."""
        for machine in self.parts:
            try:
                return machine.on_query(payload)
            except NotImplementedError:
                continue
        raise NotImplementedError("no machine answers this query")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        for name, machine in zip(self._names, self.parts, strict=True):
            writer.write_message(_BEGIN + name.encode())
            part = SnapshotWriter(lambda message: writer.write_message(_STATE + message), writer.message_bytes_max - 1)
            machine.on_take_snapshot(part)
            part.close()

    def state_hash(self) -> bytes:
        """Return SHA-256 over the names and hashes of all machines. Used only if each of them has a hash."""
        found = sha256()
        for name, machine in zip(self._names, self.parts, strict=True):
            one = check_hash(machine.state_hash())
            found.update(_LENGTHS.pack(len(name.encode()), len(one)) + name.encode() + one)
        return found.digest()

    def on_role_change(self, role: Role) -> None:
        for machine in self.parts:
            machine.on_role_change(role)

    def on_terminate(self, cluster: Cluster) -> None:
        for index, machine in enumerate(self.parts):
            machine.on_terminate(MachineCluster(cluster, index))

    def on_new_leadership_term(self, event: NewLeadershipTermEvent) -> None:
        for machine in self.parts:
            machine.on_new_leadership_term(event)

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        """Have all machines convert the times of their states."""
        for machine in self.parts:
            machine.on_time_unit(former, unit)

    def do_background_work(self, now_ns: int) -> int:
        """Do the background work of all machines; return how much was done."""
        return sum(machine.do_background_work(now_ns) for machine in self.parts)


class _Part:
    """The messages of one machine's state, up to the name of the next machine."""

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages = messages
        self._next_begin: bytes | None = None
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        message = None if self._has_ended else next(self._messages, None)
        if message is None or message[:1] != _STATE:
            if not self._has_ended:
                self._next_begin, self._has_ended = message, True
            raise StopIteration
        return message[1:]

    def skip(self) -> bytes | None:
        """Skip the messages that the machine did not read, and return the message that begins the next part."""
        for _ in self:
            pass
        return self._next_begin


def _is_plain(machine: object) -> bool:
    """Return whether messages reach the machine one at a time."""
    takes_messages = getattr(type(machine), "on_session_message", None)
    return isinstance(machine, ClusteredService) and takes_messages is not ClusteredService.on_session_message

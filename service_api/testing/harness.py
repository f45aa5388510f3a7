"""A harness that tests a service without a cluster.

Feed it inputs, look at what it did, prove that it is deterministic.

    harness = ServiceHarness(MyService)
    harness.execute(OpenSession(1, 10), Message(1, 11, b"buy"), AdvanceTime(500))
    assert harness.egress(1) == [b"bought"]

    check_service(MyService, inputs)      # deterministic, and any snapshot restores the whole state

It runs in memory, in the caller's thread. Differences between processes, such as iteration over a set of strings in
hash order, are for `ordo.service_api.testing.environments`.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from ordo.runtime.errors import Reject, ServiceCallError, ServiceError, SnapshotError
from ordo.runtime.payloads import to_bytes, to_utf8
from ordo.runtime.reporting.failures import exit_error
from ordo.service_api.callbacks import find_fault
from ordo.service_api.feeds import check_publication
from ordo.service_api.native import Header, MessageSequence, NativeClusteredService, SinkSession
from ordo.service_api.request_ids import check_request_id
from ordo.service_api.service import (
    ClientSession,
    CloseReason,
    ClusteredService,
    OfferResult,
    Payload,
    Role,
    Service,
    TimeUnit,
)
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.state_hash import hash_state, implements_state_hash
from ordo.service_api.timers import check_timer

MESSAGE_BYTES_MAX = 8 * 1024 * 1024


class OpenSession(NamedTuple):
    session_id: int
    timestamp: int
    encoded_principal: bytes = b""


class CloseSession(NamedTuple):
    session_id: int
    timestamp: int
    close_reason: CloseReason = CloseReason.CLIENT_ACTION


class Message(NamedTuple):
    """A message. `session_id` None: from a service. `identity`: of the client, when it is a request.

    `arrival_ns`: what `header.arrival_ns` says, ns since 1970; None as in a log that does not say it.
    """

    session_id: int | None
    timestamp: int
    payload: bytes
    identity: bytes | None = None
    arrival_ns: int | None = None


class AdvanceTime(NamedTuple):
    """An input that fires every timer due up to `timestamp`, in order of deadline and then correlation id."""

    timestamp: int


class TakeSnapshot(NamedTuple):
    timestamp: int


class Query(NamedTuple):
    """An input that asks the service a query. It is not a record: neither time nor position advances."""

    payload: bytes


Input: TypeAlias = OpenSession | CloseSession | Message | AdvanceTime | TakeSnapshot | Query


class Effect(NamedTuple):
    """Something the service did.

    `kind`: egress (answers to messages are among it), schedule, cancel, close, offer, reject, publish (topic, ":"
    and payload, by sequence number), answer (of a query).
    """

    kind: str
    key: int
    value: bytes | int


class HarnessSnapshot(NamedTuple):
    """The service's own messages, and what its cluster knew at that point."""

    messages: tuple[bytes, ...]
    position: int
    time: int
    sessions: tuple[tuple[int, bytes], ...]
    timers: tuple[tuple[int, int], ...]
    sequences: tuple[tuple[str, int], ...] = ()
    """The last sequence number of each topic that was published to."""
    ids: tuple[bytes, ...] = ()
    """The ids of outputs: `Cluster.offer(payload, id=...)` of an application."""
    sequence: int = 0
    """The number of the last message."""


class HarnessSession(SinkSession):
    """A client session of a harness, which notes what the service sends to it as effects."""

    response_stream_id = 102
    response_channel = "aeron:ipc"

    def __init__(self, cluster: ServiceHarness, session_id: int, encoded_principal: bytes) -> None:
        super().__init__(session_id, cluster._on_egress)
        self._cluster = cluster
        self.encoded_principal = encoded_principal
        self.is_closing = False

    def offer(self, payload: Payload) -> int:
        return self._cluster._on_egress(self, to_bytes(payload))

    def close(self) -> None:
        if self._cluster.get_client_session(self.id) is not None:
            self._cluster.close_client_session(self.id)


class HarnessRun:
    """A run of messages as `on_session_messages` gets it from a harness.

    These are the messages that follow on one another among its inputs.
    """

    def __init__(self, harness: ServiceHarness, first: Message) -> None:
        self._harness = harness
        self._next: Message | None = first
        self._reply: bytes | None = None
        self.is_within = False
        self.session: HarnessSession | None = None
        self.timestamp = 0
        self.header = harness._header

    def __iter__(self) -> HarnessRun:
        return self

    def __next__(self) -> bytes:
        self.end()
        item = self._next or self._harness._take_message()
        self._next = None
        if item is None:
            raise StopIteration
        self.timestamp = item.timestamp
        self.session = self._harness._begin_message(item)
        self.is_within = True
        return item.payload

    def reply(self, payload: Payload) -> None:
        """Answer the message that was taken last."""
        if not self.is_within or self._reply is not None:
            raise ServiceCallError("messages.reply answers the message that was taken last, once")
        self._reply = to_bytes(payload)

    def end(self) -> None:
        """Finish the message that was taken last."""
        if self.is_within:
            self.is_within = False
            self._harness._end_message(self.session, self._reply)
            self._reply = None


class ServiceHarness:
    """A harness for one service, which acts as its `Cluster`. `role` FOLLOWER mocks egress as a follower does.

    `joins_messages=False` calls `on_session_messages` for each message alone. All times are in `time_unit`. Raises
    ServiceError for a class that a node would refuse, such as one with a misspelt callback.
    """

    member_id = 0

    def __init__(
        self,
        make_service: Callable[[], Service],
        *,
        role: Role = Role.LEADER,
        snapshot: HarnessSnapshot | None = None,
        joins_messages: bool = True,
        time_unit: TimeUnit = TimeUnit.MILLIS,
    ) -> None:
        self.role = role
        self.time_unit = time_unit
        self._joins_messages = joins_messages
        self._inputs: deque[Input] = deque()
        self.log_position = 0
        self.time = 0
        self.effects: list[Effect] = []
        self.snapshots: list[HarnessSnapshot] = []
        self.service = _checked(make_service())
        self._sessions: dict[int, HarnessSession] = {}
        self._timers: list[tuple[int, int]] = []
        self._offered: deque[bytes] = deque()
        self._ids: set[bytes] = set()
        self._sequences: dict[str, int] = {}
        self._header = Header()
        self._sequence = MessageSequence()
        self._callback = "on_start"
        self._may_call = False
        if snapshot is not None:
            self._restore(snapshot)
        self.service.on_start(self, SnapshotReader(snapshot.messages) if snapshot is not None else None)

    # Feeding and looking

    def execute(self, *inputs: Input) -> ServiceHarness:
        """Execute inputs in order, and after each one the service's own messages."""
        self._inputs.extend(inputs)
        while self._inputs:
            self._execute(self._inputs.popleft())
            while self._offered:
                self._execute(Message(None, self.time, self._offered.popleft()))
        return self

    def egress(self, session_id: int) -> list[bytes]:
        """Return what the service sent to a session so far."""
        return [bytes(effect.value) for effect in self.effects if effect[:2] == ("egress", session_id)]

    def feed(self, topic: str) -> list[bytes]:
        """Return what the service published to a topic so far."""
        prefix = topic.encode() + b":"
        found = [bytes(effect.value) for effect in self.effects if effect.kind == "publish"]
        return [value[len(prefix) :] for value in found if value.startswith(prefix)]

    def query(self, payload: bytes) -> bytes:
        """Return the service's answer to a query.

        Raises ServiceError when the query has changed the service's state.
        """
        before = self.take_snapshot()
        self._callback, self._may_call = "on_query", False
        answer = self.service.on_query(payload)
        if not isinstance(answer, bytes):
            raise ServiceError(f"on_query must return bytes, returned {type(answer).__name__}")
        if self.take_snapshot() != before:
            raise ServiceError(f"on_query changed the state of the service: payload={payload!r}")
        return answer

    def take_snapshot(self) -> HarnessSnapshot:
        """Have the service write its state; return it with everything that a new harness needs to go on from here."""
        messages: list[bytes] = []
        writer = SnapshotWriter(messages.append, MESSAGE_BYTES_MAX)
        self._call("on_take_snapshot", False, writer)
        writer.close()
        sessions = tuple((session.id, session.encoded_principal) for session in self._sessions.values())
        sequences = tuple(self._sequences.items())
        own = (tuple(messages), self.log_position, self.time, sessions, tuple(self._timers), sequences)
        return HarnessSnapshot(*own, tuple(sorted(self._ids)), self._sequence.last)

    def state_hash(self) -> bytes | None:
        """Return the service's hash of its state, or None if it has no `state_hash`.

        Raises ServiceError when that is not bytes, or when computing it has changed the state.
        """
        if not implements_state_hash(type(self.service)):
            return None
        before = self.take_snapshot()
        self._callback, self._may_call = "state_hash", False
        found = hash_state(self.service)
        if self.take_snapshot() != before:
            raise ServiceError("state_hash changed the state of the service")
        return found

    # Cluster

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        return [self._sessions[session_id] for session_id in sorted(self._sessions)]

    def get_client_session(self, session_id: int) -> ClientSession | None:
        """Return the open session of that id, or None."""
        return self._sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        """Ask for a session to be closed. Raises ServiceError for an unknown id."""
        self._check_allowed("close_client_session")
        session = self._sessions.get(session_id)
        if session is None:
            raise ServiceError(f"unknown session: session_id={session_id}")
        if not session.is_closing:
            session.is_closing = True
            self.effects.append(Effect("close", session_id, 0))
        return True

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Fire once `AdvanceTime` reaches `deadline`; replace a timer of the same id."""
        self._check_allowed("schedule_timer")
        check_timer(correlation_id, deadline)
        self._remove_timer(correlation_id)
        insort(self._timers, (deadline, correlation_id))
        self.effects.append(Effect("schedule", correlation_id, deadline))
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        """Drop the timer, if there is one of that id."""
        self._check_allowed("cancel_timer")
        self._remove_timer(correlation_id)
        self.effects.append(Effect("cancel", correlation_id, 0))
        return True

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        """Take a message of the service, which comes back to it with `session` None: of one id the first alone."""
        self._check_allowed("offer")
        if id is None or check_request_id(id) not in self._ids:
            self._offered.append(to_bytes(payload))
        if id is not None:
            self._ids.add(bytes(id))
        self.effects.append(Effect("offer", 0, to_bytes(payload)))
        return max(1, len(self._offered))

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Publish to a feed: see `feed`. Returns the first message's sequence number."""
        self._check_allowed("publish")
        first = 0
        for data in map(to_bytes, (payload, *more)):
            check_publication(topic, len(data), self._sequences)
            sequence = self._sequences[topic] = self._sequences.get(topic, 0) + 1
            self.effects.append(Effect("publish", sequence, topic.encode() + b":" + data))
            first = first or sequence
        return first

    def idle(self) -> None:
        """Do nothing: every offer is taken at once, so there is nothing to wait for."""

    # Executing

    def _execute(self, item: Input) -> None:
        if isinstance(item, Message):
            self._on_message(item)
            return
        if isinstance(item, Query):
            self.effects.append(Effect("answer", 0, self.query(item.payload)))
            return
        self.time = max(self.time, item.timestamp)
        if isinstance(item, AdvanceTime):
            self._fire_timers(item.timestamp)
            return
        self._advance(0)
        if isinstance(item, OpenSession):
            session = HarnessSession(self, item.session_id, item.encoded_principal)
            self._sessions[item.session_id] = session
            self._call("on_session_open", True, session, item.timestamp)
        elif isinstance(item, CloseSession):
            session = self._sessions.pop(item.session_id)
            self._call("on_session_close", True, session, item.timestamp, item.close_reason)
        else:
            self.snapshots.append(self.take_snapshot())

    def _on_message(self, item: Message) -> None:
        if self._takes_runs:
            self._on_messages(item)
            return
        session = self._begin_message(item)
        try:
            answer = self._call("on_session_message", True, session, item.timestamp, item.payload, self._header)
        except Reject as why:
            self._reject_message(session, why)
        else:
            self._end_message(session, answer)

    def _on_messages(self, first: Message) -> None:
        run = HarnessRun(self, first)
        try:
            self._call("on_session_messages", False, run)
        except Reject as why:
            if not run.is_within:
                raise ServiceError(f"on_session_messages refused a message before it took one: {why}") from None
            self._reject_message(run.session, why)
            return
        run.end()
        if run._next is not None:
            raise ServiceError("on_session_messages took no message: iterate over its argument")

    @property
    def _takes_runs(self) -> bool:
        method = getattr(type(self.service), "on_session_messages", None)
        return method not in (ClusteredService.on_session_messages, None)

    def _take_message(self) -> Message | None:
        """Return the next message of a run, if one follows."""
        if not self._joins_messages or self._offered or not self._inputs or not isinstance(self._inputs[0], Message):
            return None
        item = self._inputs.popleft()
        assert isinstance(item, Message)
        return item

    def _begin_message(self, item: Message) -> HarnessSession | None:
        self.time = max(self.time, item.timestamp)
        self._advance(len(item.payload))
        self._may_call = True
        session = None if item.session_id is None else self._sessions[item.session_id]
        self._header.update(self.log_position, 0, self._sequence.next(), item.arrival_ns)
        if session is not None:
            session.identity = item.identity
        return session

    def _end_message(self, session: HarnessSession | None, answer: bytes | None) -> None:
        self._may_call = False
        if answer is not None and session is not None:
            self.effects.append(Effect("egress", session.id, to_bytes(answer, "the answer of on_session_message")))

    def _reject_message(self, session: HarnessSession | None, why: Reject) -> None:
        self._may_call = False
        self.effects.append(Effect("reject", 0 if session is None else session.id, to_utf8(str(why))))

    def _fire_timers(self, timestamp: int) -> None:
        while self._timers and self._timers[0][0] <= timestamp:
            _, correlation_id = self._timers.pop(0)
            self._advance(0)
            self._call("on_timer_event", True, correlation_id, timestamp)

    def _advance(self, payload_bytes: int) -> None:
        """Advance the position by the record's length in a log.

        That is 32 bytes of frame and 32 of message header, aligned to 32.
        """
        self.log_position += 64 + (payload_bytes + 31 & ~31)

    def _call(self, callback: str, may_call: bool, *arguments: object) -> bytes | None:
        self._callback, self._may_call = callback, may_call
        try:
            answer: bytes | None = getattr(self.service, callback)(*arguments)
        except SystemExit as end:
            raise exit_error(end) from end
        self._may_call = False
        for session in self._sessions.values():
            if session.error is not None:
                error, session.error = session.error, None
                raise error
        return answer

    def _on_egress(self, session: HarnessSession, payload: bytes) -> int:
        self._check_allowed("session.offer")
        if session.id not in self._sessions:
            return OfferResult.CLOSED
        if self.role is not Role.LEADER:
            return OfferResult.MOCKED
        self.effects.append(Effect("egress", session.id, payload))
        return self.log_position

    def _check_allowed(self, call: str) -> None:
        if not self._may_call:
            raise ServiceCallError(f"{call} is not allowed from {self._callback}; see ordo.service_api.service")

    def _remove_timer(self, correlation_id: int) -> None:
        self._timers = [timer for timer in self._timers if timer[1] != correlation_id]

    def _restore(self, snapshot: HarnessSnapshot) -> None:
        self.log_position, self.time = snapshot.position, snapshot.time
        self._timers, self._sequences = list(snapshot.timers), dict(snapshot.sequences)
        self._ids = set(snapshot.ids)
        self._sequence.restore(snapshot.sequence, True)
        for session_id, encoded_principal in snapshot.sessions:
            self._sessions[session_id] = HarnessSession(self, session_id, encoded_principal)


def _checked(service: Service) -> Service:
    """Return the service. Raises ServiceError with what keeps its class from being one, as a node's start says it."""
    if not isinstance(service, ClusteredService | NativeClusteredService):
        raise ServiceError(f"{str(service)[:100]} is no service: give a class derived from ClusteredService")
    if fault := find_fault(type(service)):
        raise ServiceError(fault)
    return service


def check_service(
    make_service: Callable[[], Service],
    inputs: Iterable[Input],
    *,
    snapshot_points: int = 8,
    time_unit: TimeUnit = TimeUnit.MILLIS,
) -> ServiceHarness:
    """Prove on these inputs that a service is deterministic and its snapshots hold its whole state.

    Also that taking a snapshot changes nothing.

    Runs them twice on fresh services, then from a snapshot at each of `snapshot_points` places spread over the inputs:
    once more on a service that is restored from it, and on the one that took it. A service that takes messages many at
    a time gets each alone in the second run. Raises ServiceError (what it did differs) or SnapshotError (what one does
    after a snapshot differs). Returns the first run.
    """
    items = list(inputs)
    make = partial(ServiceHarness, make_service, time_unit=time_unit)
    first = make().execute(*items)
    second = make(joins_messages=False).execute(*items)
    _compare_effects(first.effects, second.effects, ServiceError, "a second run of the same inputs")
    expected = first.take_snapshot()
    if expected != second.take_snapshot():
        raise ServiceError("not deterministic: two runs of the same inputs give different snapshots")
    if first.state_hash() != second.state_hash():
        raise ServiceError("not deterministic: two runs of the same inputs give different hashes (state_hash)")
    for point in sorted({len(items) * step // max(snapshot_points, 1) for step in range(snapshot_points)}):
        _check_snapshot(make, items, point, expected, first)
    return first


def _check_snapshot(
    make: Callable[..., ServiceHarness],
    items: list[Input],
    point: int,
    expected: HarnessSnapshot,
    first: ServiceHarness,
) -> None:
    effects = first.effects
    before = make().execute(*items[:point])
    restored = make(snapshot=before.take_snapshot()).execute(*items[point:])
    where = f"a service restored from its snapshot after input {point}"
    _compare_effects(effects[len(before.effects) :], restored.effects, SnapshotError, where)
    if restored.take_snapshot() != expected:
        raise SnapshotError(f"{where} ends in another snapshot; something is missing from on_take_snapshot")
    if restored.state_hash() != first.state_hash():
        raise SnapshotError(f"{where} ends with another state_hash; it may depend on nothing but the state")
    # A member that is forked for its snapshot goes on as if there had been none, and so must all others.
    where = f"a service that took a snapshot after input {point} and went on"
    _compare_effects(effects, before.execute(*items[point:]).effects, SnapshotError, where)
    if before.take_snapshot() != expected:
        raise SnapshotError(f"{where} ends in another snapshot; on_take_snapshot may not change the state")


def _compare_effects(expected: list[Effect], actual: list[Effect], error: type[ServiceError], where: str) -> None:
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if left != right:
            raise error(f"{where} differs at effect {index}: expected={left} actual={right}")
    if len(expected) != len(actual):
        raise error(f"{where} did {len(actual)} things instead of {len(expected)}")

"""Runs a service over log records outside a cluster: the same callbacks with the same arguments, what it does is noted.

The service believes that it leads, so that its offers to sessions are seen; nothing leaves the process.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ordo.cluster.wire import codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.recordings.recorded_feeds import FeedState
from ordo.pipeline.replaying import replay_requests
from ordo.pipeline.replaying.session_records import parse_open
from ordo.runtime.errors import DecodeError, Reject, ServiceCallError, ServiceError, SnapshotError
from ordo.runtime.payloads import to_bytes, to_utf8
from ordo.service_api.cluster import ID_OF_SERVICE
from ordo.service_api.feeds import check_publication
from ordo.service_api.native import Header, MessageSequence, SinkSession
from ordo.service_api.request_ids import PrincipalIds
from ordo.service_api.requests import IdentityState, RequestTable
from ordo.service_api.service import (
    ClientSession,
    CloseReason,
    NewLeadershipTermEvent,
    OfferResult,
    Payload,
    Role,
    Service,
    TimeUnit,
)
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.timers import ServiceTimers

SNAPSHOT_MESSAGE_BYTES_MAX = 128 * 1024
_NEW_TERM = struct.Struct("<qqqqiiii")


class Effect(NamedTuple):
    """Something a service did. `kind`: egress, offer, schedule, cancel, close, reject; `key`: session or timer."""

    kind: str
    key: int
    value: bytes | int

    def describe(self) -> str:
        value = self.value.hex() if isinstance(self.value, bytes) else self.value
        return f"{self.kind} {self.key}: {value}"


class SnapshotState(NamedTuple):
    """A service snapshot recording (cluster-consensus.md §16.3)."""

    log_position: int
    leadership_term: int
    time_unit: int
    sessions: tuple[tuple[int, int, str, bytes], ...]
    messages: tuple[bytes, ...]
    timers: tuple[tuple[int, int], ...] = ()
    """(correlation id, deadline)."""
    requests: tuple[IdentityState, ...] = ()
    feeds: tuple[FeedState, ...] = ()
    request_ids: tuple[PrincipalIds, ...] = ()
    takes_ids: bool = False
    """The log may have requests with ids: it has protocol level 3."""
    takes_output_ids: bool = False
    """The same of outputs, from level 5 on."""
    sequence: int = -1
    """The number of the last message; -1 where messages have none."""
    keeps_sequence: bool = False
    """The log has the protocol level of such numbers, 6."""

    @property
    def data(self) -> bytes:
        """The service's own bytes; where it cut them into messages does not matter."""
        return b"".join(self.messages)


def decode_snapshot(messages: Iterable[bytes]) -> SnapshotState:
    """Raise PipelineError when the messages are no service snapshot, or not a whole one."""
    stream = iter(messages)
    try:
        head = container_snapshot.decode(stream)
    except (SnapshotError, DecodeError) as error:
        raise PipelineError(f"this is no service snapshot, or not a whole one: {error}") from error
    sessions = tuple(
        (entry.cluster_session_id, entry.response_stream_id, entry.response_channel, entry.encoded_principal)
        for entry in head.sessions
    )
    feeds = tuple(FeedState(entry.topic, entry.sequence, entry.position) for entry in head.feeds)
    parts = (sessions, tuple(stream), head.timers, head.requests, feeds)
    ids = (head.request_ids, head.takes_ids, head.takes_output_ids, head.sequence, head.keeps_sequence)
    return SnapshotState(head.log_position, head.leadership_term_id, int(head.time_unit), *parts, *ids)


def snapshot_position(messages: Iterable[bytes]) -> int:
    """Log position in a snapshot's first marker, without reading the rest. Raises PipelineError when there is none."""
    first = next(iter(messages), b"")
    table, values = codecs.decode(first) or (None, None)
    if values is None or table is not codecs.SNAPSHOT_MARKER or values.type_id != codecs.SNAPSHOT_TYPE_SERVICE:
        raise PipelineError(f"a service snapshot has no marker where one must be: {bytes(first[:16]).hex()}")
    if values.mark != codecs.SnapshotMark.BEGIN:
        raise PipelineError(
            f"a service snapshot begins with marker {values.mark}, expected {codecs.SnapshotMark.BEGIN}"
        )
    return int(values.log_position)


class ReplaySession(SinkSession):
    """A client session of the log."""

    def __init__(self, cluster: ReplayCluster, session_id: int, stream_id: int, channel: str, principal: bytes) -> None:
        super().__init__(session_id, cluster.on_egress)
        self._cluster = cluster
        self.response_stream_id = stream_id
        self.response_channel = channel
        self.encoded_principal = principal
        self.is_closing = False

    def offer(self, payload: Payload) -> int:
        return self._cluster.on_egress(self, to_bytes(payload))

    def reply(self, payload: Payload) -> None:
        self._cluster.on_reply(self, to_bytes(payload))

    def close(self) -> None:
        if self._cluster.get_client_session(self.id) is not None:
            self._cluster.close_client_session(self.id)


class ReplayCluster:
    """One service with its `Cluster`. `execute` runs one record; `effects` holds what the service did in it."""

    member_id = 0
    role = Role.LEADER

    def __init__(
        self,
        make_service: Callable[[], Service],
        snapshot: SnapshotState | None,
        time_unit: int,
        skips: Mapping[int, str] | None = None,
    ) -> None:
        """`skips`: texts of the records that are left out, by their positions."""
        self._skips = skips or {}
        self.log_position = snapshot.log_position if snapshot else 0
        self.time = 0
        self.time_unit: TimeUnit | None = TimeUnit(snapshot.time_unit if snapshot else time_unit)
        self.effects: list[Effect] = []
        self.service = make_service()
        self._sessions: dict[int, ReplaySession] = {}
        self._sequences = {feed.topic: feed.sequence for feed in snapshot.feeds} if snapshot else {}
        self._timers = ServiceTimers(snapshot.timers if snapshot else ())
        self._header = Header()
        self._sequence = MessageSequence()
        self._term = snapshot.leadership_term if snapshot else -1
        self._may_call = False
        self._replies: list[bytes] = []
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "message": self._on_message,
            "session_open": self._on_open,
            "session_close": self._on_close,
            "timer": self._on_timer,
            "new_term": self._on_new_term,
            "identity": self._on_request,
            "request": self._on_request,
            "level": self._on_rule,
            "cluster_action": self._on_rule,
        }
        self._requests = RequestTable()
        if snapshot:
            self._requests.restore(snapshot.requests)
            self._requests.ids.restore(snapshot.request_ids, snapshot.takes_ids, snapshot.takes_output_ids)
            self._sequence.restore(snapshot.sequence, snapshot.keeps_sequence)
        for session_id, stream_id, channel, principal in snapshot.sessions if snapshot else ():
            self._sessions[session_id] = ReplaySession(self, session_id, stream_id, channel, principal)
        self.service.on_start(self, SnapshotReader(snapshot.messages) if snapshot else None)

    def execute(self, record: dict[str, Any]) -> list[Effect]:
        """Effects of one record.

        A row with kind, position, cluster_time, session_id, correlation_id, payload, and arrival_ns.
        """
        self.effects = []
        self.log_position = record["position"]
        if record["cluster_time"] is not None:
            self.time = record["cluster_time"]
        handler = self._handlers.get(record["kind"])
        if handler is not None:
            self._may_call = True
            handler(record)
            self._may_call = False
            self._raise_sink_errors()
        return self.effects

    def take_snapshot(self) -> SnapshotState:
        """Return the state of the service after the last record."""
        messages: list[bytes] = []
        writer = SnapshotWriter(messages.append, SNAPSHOT_MESSAGE_BYTES_MAX)
        self.service.on_take_snapshot(writer)
        writer.close()
        sessions = tuple(
            (entry.id, entry.response_stream_id, entry.response_channel, bytes(entry.encoded_principal))
            for _, entry in sorted(self._sessions.items())
        )
        timers = tuple(self._timers.snapshot())
        parts = (sessions, tuple(messages), timers, tuple(self._requests.snapshot()))
        ids = self._requests.ids
        unit = int(self.time_unit or 0)
        last, is_kept = self._sequence.snapshot()
        return SnapshotState(
            self.log_position,
            self._term,
            unit,
            *parts,
            request_ids=tuple(ids.snapshot()),
            takes_ids=ids.is_in_force,
            takes_output_ids=ids.takes_outputs,
            sequence=last,
            keeps_sequence=is_kept,
        )

    # What a service sees

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        return [self._sessions[session_id] for session_id in sorted(self._sessions)]

    def get_client_session(self, session_id: int) -> ClientSession | None:
        return self._sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        session = self._sessions.get(session_id)
        if session is None:
            raise ServiceError(f"unknown session: session_id={session_id}")
        if not session.is_closing:
            session.is_closing = True
            self._note("close", session_id, 0)
        return True

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self._timers.schedule(correlation_id, deadline)
        self._note("schedule", correlation_id, deadline)
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        self._note("cancel", correlation_id, 0)
        self._timers.cancel(correlation_id)
        return True

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        if id is not None:
            raise ServiceCallError(ID_OF_SERVICE)
        self._note("offer", 0, to_bytes(payload))
        return 1

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Note what goes to a feed, with its number in the topic as far as this replay goes; return the first one's."""
        first = 0
        for data in map(to_bytes, (payload, *more)):
            check_publication(topic, len(data))
            sequence = self._sequences[topic] = self._sequences.get(topic, 0) + 1
            self._note("publish", sequence, topic.encode() + b":" + data)
            first = first or sequence
        return first

    def idle(self) -> None:
        """Every offer is taken at once, so there is nothing to wait for."""

    def on_egress(self, session: ReplaySession, payload: bytes) -> int:
        """Note what a session offers to its client."""
        if session.id not in self._sessions:
            return OfferResult.CLOSED
        self._note("egress", session.id, to_bytes(payload))
        return max(1, self.log_position)

    # Records

    def _note(self, kind: str, key: int, value: bytes | int) -> None:
        if not self._may_call:
            raise ServiceError(f"{kind} from a callback that may not: see ordo.service_api.service")
        self.effects.append(Effect(kind, key, value))

    def _on_message(self, record: dict[str, Any]) -> None:
        session_id = record["session_id"]
        session = self._sessions.get(session_id) if session_id >= 0 else None
        if session is None and session_id >= 0:
            return  # as the container: a message of a session that is not open is not delivered
        self._call(session, record["payload"], record.get("arrival_ns"))

    def _on_rule(self, record: dict[str, Any]) -> None:
        """Take a protocol level, which says what is kept of answers and of messages' numbers, or pass a snapshot."""
        payload, ids = bytes(record["payload"] or b""), self._requests.ids
        level = replay_requests.parse_level(payload)
        ids.is_in_force = ids.is_in_force or level >= replay_requests.REQUEST_ID_LEVEL
        ids.takes_outputs = ids.takes_outputs or level >= replay_requests.OUTPUT_ID_LEVEL
        if level >= replay_requests.SEQUENCE_LEVEL:
            self._sequence.keep(self.log_position)
        if replay_requests.is_snapshot(payload):
            self._sequence.pass_snapshot()

    def _on_request(self, record: dict[str, Any]) -> None:
        """Execute what a client asks for by requests."""
        message = replay_requests.parse(bytes(record["payload"]))
        session = self._sessions.get(message.session_id) if message is not None else None
        if message is None or session is None:
            return
        self.time = message.time
        principal, position = bytes(session.encoded_principal), record["position"]
        if isinstance(message, replay_requests.OpenIdentity):
            known = message.known_position
            self._requests.open(message.identity, principal, message.incarnation, known, position, self.time)
            return
        judged = self._requests.judge(
            message.open_position,
            principal,
            message.number,
            message.confirmed,
            self.time,
            message.request_id if not message.is_output or self._requests.ids.takes_outputs else b"",
            message.payload,
        )
        if judged is None:
            return
        session.identity = judged.identity
        status, answer = self._call(session, message.payload, message.arrival_ns)
        session.identity = None
        if len(answer) > self._requests.answer_bytes_max:
            status, answer = replay_requests.TOO_LONG, b"an answer of %d bytes" % len(answer)
        self._requests.note(judged, position, status, answer)

    def _call(self, session: ReplaySession | None, payload: bytes, arrival_ns: int | None) -> tuple[int, bytes]:
        """Status and payload of the service's answer; what it sends to a session is an effect, and so is a refusal."""
        self._header.update(self.log_position, self._term, self._sequence.next(), arrival_ns)
        replies = self._replies = []
        try:
            if self.log_position in self._skips:
                raise Reject(self._skips[self.log_position])
            answer = self.service.on_session_message(session, self.time, payload, self._header)
        except Reject as why:
            text = to_utf8(str(why))
            self._note("reject", -1 if session is None else session.id, text)
            return replay_requests.REJECTED, text
        if answer is not None and session is not None:
            session.reply(answer)
        return replay_requests.OK, replies[-1] if replies else b""

    def on_reply(self, session: ReplaySession, payload: bytes) -> None:
        self._replies.append(payload)
        self._note("egress", session.id, payload)

    def _on_open(self, record: dict[str, Any]) -> None:
        channel, principal = parse_open(record["payload"])
        (stream_id,) = struct.unpack_from("<i", record["payload"], 40)
        session = ReplaySession(self, record["session_id"], stream_id, channel, principal)
        self._sessions[session.id] = session
        if self.log_position not in self._skips:
            self.service.on_session_open(session, self.time)

    def _on_close(self, record: dict[str, Any]) -> None:
        session = self._sessions.pop(record["session_id"], None)
        if session is not None and self.log_position not in self._skips:
            (reason,) = struct.unpack_from("<i", record["payload"], 32)
            self.service.on_session_close(session, self.time, CloseReason(reason))

    def _on_timer(self, record: dict[str, Any]) -> None:
        is_due = self._timers.fire(record["correlation_id"], self.time)
        if is_due and self.log_position not in self._skips:
            self.service.on_timer_event(record["correlation_id"], self.time)

    def _on_new_term(self, record: dict[str, Any]) -> None:
        term, position, time, base, leader, log_session_id, unit, app_version = _NEW_TERM.unpack_from(
            record["payload"], 8
        )
        former, self._term, self.time_unit = self.time_unit, term, TimeUnit(max(0, unit))
        if former not in (None, self.time_unit):
            self._timers.rescale(former, self.time_unit)
            if self.log_position not in self._skips:
                self.service.on_time_unit(former, self.time_unit)
        event = NewLeadershipTermEvent(term, position, time, base, leader, log_session_id, self.time_unit, app_version)
        if self.log_position not in self._skips:
            self.service.on_new_leadership_term(event)

    def _raise_sink_errors(self) -> None:
        for session in self._sessions.values():
            if session.error is not None:
                error, session.error = session.error, None
                raise error


class OfferCheck:
    """Checks that the messages which the service put into the log are those it offers in the replay, in order.

    Those offered before the stretch began are not known; until the first match any may come.
    """

    def __init__(self) -> None:
        self._offered: deque[bytes] = deque()
        self.matched = 0

    def note(self, effects: Iterable[Effect]) -> None:
        self._offered.extend(bytes(effect.value) for effect in effects if effect.kind == "offer")

    def unexpected(self, payload: bytes) -> bytes | None:
        """Return what was expected instead of a service message in the log, or None when it fits."""
        if self._offered and self._offered[0] == payload:
            self._offered.popleft()
            self.matched += 1
            return None
        return (self._offered[0] if self._offered else b"") if self.matched else None


def lockstep(left: Iterable[Effect], right: Iterable[Effect]) -> tuple[Effect | None, Effect | None] | None:
    """Return the first pair that differs, or None."""
    one, two = list(left), list(right)
    if one == two:
        return None
    for index in range(max(len(one), len(two))):
        pair = (one[index] if index < len(one) else None, two[index] if index < len(two) else None)
        if pair[0] != pair[1]:
            return pair
    return None


def iterate(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of record batches."""
    for batch in batches:
        yield from batch.to_pylist()

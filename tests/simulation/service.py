"""The deterministic service under test: registers, timers and messages to itself, with a hash over all it has seen."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

from ordo.runtime.errors import Reject
from ordo.runtime.native.cluster_time import TimeUnit, time_ns
from ordo.service_api.service import Cluster, ClusteredService, MessageRun
from tests.simulation.app_service import GROUP_IDENTITY, AppOutput
from tests.simulation.operations import NONE_VALUE, Kind, Request, decode_reply, decode_request, encode_reply, later
from tests.simulation.questions import Answer, decode_question

DIGESTS_KEPT = 256
FEED_TOPIC = "records"


class Observer(Protocol):
    """Hears what the services of all members do."""

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        """One record; `digest` covers all records so far. `wrong`: what must not have happened, else ''."""

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        """A service was started, from a snapshot at `position` or from 0."""

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        """A service took a snapshot."""

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        """A message is about to be executed, and has this number."""

    def on_arrived(self, member_id: int, position: int, arrival_ns: int | None) -> None:
        """The same message arrived then at the leader."""

    def on_request(self, session_id: int, request: Request, position: int) -> None:
        """A client's request was executed, perhaps not for the first time and not on the first member."""


@dataclass
class State:
    """All that a snapshot holds. Keys of `sessions` are session ids, of `timers` correlation ids."""

    digest: str = ""
    registers: dict[int, int] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    """Last number of each."""
    opened: list[int] = field(default_factory=list)
    messages_sent: int = 0
    messages_received: int = 0
    padding: str = ""
    differs: bool = False
    """No other member has this: the memory of this one went wrong. It is in snapshots, and nowhere else."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> State:
        values = json.loads(data)
        for name in ("registers", "sessions", "timers"):
            values[name] = {int(key): value for key, value in values[name].items()}
        return cls(**values)


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def feed_payload(position: int, digest: str) -> bytes:
    """What is published for a record; some of it in several fragments."""
    return digest.encode() + bytes(position // 32 % 97 * 40)


@lru_cache(DIGESTS_KEPT)
def chain(digest: str, record: str, outcome: bytes) -> str:
    """The state hash after one more record. Every member computes the same, so it is kept for a while."""
    return digest_of(f"{digest}{record}".encode() + outcome)


class RegisterService(ClusteredService):
    """One instance for each life of a member; everything it executes is told to the observer."""

    def __init__(self, member_id: int, observer: Observer, snapshot_padding_bytes: int = 0, version: int = 1) -> None:
        """`version` is part of what the state's hash covers: no two versions make the same of a record."""
        self.member_id = member_id
        self.version = version
        self.state = State()
        self._observer = observer
        self._padding = snapshot_padding_bytes
        self.publishes = False
        """Whether every record is published to FEED_TOPIC."""
        self.fails_next = False
        """Makes the service raise, at its next record, an error that no other member has."""
        self._latest_ns = 0
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        self._cluster = cluster
        if snapshot is not None:
            data = snapshot.read()
            self.state = State.decode(data)
            self._observer.on_started(self.member_id, cluster.log_position, self._digest())
        else:
            self._observer.on_started(self.member_id, 0, "")

    def _digest(self) -> str:
        """Of what all members have."""
        return digest_of(replace(self.state, differs=False).encode())

    def _done(self, position: int, text: str, wrong: str = "", outcome: bytes = b"") -> None:
        text += f" version={self.version}" if self.version > 1 else ""
        digest = self.state.digest = chain(self.state.digest, f"{position} {text} {wrong}", outcome)
        if self.publishes:
            self.cluster.publish(FEED_TOPIC, feed_payload(position, digest))
        self._observer.on_executed(self.member_id, position, digest, text, wrong)

    def on_session_open(self, session: Any, timestamp: int) -> None:
        state, wrong = self.state, ""
        if session.id in state.opened:
            wrong = f"session id {session.id} is opened a second time"
        state.opened.append(session.id)
        state.sessions[session.id] = 0
        self._done(self.cluster.log_position, f"open session={session.id} time={timestamp}", wrong)

    def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
        wrong = "" if session.id in self.state.sessions else f"session {session.id} is closed, and was not open"
        self.state.sessions.pop(session.id, None)
        text = f"close session={session.id} reason={close_reason.name} time={timestamp}"
        self._done(self.cluster.log_position, text, wrong)

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        self._observer.on_numbered(self.member_id, header.position, header.sequence)
        self._observer.on_arrived(self.member_id, header.position, header.arrival_ns)
        if session is None:
            self._on_own_message(payload, header.position)
            return None
        if session.identity == GROUP_IDENTITY:
            self._on_output(payload, header.position)
            return None
        request = decode_request(payload)
        if request is None:
            self._done(header.position, f"message session={session.id}", "a payload that no client sent", payload)
            return None
        session_id, position = session.id, header.position
        if session.identity is None:
            wrong = self._check_order(session_id, request.number)
        else:
            wrong = self._check_once(session.identity.hex(), request.number)
        wrong = self._check_time(timestamp) or wrong
        self._fail(request)
        self._observer.on_request(session_id, request, position)
        reply = self._apply(session, request, timestamp)
        text = f"{request.kind.name} session={session_id} client={request.client} number={request.number}"
        text += f" arrival={header.arrival_ns}" if header.arrival_ns is not None else ""
        self._done(position, text, wrong, reply + timestamp.to_bytes(8, "little"))
        if session.identity is None:
            session.offer(reply)
            return None
        if request.kind is Kind.CAS and not decode_reply(reply).ok:
            raise Reject(reply.hex())
        return reply

    def _on_output(self, payload: bytes, position: int) -> None:
        """An application's: each of them once, in order."""
        output, identity = AppOutput.decode(payload), GROUP_IDENTITY.hex()
        last = self.state.identities.get(identity, 0)
        wrong = "" if output.count == last + 1 else f"output {output.count} of the application after {last}"
        self.state.identities[identity] = output.count
        self._done(position, output.describe(), wrong, payload)

    def _check_once(self, identity: str, number: int) -> str:
        last = self.state.identities.get(identity, 0)
        if number <= last:
            return f"identity {identity}: number {number} after {last}: executed twice, or out of order"
        self.state.identities[identity] = number
        return ""

    def _check_order(self, session_id: int, number: int) -> str:
        last = self.state.sessions.get(session_id)
        if last is None:
            return f"a message of session {session_id}, which is not open"
        if number <= last:
            return f"session {session_id}: number {number} after {last}: doubled or out of order"
        self.state.sessions[session_id] = number
        return ""

    def _fail(self, request: Request) -> None:
        """Raises in the middle of its work, where it is to."""
        if request.kind is Kind.POISON or self.fails_next:
            self.state.registers[0] = self.state.messages_received = request.number
            self.state.digest = "half done"
            if self.publishes:
                self.cluster.publish(FEED_TOPIC, b"half done")
            is_own, self.fails_next = self.fails_next and request.kind is not Kind.POISON, False
            raise RuntimeError("of this member alone") if is_own else ValueError("poison")

    def _apply(self, session: Any, request: Request, timestamp: int) -> bytes:
        """The answer."""
        state = self.state
        ok, value = True, NONE_VALUE
        match request.kind:
            case Kind.READ:
                value = state.registers.get(request.first, NONE_VALUE)
            case Kind.WRITE:
                state.registers[request.first] = request.second
            case Kind.CAS:
                ok = state.registers.get(request.first, NONE_VALUE) == request.third
                if ok:
                    state.registers[request.first] = request.second
            case Kind.TIMER:
                deadline = state.timers[request.first] = later(self.cluster, timestamp, request.second)
                self.cluster.schedule_timer(request.first, deadline)
            case Kind.CANCEL:
                state.timers.pop(request.first, None)
                self.cluster.cancel_timer(request.first)
            case Kind.MESSAGE:
                state.messages_sent += 1
                self.cluster.offer(struct.pack("<q", state.messages_sent))
            case Kind.CLOSE:
                session.close()
        return encode_reply(request, ok, value)

    def _on_own_message(self, payload: bytes, position: int) -> None:
        if len(payload) != 8:
            self._done(position, "message of another service", "", payload)
            return
        (number,) = struct.unpack("<q", payload)
        expected, wrong = self.state.messages_received + 1, ""
        if number != expected or number > self.state.messages_sent:
            wrong = f"service message {number}, expected {expected} of {self.state.messages_sent} sent"
        self.state.messages_received = number
        self._done(position, f"service message number={number}", wrong)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        state, wrong = self.state, ""
        deadline = state.timers.pop(correlation_id, None)
        if deadline is not None and timestamp < deadline:
            wrong = f"timer {correlation_id} fired at {timestamp}, before its deadline {deadline}"
        elif deadline is None:
            wrong = f"timer {correlation_id} fired, and is not scheduled"
        wrong = self._check_time(timestamp) or wrong
        self._done(self.cluster.log_position, f"timer id={correlation_id} time={timestamp}", wrong)

    def _check_time(self, timestamp: int) -> str:
        """As far as this instance has seen times; they are no part of its state."""
        before_ns, self._latest_ns = self._latest_ns, max(self._latest_ns, time_ns(timestamp))
        return f"time {timestamp} comes after {before_ns} ns" if time_ns(timestamp) < before_ns else ""

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        timers = self.state.timers
        timers.update({one: former.rescale(deadline, unit) for one, deadline in timers.items()})

    def on_new_leadership_term(self, event: Any) -> None:
        text = f"term {event.leadership_term_id} leader={event.leader_member_id} time={event.timestamp}"
        self._done(event.log_position, text)

    def on_query(self, payload: bytes) -> bytes:
        value = self.state.registers.get(decode_question(payload), NONE_VALUE)
        return Answer(value, self.state.digest).encode()

    def state_hash(self) -> bytes:
        return replace(self.state, padding="").encode()

    def on_take_snapshot(self, writer: Any) -> None:
        self.state.padding = "x" * self._padding
        writer.write(self.state.encode())
        self._observer.on_snapshot(self.member_id, self.cluster.log_position, self._digest())


class RunService(RegisterService):
    """The same, which takes its messages many at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for payload in messages:
            answer = self.on_session_message(messages.session, messages.timestamp, payload, messages.header)
            if answer is not None:
                messages.reply(answer)

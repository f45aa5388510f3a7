"""The door of a cluster's client: what strangers send to its egress, and what a leader that lies says in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.ordo_codecs import AnswerStatus, QueryStatus
from ordo.runtime.errors import OrdoError
from ordo.runtime.sbe import Message
from ordo.transport.uri import ChannelUri
from tests.cluster.client.session_members import Member, SessionWorld, SimulatedProcess
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import Fields, Step, draw_fields, pack, unpack
from tests.fuzz.filled import fill

MS = 1_000_000
STEPS_MAX = 24
ASKED_MAX = 8
PASSES_MAX = 20_000
SESSION_BASE = 0x5A5A_1234_0000_0000
"""So high that nobody comes upon a session's id by trying."""
OPEN_POSITION = 640
TIMES_NS = (1 * MS, 20 * MS, 300 * MS)
EGRESS: tuple[Message, ...] = (
    codecs.SESSION_EVENT,
    codecs.NEW_LEADER_EVENT,
    codecs.CHALLENGE,
    codecs.SESSION_MESSAGE_HEADER,
    codecs.ADMIN_RESPONSE,
    ordo_codecs.QUERY_RESPONSE,
    ordo_codecs.IDENTITY_OPENED,
    ordo_codecs.ANSWER,
    ordo_codecs.MESSAGES_MARKED,
    ordo_codecs.FEED_STATE,
)


class ToldWorld(SessionWorld):
    """Two members that answer requests and queries as they should, and a stranger."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.executed: set[int] = set()
        """Numbers of the client's identity."""
        super().__init__(2)
        self._seen = [0, 0]
        self.stranger = SimulatedProcess(self, "10.0.2.1", "stranger")
        self._processes.append(self.stranger)
        self._speech: Any = None

    def step(self, delta_ns: int = 50_000) -> None:
        super().step(delta_ns)
        for member in self.members:
            for name, values in member.received[self._seen[member.member_id] :]:
                self.asked.append((name, values))
                self._answer(member, name, values)
            self._seen[member.member_id] = len(member.received)

    def _open(self, member: Member, request: Any, correlation_id: int) -> None:
        session_id = SESSION_BASE + len(self.sessions) + 1
        self.sessions[session_id] = request
        member.send_event(request.response_channel, session_id, correlation_id, EventCode.OK)

    def _answer(self, member: Member, name: str, values: Any) -> None:
        if member.member_id != self.leader_id or getattr(values, "cluster_session_id", 0) not in self.sessions:
            return
        ids = {"cluster_session_id": values.cluster_session_id, "leadership_term_id": self.leadership_term_id}
        if name == "OpenIdentity":
            opened = {"open_position": OPEN_POSITION, "number": max(self.executed, default=0), "confirmed": 0}
            message = ordo_codecs.IDENTITY_OPENED.encode(
                incarnation=values.incarnation, timestamp=77, status=0, length_bytes_max=1000, **opened, **ids
            )
        elif name == "Request":
            self.executed.add(values.number)
            answer = {"open_position": values.open_position, "number": values.number, "log_position": 1024}
            message = ordo_codecs.ANSWER.encode(timestamp=77, status=AnswerStatus.OK, **answer, **ids)
            message += b"%d" % values.number
        else:
            return
        channel = self.sessions[values.cluster_session_id].response_channel
        if channel in member.publications:
            member.send(channel, message)

    def on_query(self, member: Member, query: Any) -> None:
        channel = self.sessions[query.cluster_session_id].response_channel
        if channel in member.publications:
            told = {"cluster_session_id": query.cluster_session_id, "correlation_id": query.correlation_id}
            where = {"log_position": 1024, "member_id": member.member_id}
            member.send(
                channel,
                ordo_codecs.QUERY_RESPONSE.encode(status=QueryStatus.OK, payload=query.payload, **told, **where),
            )

    def say_as_stranger(self, message: bytes) -> None:
        """To the client's egress, from a driver that no member has anything to do with."""
        if self._speech is None or not self._speech.is_connected:
            request = next(values for name, values in self.asked if name == "SessionConnectRequest")
            endpoint = ChannelUri.parse(request.response_channel).endpoint
            channel, stream_id = f"aeron:udp?endpoint={endpoint}", request.response_stream_id
            self._speech = self.stranger.client.add_exclusive_publication(channel, stream_id)
        for _ in range(200):
            if self._speech.offer(message or b"\0") > 0:
                return
            self.step()

    def say_as_leader(self, message: bytes) -> None:
        request = next(reversed(self.sessions.values()))
        if request.response_channel in self.leader.publications:
            self.leader.send(request.response_channel, message or b"\0")

    def known(self, session_id: int) -> dict[str, Any]:
        """Values that mean something, for who knows the session's id, or believes that it is `session_id`."""
        numbers = [values.correlation_id for _, values in reversed(self.asked) if hasattr(values, "correlation_id")]
        endpoints = self.endpoint_text
        return {
            "cluster_session_id": (session_id, session_id, -1),
            "correlation_id": numbers[:4] or [0],
            "leadership_term_id": (self.leadership_term_id, self.leadership_term_id + 1, 2**63 - 1),
            "leader_member_id": (self.leader_id, 1 - self.leader_id, 7, -1),
            "member_id": (0, 1, 7),
            "code": tuple(EventCode),
            "status": tuple(AnswerStatus),
            "level": (0, 1, 2),
            "number": (1, 0, max(self.executed, default=0)),
            "known_number": (1, 0),
            "confirmed": (0, 1),
            "open_position": (OPEN_POSITION, 0, -1),
            "log_position": (1024, 0, -1),
            "incarnation": [values.incarnation for name, values in self.asked if name == "OpenIdentity"][-1:] or [0],
            "detail": ("", "no", "message_bytes_max=1", "\n" * 300, "room", "1=10.0.0.9:1"),
            "ingress_endpoints": (endpoints, "", "0=", "x", "1=10.0.0.2:9000", "0=10.0.0.1:99999", "9=" + "h" * 300),
            "payload": (b"", b"no", b"\xff" * 100),
            "encoded_challenge": (b"", b"\0" * 100),
            "gaps": (b"", bytes(16), bytes(7), b"\xff" * 16),
            "message": ("", "no"),
        }


class AskingUser:
    """A client in order, whose user goes on whatever comes of it."""

    def __init__(self, world: ToldWorld) -> None:
        self.world = world
        self.errors: list[str] = []
        self.requests: list[Any] = []
        self.queries: list[Any] = []
        self.events: list[str] = []
        self.given_back: list[Any] = []
        self.messages: list[bytes] = []
        self.client: ClusterClient = world.client(
            reconnect=True,
            on_event=lambda event: self.events.append(event.kind),
            on_message=lambda session_id, timestamp, payload: self.messages.append(payload),
            on_unsequenced=self.given_back.append,
        )

    def guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OrdoError as error:
            self.errors.append(str(error))

    def run(self, duration_ns: int) -> None:
        step_ns = max(50_000, duration_ns // 100)
        until_ns = self.world.clock.now() + duration_ns
        while self.world.clock.now() < until_ns:
            self.guarded(self.client.poll)
            self.world.step(step_ns)

    def ask(self, fields: Fields) -> None:
        kind = fields.byte() % 3
        if kind == 0 and len(self.requests) < ASKED_MAX:
            self.guarded(lambda: self.requests.append(self.client.submit(b"ask")))
        elif kind == 1 and len(self.queries) < ASKED_MAX:
            self.guarded(lambda: self.queries.append(self.client.start_query(b"question")))
        else:
            self.guarded(lambda: self.client.offer(b"said"))

    def check_answers(self) -> None:
        """Where only strangers lied, each request has its own answer, each query the leader's, in the first session."""
        for _ in range(PASSES_MAX):
            if all(one.is_done for one in [*self.requests, *self.queries]):
                break
            self.run(1 * MS)
        for request in self.requests:
            if request.error is not None or request.answer is None or request.answer.payload != b"%d" % request.number:
                raise Finding(f"request {request.number} has {request.answer}, {request.error}")
        for query in self.queries:
            if query.reply is None or query.reply.payload != b"question":
                raise Finding(f"a query has {query.reply}, {query.error}")
        if (
            self.errors
            or self.given_back
            or set(self.events) - {"opened", "limited", "leader"}
            or set(self.messages) - {b"said"}
        ):
            raise Finding(f"{self.errors} {self.given_back} {self.events} {self.messages}")


Act = Callable[[ToldWorld, AskingUser, Fields], None]


def ask(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    user.ask(fields)


def stranger_says(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    world.say_as_stranger(said(fields, world.known(fields.choose((1, -1, SESSION_BASE >> 8)))))


def said(fields: Fields, known: dict[str, Any]) -> bytes:
    """A message that may be cut short, or have more behind it."""
    message, length, at = fields.choose(EGRESS), fields.choose((1, 1, 1, 1, 0, 2)), fields.byte()
    filled = fill(message, fields, known)
    return (filled[: at % len(filled)], filled, filled + b"payload")[length]


def stranger_says_anything(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    world.say_as_stranger(fields.rest())


def let_time_pass(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    user.run(fields.choose(TIMES_NS))


def another_leads(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    user.run(20 * MS)  # what the old one has answered is there
    world.fail_over(1 - world.leader_id, stop=False)
    user.run(300 * MS)


def leader_lies(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    world.say_as_leader(said(fields, world.known(next(reversed(world.sessions)))))


def leader_says_anything(world: ToldWorld, user: AskingUser, fields: Fields) -> None:
    world.say_as_leader(fields.rest())


ACTS: tuple[Act, ...] = (
    ask,
    stranger_says,
    stranger_says_anything,
    let_time_pass,
    another_leads,
    leader_lies,
    leader_says_anything,
)
LIES = (5, 6)
LIKELY = (0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5, 6)


class ClientDoor:
    """Steps are what a client asks, and what it is told by the cluster, by strangers and by a leader that lies; kinds
    are those of ACTS. Strangers change nothing; whoever lies, the client's user sees errors of the tree, and the next
    client is served."""

    name = "clients"

    def seeds(self) -> list[bytes]:
        random = Random(1)
        asked = [(0, b""), (0, b"\1"), (0, b"\2"), (3, b"\1")]
        whole = [bytes([index]) for index in range(len(EGRESS))]
        cut = [bytes([index, 4, 20]) for index in range(len(EGRESS))]
        return [
            pack([*asked, *((1, b"\0" + message) for message in [*whole, *cut]), *asked]),
            pack([*asked, (4, b""), *asked, (1, b""), (2, b"anything")]),
            *(pack([*asked, (0, b""), (5, message), (3, b"\1"), *asked]) for message in [*whole, *cut]),
            *(pack([*asked, *(self.draw(random) for _ in range(8))]) for _ in range(4)),
        ]

    def draw(self, random: Random) -> Step:
        rest = draw_fields(random, 24)
        return random.choice(LIKELY), rest

    def run(self, data: bytes) -> Hashable:
        world = ToldWorld()
        try:
            user = AskingUser(world)
            kinds = []
            for kind, step in unpack(data, STEPS_MAX):
                ACTS[kind % len(ACTS)](world, user, Fields(step))
                user.run(1 * MS)
                kinds.append(kind % len(ACTS))
            if not any(kind in LIES for kind in kinds):
                user.check_answers()
            state, errors = user.client.state.name, {error[:24] for error in user.errors}
            user.guarded(user.client.close)
            self._demand_service(world)
            seen = {str(one.error)[:24] for one in [*user.requests, *user.queries]} | {*user.events, *errors, state}
            return frozenset(seen | {f"{len(user.messages)}, {len(user.given_back)} given back"})
        finally:
            world.close()

    @staticmethod
    def _demand_service(world: ToldWorld) -> None:
        world.executed.clear()
        next_user = AskingUser(world)
        next_user.requests.append(next_user.client.submit(b"ask"))
        next_user.check_answers()
        next_user.client.close()

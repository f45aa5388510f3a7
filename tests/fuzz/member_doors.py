"""Doors of simulated clusters that live on: whatever a stranger says, they go on under the same leader and in the same
term, a client's session stays its own, and all that the simulation holds of its clusters (tests/simulation/invariants)
holds of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import Any

from ordo.cluster.wire import codecs, consensus_codec, ordo_codecs
from ordo.cluster.wire.sessions.consumer_codec import CommandKind
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID, EGRESS_STREAM_ID, INGRESS_STREAM_ID, LOG_STREAM_ID
from ordo.runtime.sbe import Message
from ordo.runtime.security.authentication import AcceptAll, SessionProxy
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import Fields, Step, pack, unpack
from tests.fuzz.filled import fill
from tests.fuzz.forked import run_forked
from tests.sequencer.receiver_frames import DATA, SETUP
from tests.simulation.nodes import CLOCK_START_NS, PORT
from tests.simulation.operations import Kind, Request
from tests.simulation.options import Options
from tests.simulation.processes import start_process
from tests.simulation.timeline import Actor
from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
ADDRESS = "10.0.9.9"
RESPONSES = f"aeron:udp?endpoint={ADDRESS}:7000"
STRANGER_ID = 77
STEPS_MAX = 32
WAITING_MAX = 64
ANSWERED_WITHIN_NS = 10 * S
TIMES_NS = (1 * MS, 5 * MS, 50 * MS, 300 * MS)
GUESSES = (-1, 0, 1, 2**62, 2**63 - 1, -(2**63))
CHALLENGED = b"challenge me"
INGRESS: tuple[Message, ...] = (
    codecs.SESSION_MESSAGE_HEADER,
    codecs.SESSION_CONNECT_REQUEST,
    codecs.CHALLENGE_RESPONSE,
    codecs.SESSION_KEEP_ALIVE,
    codecs.SESSION_CLOSE_REQUEST,
    codecs.ADMIN_REQUEST,
    ordo_codecs.OPEN_IDENTITY,
    ordo_codecs.REQUEST,
    ordo_codecs.MESSAGE_MARK,
    ordo_codecs.QUERY,
    ordo_codecs.GROUP_QUERY,
    ordo_codecs.GROUP_SERVES,
    ordo_codecs.GROUP_ANSWER,
    ordo_codecs.CONSUMER_COMMAND,
    ordo_codecs.APP_REPORT,
    ordo_codecs.APP_DIFFERENCE,
    ordo_codecs.OPERATOR_CONNECT,
    ordo_codecs.OPERATOR_REQUEST,
)
CONSENSUS: tuple[Message, ...] = (
    *consensus_codec._TABLES.values(),
    ordo_codecs.MEMBER_CHALLENGE,
    ordo_codecs.MEMBER_PROOF,
    ordo_codecs.MEMBER_STANDING,
    ordo_codecs.MEMBER_BEHIND,
    ordo_codecs.FAILURE_REPORT,
    ordo_codecs.VERSIONS_QUESTION,
    codecs.BACKUP_QUERY,
)
EVERYTHING: tuple[Message, ...] = (*codecs.MESSAGES.values(), *ordo_codecs.MESSAGES.values())


class Challenger(AcceptAll):
    """Challenges who asks for it, and lets in whoever answers anything but nothing."""

    def __init__(self) -> None:
        self._asked: dict[int, bytes] = {}

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self._asked[session_id] = encoded_credentials

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        if self._asked.get(proxy.session_id) == CHALLENGED:
            proxy.challenge(b"who are you?")
        else:
            proxy.authenticate(b"")

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self._asked[session_id] = encoded_credentials

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        answer = self._asked.get(proxy.session_id)
        if answer == b"":
            proxy.reject()
        elif answer != CHALLENGED:
            proxy.authenticate(b"somebody")


class Stranger(Actor):
    """Sends into the members' streams as any program can, and hears what it is answered."""

    def __init__(self, world: World) -> None:
        self.cycle_ns = world.options.cycle_ns
        process = start_process(world, "stranger", ADDRESS, 1, 5 * S)
        self.clock, self.host, self._driver, self._transport = process
        self._parked = process.host
        client = self._transport.client
        self._heard = client.add_subscription(RESPONSES, EGRESS_STREAM_ID)
        self.publications = [
            client.add_exclusive_publication(
                f"aeron:udp?endpoint={node.address}:{PORT + offset}|term-length=64k", stream_id
            )
            for offset, stream_id in ((0, INGRESS_STREAM_ID), (1, CONSENSUS_STREAM_ID))
            for node in world.nodes
        ]
        self._waiting: list[tuple[Any, bytes]] = []
        self.known: dict[str, list[int]] = {}
        """What the members have told: numbers by the names of fields, the newest first."""
        self.kinds: set[str] = set()
        self.due_ns = world.now_ns

    def say(self, publication: Any, message: bytes) -> None:
        self._waiting = [*self._waiting[-WAITING_MAX:], (publication, message)]
        self.due_ns = 0

    def step(self, now_ns: int) -> None:
        self.clock.advance(now_ns + CLOCK_START_NS - self.clock.now())
        self._transport.drive()
        self._waiting = [one for one in self._waiting if one[0].offer(one[1]) <= 0]
        self._heard.poll_messages(self._on_message, 50)
        self._driver.park(self.clock.now(), 20 * MS)
        self.sleep_for(now_ns, min(20 * MS, self._parked.parked_ns) if not self._waiting else MS)

    def _on_message(self, payload: bytes, _: Any) -> None:
        found = ordo_codecs.decode_any(payload)
        if found is None:
            return
        message, values = found
        self.kinds.add(f"{message.name} {getattr(values, 'status', getattr(values, 'code', ''))}")
        for name, value in values._asdict().items():
            if isinstance(value, int):
                self.known[name] = [value, *self.known.get(name, [])[:3]]


class LivingCluster:
    """Members, one client that works, and a stranger."""

    def __init__(self, members: int) -> None:
        options = Options(
            nodes=members, clients=1, sync="none", startup_canvass_timeout_ns=200 * MS, operation_mean_ns=20 * MS
        )
        self.world = world = World(1, options)
        for node in world.nodes:
            chosen = node.config.authentication.model_copy(update={"class_": f"{__name__}:Challenger"})
            node.config = node.config.model_copy(update={"authentication": chosen})
        world.start()
        self._demand(lambda: world.clients[0].answered_last > 0, "the client is answered")
        self.stranger = Stranger(world)
        world.actors.append(self.stranger)
        self._demand(lambda: all(one.is_connected for one in self.stranger.publications), "the stranger is heard")
        leader = world.leader()
        assert leader is not None
        self.leader = leader
        self.term_id = self.leader.leads_term
        self.session_id = self.victim.session_id
        self.number = 0
        self.log_session_id = int(leader.module.log._leader_log.publication.session_id)
        self.is_told_the_log = False
        world.network.capture = self._on_datagram

    @property
    def victim(self) -> Any:
        return self.world.clients[0].session

    def _demand(self, condition: Any, what: str) -> None:
        if not self.world.run(ANSWERED_WITHIN_NS, condition):
            raise Finding(f"not within {ANSWERED_WITHIN_NS // S} s of virtual time: {what}")

    def _on_datagram(self, now_ns: int, source: tuple[str, int], to: tuple[str, int], datagram: bytes) -> None:
        session_id, stream_id = (int.from_bytes(datagram[at : at + 4], "little", signed=True) for at in (12, 16))
        is_log = (session_id, stream_id) == (self.log_session_id, LOG_STREAM_ID) and datagram[6] in (DATA, SETUP)
        self.is_told_the_log |= to[0] == ADDRESS and is_log

    # --- what is said ---------------------------------------------------------------------------------------------

    def known(self) -> dict[str, Sequence[Any]]:
        """Values by the names of fields: what the stranger was told, and all that it could guess or have overheard."""
        told, leader = self.stranger.known, self.leader
        sessions = [*told.get("cluster_session_id", [])[:2], self.session_id, *GUESSES]
        positions = (leader.commit_position, leader.append_position, 0, 352, *told.get("log_position", ()))
        members = range(len(self.world.nodes) + 1)
        text = f"{9},{','.join([f'{ADDRESS}:7001'] * 5)}".encode()
        found: dict[str, Sequence[Any]] = {
            "cluster_session_id": sessions,
            "asker_session_id": sessions[::-1],
            "previous_session_id": (-1, *sessions),
            "response_stream_id": (EGRESS_STREAM_ID, 105, 100),
            "response_channel": (RESPONSES, f"aeron:udp?endpoint={ADDRESS}:7001", "aeron:ipc", "aeron:udp"),
            "encoded_credentials": (b"", CHALLENGED, b"me"),
            "version": (0x000300,),
            "protocol_version": (codecs.CONSENSUS_PROTOCOL_VERSION,),
            "catchup_endpoint": (f"{ADDRESS}:7000",),
            "member": (text,),
            "payload": (b"", b"ask", b"x" * 2000),
            "group": (b"group", b""),
            "nonce": (1, *told.get("nonce", ())),
            "number": (1, 2, 3),
            "open_position": told.get("open_position", positions),
            "connection_id": told.get("connection_id", (1,)),
            "kind": tuple(CommandKind),
            "name_length": (1,),
            "group_length": (1,),
            "instance_length": (1,),
        }
        for message in EVERYTHING:
            for name in (field.name for field in message._block.fields):
                if name.endswith("term_id"):
                    found.setdefault(name, (self.term_id, self.term_id + 1))
                elif name.endswith("position"):
                    found.setdefault(name, positions)
                elif name.endswith("member_id"):
                    found.setdefault(name, members)
        return found

    def message(self, message: Message, fields: Fields) -> bytes:
        """Its payload is a request of the simulation's clients in a session of the stranger's own, and none in others':
        a service that gets it there says so."""
        filled = fill(message, fields, self.known())
        if message is ordo_codecs.CONSUMER_COMMAND or message is ordo_codecs.APP_REPORT:
            return filled + b"name"
        if message is not codecs.SESSION_MESSAGE_HEADER and message is not ordo_codecs.REQUEST:
            return filled
        session_id = message.decode(filled).cluster_session_id
        if session_id not in self.stranger.known.get("cluster_session_id", ()) or session_id == self.session_id:
            return filled + b"in another's name"
        self.number += 1
        kind = fields.choose((Kind.READ, Kind.WRITE, Kind.CAS, Kind.MESSAGE, Kind.TIMER, Kind.CANCEL, Kind.CLOSE))
        return filled + Request(STRANGER_ID, self.number, kind, 9, self.number).encode(fields.choose((0, 1000)))

    def take(self, kind: int, fields: Fields) -> None:
        """One step."""
        count = len(self.world.nodes)
        node = fields.choose((self.leader, *self.world.nodes)).member_id
        ingress, consensus = self.stranger.publications[node], self.stranger.publications[count + node]
        if kind == 0:
            self.stranger.say(ingress, self.message(fields.choose(INGRESS), fields))
        elif kind == 1:
            self.stranger.say(consensus, self.message(fields.choose(CONSENSUS), fields))
        elif kind == 2:
            self.stranger.say(fields.choose((ingress, consensus)), self.message(fields.choose(EVERYTHING), fields))
        elif kind == 3:
            self.stranger.say(fields.choose((ingress, consensus)), fields.rest() or b"\0")
        self.world.run(fields.choose(TIMES_NS) if kind == 4 else 2 * MS)

    # --- what must be ---------------------------------------------------------------------------------------------

    def demand_well(self) -> None:
        world, client = self.world, self.world.clients[0]
        client.is_working = False
        before = client.answered_last
        self._demand(client.probe, "the client may ask")
        self._demand(lambda: client.answered_last > before, "the client is answered")
        self._demand(world.is_steady, "all members are steady")
        if self.is_told_the_log:
            raise Finding("the stranger is sent the log")
        world.check_all()
        if world.violation is not None:
            raise world.violation
        if self.victim is None or self.victim.session_id != self.session_id:
            raise Finding("the client's session was lost")
        if world.leader() is not self.leader or self.leader.leads_term != self.term_id:
            raise Finding(f"another leader, or term: {world.describe()}")

    def signature(self) -> Hashable:
        texts = {record.text.split(" ")[0] for record in self.world.executed.records}
        refused = {f"refused {node.module.counters.invalid_requests.value.bit_length()}" for node in self.world.nodes}
        return frozenset(self.stranger.kinds | texts | refused)


class SessionDoor:
    """Steps are said by a stranger, who may open sessions, to a single member: messages of clients on the ingress (kind
    0), of members on the consensus stream (1), of anybody on either (2), any bytes (3); or time passes (4)."""

    name = "sessions"
    members = 1
    likely: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 4)

    def __init__(self) -> None:
        self._cluster = LivingCluster(self.members)
        """As it was at first: every run has a copy of it."""

    def seeds(self) -> list[bytes]:
        random = Random(1)
        opened = [(0, b"\0\1"), (4, b"\0\2")]
        inside = [(0, bytes([0, index])) for index in range(len(INGRESS))]
        return [pack([*opened, *inside, *inside[:4]]), *(pack([*opened, one]) for one in inside[::4]),
                *(pack([*opened, *(self.draw(random) for _ in range(8))]) for _ in range(4))]  # fmt: skip

    def draw(self, random: Random) -> Step:
        kind = random.choice(self.likely)
        where = random.randrange(1 + self.members), random.randrange(256)
        rest = bytes(random.choice((0, 0, 0, random.randrange(128), random.randrange(256))) for _ in range(24))
        return kind, bytes(where) + rest

    def run(self, data: bytes) -> Hashable:
        return run_forked(lambda: self._run(unpack(data, STEPS_MAX)))

    def _run(self, steps: list[Step]) -> Hashable:
        for kind, step in steps:
            self._cluster.take(kind % 5, Fields(step))
        self._cluster.demand_well()
        return self._cluster.signature()


class MemberDoor(SessionDoor):
    """The same with three members, and most of it in the name of members."""

    name = "members"
    members = 3
    likely = (0, 0, 1, 1, 1, 1, 1, 2, 3, 4)

    def seeds(self) -> list[bytes]:
        random = Random(2)
        return [pack([self.draw(random) for _ in range(10)]) for _ in range(5)]

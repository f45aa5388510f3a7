"""Who is taken from, and when, while the log has no room for all: the Sequencer at a leader, over streams in memory."""

from __future__ import annotations

from ordo.cluster.wire import codecs
from ordo.runtime.native.counters import local_counter
from ordo.sequencer.hosts import ConsensusHost, IngressHost, LogHost, ServiceHost, SessionHost
from ordo.sequencer.quotas import Quotas
from ordo.transport.streams.image import Image
from tests.archive.streams import Stream
from tests.cluster.module.member import TERM_ID, make_sequencer

MS = 1_000_000
KIB = 1024
TERM_LENGTH = 16 << 20


class AnyClient(SessionHost):
    """Each session may be claimed by whoever speaks first for it."""

    def may_claim(self, session_id: int, image: Image) -> bool:
        return True


class Leader:
    """A leader whose log is full where it is `backlog` ahead of its service, which `executed` follows."""

    def __init__(self, backlog: int) -> None:
        self.executed = local_counter(0)
        self.log = Stream(term_length=TERM_LENGTH)
        self.sequencer = make_sequencer()
        self.sequencer.attach(LogHost(), IngressHost(), AnyClient(), ConsensusHost(), ServiceHost())
        self.sequencer.bound_ingress(Quotas(0, backlog, [self.executed]))
        self.sequencer.lead(TERM_ID, self.log.publication)
        self.sequencer.open_ingress(True)
        self.turns = 0
        self.clients: list[Stream] = []

    def connect(self) -> Stream:
        """The stream of a client whose session, numbered from 1, nobody has spoken for yet."""
        stream = Stream(session_id=100 + len(self.clients), term_length=TERM_LENGTH)
        self.clients.append(stream)
        self.sequencer.sessions.put(len(self.clients), 0)
        self.sequencer.add_ingress_image(stream.image)
        return stream

    def send(self, stream: Stream, length: int, count: int = 1) -> None:
        head = codecs.SESSION_MESSAGE_HEADER.encode(
            leadership_term_id=TERM_ID, cluster_session_id=self.clients.index(stream) + 1, timestamp=0
        )
        for _ in range(count):
            stream.offer(head + bytes(length))

    def turn(self) -> None:
        """One duty cycle."""
        self.turns += 1
        self.sequencer.poll_ingress(self.turns * MS, self.turns)


def is_taken(stream: Stream) -> bool:
    return stream.image.position == stream.publication.position


def test_a_client_that_nobody_knows_yet_is_heard_beside_floods() -> None:
    """Strangers are looked at last, when floods have taken what room there was; after an election all are strangers."""
    leader = Leader(32 * KIB)
    floods = [leader.connect() for _ in range(2)]
    for flood in floods:
        leader.send(flood, 1000, 4000)
    for _ in range(20):
        leader.turn()
        leader.executed.set(leader.log.publication.position - 16 * KIB)
    light = leader.connect()
    leader.send(light, 32)
    for _ in range(100):
        leader.turn()
        assert leader.log.publication.position > leader.executed.value + 32 * KIB, "floods fill it in each turn"
        leader.executed.set(leader.log.publication.position - 16 * KIB)
    assert is_taken(light) and not any(map(is_taken, floods))


def test_a_flood_of_long_messages_has_no_more_of_a_round_than_one_of_short_ones() -> None:
    leader = Leader(256 * KIB)
    flood, light = leader.connect(), leader.connect()
    for stream in (flood, light):
        leader.send(stream, 32)
    while not (is_taken(flood) and is_taken(light)):
        leader.turn()
    leader.send(flood, 60 * KIB, 100)
    leader.turn()
    leader.send(light, 32)
    begun = leader.log.publication.position
    while not is_taken(light):
        leader.executed.set(leader.log.publication.position - 128 * KIB)
        leader.turn()
    assert leader.log.publication.position - begun < 5 << 20
    assert not is_taken(flood)


class OnePrincipal(AnyClient):
    """All sessions are of one principal, which may send ten messages a second."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.principal = quotas.open(10, 0)

    def open_account(self, session_id: int, image: Image) -> int:
        return self.quotas.open(0, 0, self.principal)


def test_sessions_of_one_principal_take_turns_at_what_it_has() -> None:
    """However many turns without a message lie between two: with an even number, one of two sessions had all of it."""
    leader = Leader(1 << 20)
    quotas = Quotas(MS)
    quotas.count_sessions()
    leader.sequencer.attach(LogHost(), IngressHost(), OnePrincipal(quotas), ConsensusHost(), ServiceHost())
    leader.sequencer.bound_ingress(quotas)
    clients = [leader.connect() for _ in range(2)]
    for client in clients:
        leader.send(client, 32, 100)
    for _ in range(4000):
        leader.turn()
    taken = [client.image.position for client in clients]
    assert sum(taken) == leader.log.publication.position > 0
    assert max(taken) - min(taken) <= max(taken) // 10, taken

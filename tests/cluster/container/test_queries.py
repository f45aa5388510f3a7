"""Queries in the service container: when they are answered, out of which state, and where the answers go."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.role import HOLD_EGRESS
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.streams.queries import HOLD_NS
from ordo.cluster.container.streams.responses import (
    CONNECT_TIMEOUT_NS,
    IDLE_TIMEOUT_NS,
    WAITING_MAX,
    Response,
    ResponsePublications,
)
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.component_errors import read_component_errors
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.cluster.wire.streams import QUERY_STREAM_ID
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader
from tests.cluster.container.native_service import NativeEcho
from tests.cluster.container.service_node import ServiceNode, StreamClient

CHANNEL = "aeron:udp?endpoint=client:1"
OTHER_CHANNEL = "aeron:udp?endpoint=client:2"
HALF_A_PAIR = rb'"\ud800"'
"""What a client can have a service read that UTF-8 cannot hold."""


class Answer(NamedTuple):
    """A QueryResponse."""

    cluster_session_id: int
    correlation_id: int
    log_position: int
    member_id: int
    status: int
    payload: bytes


class Log(ClusteredService):
    """Its state is what it was sent; some questions make it misbehave."""

    def __init__(self) -> None:
        self.state = b""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        if session.id > 1:
            self.state += b"+%d" % session.id

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        self.state += payload

    def on_query(self, payload: bytes) -> bytes:
        if payload == b"raise":
            raise KeyError("no such order")
        if payload == b"half":
            raise ValueError(f"no account {json.loads(HALF_A_PAIR)}")
        if payload == b"exit":
            sys.exit(3)
        if payload == b"offer":
            self.cluster.client_sessions[0].offer(b"an answer that is none")
        if payload == b"schedule":
            self.cluster.schedule_timer(1, 1)
        if payload == b"text":
            return "text"  # type: ignore[return-value]
        if payload == b"long":
            return bytes(20_000)
        return payload + b"=" + self.state


class Queries:
    """A container with one session, and the stream on which its consensus module sends queries."""

    def __init__(self, node: ServiceNode, service: Any = None, **options: Any) -> None:
        self.node = node
        node.set_recovery()
        self.container: ServiceContainer = node.container(service or Log(), **options)
        node.begin_term(0, leads=False)
        node.open_session(1)
        self.send("a")

    def send(self, *payloads: str) -> int:
        """Appends messages and lets the container execute them; the position after them."""
        for payload in payloads:
            self.node.message(1, payload.encode())
        self.node.commit()
        self.cycle(30)
        return self.container.executed_position

    def ask(
        self,
        payload: bytes,
        position: int = 0,
        *,
        session_id: int = 1,
        correlation_id: int = 7,
        status: QueryStatus = QueryStatus.OK,
    ) -> None:
        message = ordo_codecs.SERVICE_QUERY.encode(
            cluster_session_id=session_id,
            correlation_id=correlation_id,
            read_position=position,
            status=status,
            payload=payload,
        )
        assert self.node.client.by_stream[QUERY_STREAM_ID].publication.offer(message) > 0

    def cycle(self, count: int = 30) -> None:
        for _ in range(count):
            self.node.cycle(self.container)

    def answers(self, channel: str = CHANNEL) -> list[Answer]:
        """What the client was sent."""
        self.cycle()
        stream = self.node.client.egress.get((channel, 102))
        if stream is None:
            return []
        decoded = [ordo_codecs.decode(message) for message in self.node.client.received(stream)]
        return [Answer(*found[1]) for found in decoded if found is not None]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Queries]]:
    made: list[Queries] = []

    def make_one(service: Any = None, **options: Any) -> Queries:
        made.append(Queries(ServiceNode(tmp_path), service, **options))
        return made[-1]

    yield make_one
    for queries in made:
        queries.container.on_close()
        queries.node.close()


def test_answer_names_the_position_of_its_state(make: Callable[..., Queries]) -> None:
    queries = make()
    position = queries.send("b")
    queries.ask(b"q")
    assert queries.answers() == [Answer(1, 7, position, 0, QueryStatus.OK, b"q=ab")]


def test_query_waits_until_its_position_is_executed(make: Callable[..., Queries]) -> None:
    queries = make()
    position = queries.node.message(1, b"b")
    queries.ask(b"q", position)
    assert queries.answers() == []
    queries.node.commit()
    assert queries.answers() == [Answer(1, 7, position, 0, QueryStatus.OK, b"q=ab")]


def test_position_inside_of_a_record_needs_nothing_more_to_be_committed(make: Callable[..., Queries]) -> None:
    """A commit position is where a quorum's disks end, also between two frames of one message."""
    queries = make()
    before = queries.container.executed_position
    queries.node.message(1, bytes(5000))
    queries.node.commit(before + 1408)
    queries.ask(b"q", before + 1408)
    assert [(answer.log_position, answer.payload) for answer in queries.answers()] == [(before + 1408, b"q=a")]


def test_nothing_is_answered_while_a_record_waits_for_its_egress(make: Callable[..., Queries]) -> None:
    """The position of the record is reached, but its callback has not run: an answer would show the state before it."""
    queries = make()
    queries.ask(b"q", session_id=2)
    queries.cycle()
    node = queries.node
    node.begin_term(1, leads=True)
    queries.send("b")
    node.client.answer_after = 100
    node.open_session(2, OTHER_CHANNEL)
    node.commit()
    queries.cycle()
    assert queries.container.hold & HOLD_EGRESS
    assert 2 in queries.container.sessions
    queries.cycle(200)
    assert [answer.payload for answer in queries.answers(OTHER_CHANNEL)] == [b"q=ab+2"]


def test_every_member_answers_whoever_leads(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.ask(b"q", correlation_id=1)
    assert len(queries.answers()) == 1
    assert not queries.container.is_leading
    responses = queries.node.client.egress[CHANNEL, 102]
    queries.node.begin_term(1, leads=True)
    queries.send("b")
    assert queries.container.is_leading
    queries.ask(b"q", correlation_id=2)
    queries.cycle()
    assert [message[-4:] for message in queries.node.client.received(responses)] == [b"q=ab"]


def test_service_that_answers_none_is_not_hurt(make: Callable[..., Queries]) -> None:
    class Silent(Log):
        on_query = ClusteredService.on_query

    queries = make(Silent())
    queries.ask(b"q")
    (answer,) = queries.answers()
    assert (answer.status, answer.payload) == (QueryStatus.UNSUPPORTED, b"the service answers no queries")


def test_native_services_answer_too(make: Callable[..., Queries]) -> None:
    queries = make(NativeEcho())
    queries.ask(b"abc")
    assert [answer.payload for answer in queries.answers()] == [b"cba"]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"raise", "KeyError: 'no such order'"),
        (b"half", r"ValueError: no account \ud800"),
        (b"exit", "ServiceError: sys.exit(3): a service may not end its process"),
        (b"text", "ServiceError: on_query must return bytes, returned str"),
        (b"offer", "ServiceCallError: session.offer is not allowed from on_query; see ordo.service_api.service"),
        (b"schedule", "ServiceCallError: schedule_timer is not allowed from on_query; see ordo.service_api.service"),
    ],
)
def test_service_that_fails_goes_on(make: Callable[..., Queries], payload: bytes, text: str) -> None:
    queries = make()
    queries.ask(payload)
    (answer,) = queries.answers()
    assert (answer.status, answer.payload.decode()) == (QueryStatus.ERROR, text)
    assert queries.container.state is ContainerState.RUNNING
    queries.send("b")
    queries.ask(b"q", correlation_id=8)
    assert [answer.payload for answer in queries.answers()] == [b"q=ab"]
    path = f"{queries.node.directory}/cluster/cluster-mark-service-0.dat"
    (entry,) = read_component_errors(queries.node.memory, path)
    assert text.split(": ")[1] in entry.text


def test_answer_that_is_too_long_is_said_to_be(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.ask(b"long")
    (answer,) = queries.answers()
    assert answer.status == QueryStatus.ERROR
    assert answer.payload.startswith(b"answer of 20000 bytes: at most 16")


def test_refusal_of_the_consensus_module_is_passed_on(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.ask(b"no leader is known", status=QueryStatus.UNAVAILABLE)
    (answer,) = queries.answers()
    assert (answer.status, answer.payload) == (QueryStatus.UNAVAILABLE, b"no leader is known")


def test_query_of_a_session_that_is_not_open_yet_waits_for_it(make: Callable[..., Queries]) -> None:
    """A follower may be asked before it has executed the session's open record."""
    queries = make()
    queries.ask(b"q", session_id=2)
    assert queries.answers() == []
    queries.node.open_session(2)
    queries.node.commit()
    assert [answer.cluster_session_id for answer in queries.answers()] == [2]


def test_query_is_forgotten_unless_it_is_asked_again(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.ask(b"early", 1 << 40, correlation_id=1)
    queries.ask(b"kept", 1 << 40, correlation_id=2)
    queries.cycle()
    queries.node.clock.advance(HOLD_NS // 2)
    queries.cycle()
    queries.ask(b"kept", 1 << 40, correlation_id=2)
    queries.cycle()
    queries.node.clock.advance(HOLD_NS // 2)
    queries.cycle()
    assert [query.payload for query in queries.container.queries._queries.values()] == [b"kept"]
    assert len(queries.container.queries._by_position) == 1, "positions out of reach do not pile up"


def test_query_that_is_asked_again_is_answered_once(make: Callable[..., Queries]) -> None:
    queries = make()
    position = queries.node.message(1, b"b")
    for _ in range(5):
        queries.ask(b"q", position)
        queries.cycle()
    queries.node.commit()
    assert len(queries.answers()) == 1


def test_too_many_are_told_that_the_member_is_busy(make: Callable[..., Queries]) -> None:
    queries = make(queries_max=2)
    for correlation_id in range(3):
        queries.ask(b"q", 1 << 40, correlation_id=correlation_id)
    (answer,) = queries.answers()
    assert (answer.correlation_id, answer.status) == (2, QueryStatus.BUSY)
    assert answer.payload == b"member 0 has 2 queries already: ask again later"


def test_a_client_that_takes_no_answers_costs_the_others_none() -> None:
    """What waited for it counted against the queries of all."""
    client: Any = StreamClient()
    responses = ResponsePublications(client, lambda error: pytest.fail(str(error)))
    for number in range(3 * WAITING_MAX):
        responses.send(CHANNEL, 102, Response(b"%06d" % number + bytes(1000), lambda length: b""), 0)
        responses.work(0)
    assert responses.waiting == WAITING_MAX
    taken = [message[:6] for message in client.received(client.egress[CHANNEL, 102])]
    while responses.waiting:
        client.do_work(0)
        responses.work(0)
        taken += [message[:6] for message in client.received(client.egress[CHANNEL, 102])]
    assert taken[-1] == b"%06d" % (3 * WAITING_MAX - 1) and taken == sorted(set(taken))


def test_publication_goes_when_nobody_asks_or_nobody_listens(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.ask(b"q")
    assert len(queries.answers()) == 1
    stream = queries.node.client.egress[CHANNEL, 102]
    queries.node.clock.advance(IDLE_TIMEOUT_NS)
    queries.cycle()
    assert stream.publication.is_closed
    queries.ask(b"q", correlation_id=8)
    queries.cycle()
    stream = queries.node.client.egress[CHANNEL, 102]
    stream.log.connected = False
    queries.node.clock.advance(CONNECT_TIMEOUT_NS)
    queries.cycle()
    assert stream.publication.is_closed


def test_channel_that_the_driver_refuses_costs_the_answer_only(make: Callable[..., Queries]) -> None:
    queries = make()
    queries.node.client.refused.add(CHANNEL)
    queries.ask(b"q")
    assert queries.answers() == []
    assert queries.container.queries._responses.waiting == 0
    queries.node.client.refused.clear()
    queries.ask(b"q")
    assert len(queries.answers()) == 1

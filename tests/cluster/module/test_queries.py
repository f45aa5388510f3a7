"""Queries in the consensus module: which go to the service at once, which wait for a position, which are refused."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

from ordo.cluster.module.sessions.group_queries import GroupQuery, Refusal
from ordo.cluster.module.sessions.queries import Queries, QueryLink, ReadRounds
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import Consistency, QueryStatus
from ordo.cluster.wire.succession import DISMISSED
from ordo.consensus.state.messages import Message, ReadHeartbeat, ReadHeartbeatAck, ReadIndexRequest, ReadIndexResponse
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.counters import local_counter
from ordo.transport.streams.image import Image
from tests.cluster.container.service_node import StreamClient
from tests.consensus.harness import FIRST_RECORD, Harness

FIRST_ROUND = 40
INTERVAL_NS = 50_000_000
NO_IMAGE = cast(Image, None)


class Handed(NamedTuple):
    """What the service got."""

    correlation_id: int
    read_position: int
    status: QueryStatus
    payload: bytes


class Groups:
    """What is asked of applications; `refusal` is what becomes of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[GroupQuery, int]] = []
        self.refusal: Refusal | None = None

    def __len__(self) -> int:
        return len(self.asked)

    def ask(self, query: GroupQuery, read_position: int, now_ns: int) -> Refusal | None:
        self.asked.append((query, read_position))
        return self.refusal

    def work(self, now_ns: int) -> None:
        """Nothing is forgotten."""


class Desk:
    """The queries of one member, whose service is the test; `sent` are messages to others, (None, ...) to all."""

    def __init__(self, node: Harness, queries_max: int = 8) -> None:
        self.node = node
        self.client = StreamClient()
        self.flag = ParkFlag(local_counter(0))
        self.sent: list[tuple[int | None, Message]] = []
        self.refusal: str | None = None
        client: Any = self.client
        self.groups = Groups()
        self.queries = Queries(
            node.core,
            QueryLink(client, self.flag),
            cast(Any, self.groups),
            send=lambda member_id, message: self.sent.append((member_id, message)),
            broadcast=lambda message: self.sent.append((None, message)),
            rounds=ReadRounds(FIRST_ROUND, INTERVAL_NS),
            find_refusal=lambda session_id, image: self.refusal,
            queries_max=queries_max,
        )

    def ask(
        self,
        correlation_id: int = 7,
        consistency: int = Consistency.LINEARIZABLE,
        payload: bytes = b"q",
        since: int = -1,
    ) -> Desk:
        message = ordo_codecs.QUERY.encode(
            cluster_session_id=1,
            correlation_id=correlation_id,
            min_position=since,
            consistency=consistency,
            payload=payload,
        )
        self.queries.on_query(message, NO_IMAGE, self.node.now_ns)
        return self

    def handed(self) -> list[Handed]:
        (stream,) = self.client.by_stream.values()
        self.client.do_work(0)
        found = []
        for message in self.client.received(stream):
            values = ordo_codecs.SERVICE_QUERY.decode(message)
            status = QueryStatus(values.status)
            found.append(Handed(values.correlation_id, values.read_position, status, values.payload))
        return found


def test_whoever_may_not_ask_is_told_so_or_nothing() -> None:
    desk = leader()
    desk.refusal = "no right"
    desk.ask(consistency=Consistency.STALE)
    desk.refusal = ""
    desk.ask(8, consistency=Consistency.STALE)
    assert [(one.correlation_id, one.status, one.payload) for one in desk.handed()] == [
        (7, QueryStatus.ERROR, b"no right")
    ]


def leader() -> Desk:
    return Desk(Harness().serving())


def follower() -> Desk:
    return Desk(Harness(member_id=1).following(0, 0))


def test_leader_hands_a_query_over_when_a_quorum_has_confirmed_it() -> None:
    desk = leader().ask()
    assert desk.handed() == []
    assert desk.sent == [(None, ReadHeartbeat(0, FIRST_ROUND, 0))]
    desk.queries.on_message(ReadHeartbeatAck(0, FIRST_ROUND, 2), desk.node.now_ns)
    assert desk.handed() == [Handed(7, FIRST_RECORD, QueryStatus.OK, b"q")]


def test_a_log_that_has_ended_for_a_standby_answers_no_linearizable_query() -> None:
    desk = leader().ask()
    desk.queries.end()
    desk.queries.on_message(ReadHeartbeatAck(0, FIRST_ROUND, 2), desk.node.now_ns)
    desk.ask(8, Consistency.STALE)
    assert desk.handed() == [
        Handed(7, 0, QueryStatus.UNAVAILABLE, DISMISSED.encode()),
        Handed(8, -1, QueryStatus.OK, b"q"),
    ]
    desk.sent.clear()
    desk.queries.on_message(ReadIndexRequest(0, FIRST_ROUND + 7, 1), desk.node.now_ns)
    assert desk.sent == [], "nor does a follower hear what is committed"


def test_follower_hands_a_query_over_when_its_leader_has_named_a_position() -> None:
    desk = follower().ask()
    assert desk.sent == [(0, ReadIndexRequest(0, FIRST_ROUND, 1))]
    desk.queries.on_message(ReadIndexResponse(FIRST_ROUND, 4096, 0), desk.node.now_ns)
    assert desk.handed() == [Handed(7, 4096, QueryStatus.OK, b"q")]


def test_a_query_of_a_group_goes_to_an_instance_when_a_quorum_has_confirmed_it() -> None:
    desk = leader()
    message = ordo_codecs.GROUP_QUERY.encode(
        cluster_session_id=1,
        correlation_id=7,
        min_position=-1,
        consistency=Consistency.LINEARIZABLE,
        group=b"pricing",
        payload=b"q",
    )
    for refusal in (None, Refusal(QueryStatus.UNAVAILABLE, "no instance")):
        desk.groups.refusal = refusal
        desk.queries.on_query(message, NO_IMAGE, desk.node.now_ns)
        ((_, heartbeat),) = desk.sent
        assert isinstance(heartbeat, ReadHeartbeat) and len(desk.groups) == (refusal is not None)
        desk.queries.on_message(ReadHeartbeatAck(0, heartbeat.round_id, 2), desk.node.now_ns)
        desk.sent.clear()
    assert desk.groups.asked == [(GroupQuery(1, 7, -1, b"q", b"pricing"), FIRST_RECORD)] * 2
    assert desk.handed() == [Handed(7, 0, QueryStatus.UNAVAILABLE, b"no instance")]
    with pytest.raises(DecodeError):
        desk.queries.on_query(message[:-3], NO_IMAGE, desk.node.now_ns)


def test_stale_query_is_handed_over_at_once_by_any_member() -> None:
    for desk in (leader(), follower(), Desk(Harness().canvassing())):
        desk.ask(1, Consistency.STALE).ask(2, Consistency.STALE, since=512)
        assert desk.handed() == [Handed(1, -1, QueryStatus.OK, b"q"), Handed(2, 512, QueryStatus.OK, b"q")]
        assert desk.sent == []


def test_a_parked_service_is_woken() -> None:
    desk = leader()
    desk.flag.announce_parked(1)
    desk.ask(consistency=Consistency.STALE)
    assert desk.flag.parked == 0


def test_member_without_a_leader_says_so() -> None:
    desk = Desk(Harness().canvassing()).ask()
    assert desk.handed() == [Handed(7, 0, QueryStatus.UNAVAILABLE, b"no leader is known: ask again")]


def test_leader_that_loses_its_office_says_so() -> None:
    desk = leader().ask()
    desk.node.tick(1500)
    desk.queries.work(desk.node.now_ns)
    assert desk.handed() == [Handed(7, 0, QueryStatus.UNAVAILABLE, b"the leader is gone: ask again")]


def test_query_that_is_asked_again_is_one() -> None:
    desk = leader().ask().ask().ask()
    desk.queries.on_message(ReadHeartbeatAck(0, FIRST_ROUND, 2), desk.node.now_ns)
    assert len(desk.handed()) == 1
    assert len(desk.sent) == 1


def test_more_than_the_member_takes_are_told_that_it_is_busy() -> None:
    desk = Desk(Harness().serving(), queries_max=2).ask(1).ask(2).ask(3)
    assert desk.handed() == [Handed(3, 0, QueryStatus.BUSY, b"member has 2 queries already: ask again later")]
    desk.queries.on_message(ReadHeartbeatAck(0, FIRST_ROUND, 2), desk.node.now_ns)
    desk.queries.on_message(ReadHeartbeatAck(0, FIRST_ROUND + 1, 2), desk.node.now_ns)
    assert [handed.correlation_id for handed in desk.handed()] == [1, 2]
    desk.ask(3, Consistency.STALE)
    assert [handed.status for handed in desk.handed()] == [QueryStatus.OK]


def test_what_the_service_does_not_take_waits_up_to_the_bound() -> None:
    desk = Desk(Harness().serving(), queries_max=100)
    for correlation_id in range(200):
        desk.ask(correlation_id, Consistency.STALE, payload=bytes(10_000))
    assert len(desk.queries._link) == 100, "those beyond are not even told so: there is no room for that"
    got = 0
    while handed := desk.handed():
        got += len(handed)
        desk.queries.work(desk.node.now_ns)
    assert got > 100


@pytest.mark.parametrize("consistency", [2, -1, 1 << 30])
def test_unknown_consistency_is_an_error_that_names_what_is_allowed(consistency: int) -> None:
    (handed,) = leader().ask(consistency=consistency).handed()
    assert handed.status is QueryStatus.ERROR
    assert handed.payload.decode() == f"consistency={consistency}: allowed 0 (linearizable), 1 (stale)"


def test_query_that_the_stream_to_the_service_cannot_carry_is_an_error() -> None:
    desk = leader()
    longest = desk.queries._link.payload_bytes_max
    desk.ask(1, Consistency.STALE, bytes(longest)).ask(2, Consistency.STALE, bytes(longest + 1))
    first, second = desk.handed()
    assert (first.status, second.status) == (QueryStatus.OK, QueryStatus.ERROR)
    assert second.payload.decode() == f"query of {longest + 1} bytes: at most {longest} are allowed"


def test_query_that_is_cut_short_is_a_decode_error() -> None:
    message = ordo_codecs.QUERY.encode(cluster_session_id=1, correlation_id=2, consistency=0, payload=b"abc")
    for length in range(8, len(message)):
        with pytest.raises(DecodeError):
            leader().queries.on_query(message[:length], NO_IMAGE, 0)

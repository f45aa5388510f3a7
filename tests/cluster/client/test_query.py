"""Queries of the cluster client against members in virtual time: asked again until they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.query import PendingQuery, QueryReply
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import Consistency, QueryStatus
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    QueryFailedError,
    SessionClosedError,
)
from ordo.runtime.native.time_units import SECOND_NS
from tests.cluster.client.session_members import Member, SessionWorld


class QueryWorld(SessionWorld):
    """Members answer queries with what is in `script`, the last entry of it for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, Any]] = []
        self.script: list[tuple[QueryStatus, bytes] | None] = [(QueryStatus.OK, b"42")]
        self.log_position = 4096

    def on_query(self, member: Member, query: Any) -> None:
        self.asked.append((member.member_id, query))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if answer is not None:
            self.answer(member, query, *answer)

    def answer(self, member: Member, query: Any, status: QueryStatus, payload: bytes) -> None:
        session = self.sessions[query.cluster_session_id]
        member.connect(session.response_channel, session.response_stream_id)
        message = ordo_codecs.QUERY_RESPONSE.encode(
            cluster_session_id=query.cluster_session_id,
            correlation_id=query.correlation_id,
            log_position=self.log_position,
            member_id=member.member_id,
            status=status,
            payload=payload,
        )
        member.send(session.response_channel, message)

    @property
    def members_asked(self) -> list[int]:
        return [member_id for member_id, _ in self.asked]


@pytest.fixture
def world() -> Iterator[QueryWorld]:
    world = QueryWorld()
    yield world
    world.close()


def test_leader_is_asked_over_the_session_s_own_ingress(world: QueryWorld) -> None:
    client = world.client()
    assert client.query(b"AAPL") == QueryReply(b"42", 4096, 0)
    ((member_id, query),) = world.asked
    assert (member_id, query.payload, query.consistency) == (0, b"AAPL", Consistency.LINEARIZABLE)
    assert (query.cluster_session_id, query.min_position) == (client.session_id, -1)


@pytest.mark.parametrize("member_id", [0, 1, 2])
def test_any_member_can_be_asked(world: QueryWorld, member_id: int) -> None:
    client = world.client()
    for _ in range(2):
        reply = client.query(b"AAPL", consistency="stale", member_id=member_id, min_position=1000)
        assert reply.member_id == member_id
    assert world.members_asked == [member_id] * 2
    assert all((query.consistency, query.min_position) == (Consistency.STALE, 1000) for _, query in world.asked)


def test_learners_are_asked_where_the_client_was_told_of_them(world: QueryWorld) -> None:
    """Redirects and NewLeaderEvents name the voters only: after the first of them no learner could be asked."""
    world.learners = {2}
    client = world.client()
    world.fail_over(1)
    world.run(client, lambda: client.leader_member_id == 1 and client.is_connected)
    assert sorted(client.ingress_endpoints) == [0, 1]
    assert client.query(b"AAPL", member_id=2).member_id == 2
    with pytest.raises(ClusterError, match="member_id=9: members with an ingress endpoint are 0, 1, 2; name a learner"):
        client.query(b"AAPL", member_id=9)


def test_query_without_an_answer_is_asked_again(world: QueryWorld) -> None:
    world.script = [None, None, (QueryStatus.OK, b"42")]
    client = world.client(query_retry_interval_s=0.1)
    assert client.query(b"AAPL").payload == b"42"
    assert len({query.correlation_id for _, query in world.asked}) == 1, "one query, whatever answer comes first"
    assert len(world.asked) == 3


@pytest.mark.parametrize("status", [QueryStatus.BUSY, QueryStatus.UNAVAILABLE])
def test_query_that_is_put_off_is_asked_again(world: QueryWorld, status: QueryStatus) -> None:
    world.script = [(status, b"not now"), (QueryStatus.OK, b"42")]
    client = world.client(query_retry_interval_s=100)
    assert client.query(b"AAPL").payload == b"42"
    assert len(world.asked) == 2


@pytest.mark.parametrize("status", [QueryStatus.UNSUPPORTED, QueryStatus.ERROR])
def test_query_that_fails_is_not_asked_again(world: QueryWorld, status: QueryStatus) -> None:
    world.script = [(status, b"the service answers no queries")]
    client = world.client()
    with pytest.raises(QueryFailedError, match="query failed: member 0: the service answers no queries"):
        client.query(b"AAPL")
    assert len(world.asked) == 1
    assert client.is_connected


def test_query_is_given_up_at_its_deadline_and_says_what_was_in_the_way(world: QueryWorld) -> None:
    world.script = [(QueryStatus.UNAVAILABLE, b"no leader is known: ask again")]
    client = world.client()
    text = "member=1 consistency=stale min_position=5000: member 1: no leader is known: ask again"
    with pytest.raises(ClusterTimeoutError, match=text):
        client.query(b"AAPL", consistency="stale", member_id=1, min_position=5000, timeout_s=1)
    late = world.asked[-1]
    world.answer(world.members[1], late[1], QueryStatus.OK, b"late")
    world.script = [(QueryStatus.OK, b"42")]
    assert client.query(b"AAPL").payload == b"42", "an answer that comes late is nobody's"


def test_new_leader_is_asked_after_a_failover(world: QueryWorld) -> None:
    world.script = [None, (QueryStatus.OK, b"42")]
    client = world.client(query_retry_interval_s=100)
    world.at(world.clock.now() + SECOND_NS // 2, lambda: world.fail_over(2))
    assert client.query(b"AAPL", timeout_s=20) == QueryReply(b"42", 4096, 2)
    assert world.members_asked == [0, 2]


def test_member_that_was_away_is_connected_anew(world: QueryWorld) -> None:
    client = world.client()
    assert client.query(b"AAPL", member_id=1).member_id == 1
    world.down = {1}
    with pytest.raises(ClusterTimeoutError, match="member=1"):
        client.query(b"AAPL", member_id=1, timeout_s=8)
    world.down = set()
    for publication in world.members[1].publications.values():
        publication.close()  # as a member does when nobody is at the other end any more
    world.members[1].publications.clear()
    assert client.query(b"AAPL", member_id=1, timeout_s=30).member_id == 1


def test_many_queries_at_once_find_their_own_answers(world: QueryWorld) -> None:
    done: list[PendingQuery] = []
    client = world.client()
    pending = [client.start_query(b"%d" % i, member_id=i % 3, on_done=done.append) for i in range(30)]
    world.run(client, lambda: len(done) == len(pending))
    assert {query.correlation_id for query in done} == {query.correlation_id for query in pending}
    assert [query.result().member_id for query in pending] == [i % 3 for i in range(30)]


def test_query_waits_for_a_session_that_is_being_opened(world: QueryWorld) -> None:
    client = world.client(wait=False)
    pending = client.start_query(b"AAPL")
    world.run(client, lambda: pending.is_done)
    assert pending.result().payload == b"42"


def test_callbacks_start_queries_and_do_not_wait_for_them(world: QueryWorld) -> None:
    pending: list[PendingQuery] = []
    errors: list[ClusterError] = []

    def on_message(session_id: int, timestamp: int, payload: bytes) -> None:
        try:
            client.query(b"AAPL")
        except ClusterError as error:
            errors.append(error)
        pending.append(client.start_query(b"AAPL"))

    client = world.client(on_message=on_message)
    client.send(b"echo")
    world.run(client, lambda: pending and pending[0].is_done)
    assert pending[0].result().payload == b"42"
    assert "use start_query" in errors[0].message


def test_queries_end_with_their_session(world: QueryWorld) -> None:
    world.script = [None]
    client = world.client()
    pending = client.start_query(b"AAPL")
    client.close()
    with pytest.raises(SessionClosedError, match="session 1 is over: it was closed by this client"):
        pending.result()
    with pytest.raises(SessionClosedError):
        client.start_query(b"AAPL")


def test_what_cannot_be_asked_is_said_at_once(world: QueryWorld) -> None:
    client = world.client()
    with pytest.raises(ClusterError, match="consistency='exact': allowed are linearizable, stale"):
        client.query(b"AAPL", consistency="exact")
    with pytest.raises(ClusterError, match="member_id=9: members with an ingress endpoint are 0, 1, 2"):
        client.query(b"AAPL", member_id=9)
    with pytest.raises(
        ClusterError,
        match=r"query of 200,000 bytes: at most .* or set ClientSettings\(ingress_channel=.*term-length=2m",
    ):
        client.query(bytes(200_000))
    with pytest.raises(ConfigurationError, match="query_retry_interval_s=0: must be a number of seconds above 0"):
        ClientSettings(query_retry_interval_s=0)
    assert world.asked == []


def test_answers_that_are_none_are_ignored(world: QueryWorld) -> None:
    """Unknown questions, unknown statuses: the query goes on."""
    client = world.client(query_retry_interval_s=0.1)
    world.script = [None, (QueryStatus.OK, b"42")]
    pending = client.start_query(b"AAPL")
    world.run(client, lambda: len(world.asked) == 1)
    leader, query = world.members[0], world.asked[0][1]
    world.answer(leader, query._replace(correlation_id=99), QueryStatus.OK, b"another's")
    world.run(client, lambda: pending.is_done)
    assert pending.result().payload == b"42"


def test_query_of_the_asyncio_client(world: QueryWorld) -> None:
    _, transport = world.client_process()

    async def ask() -> tuple[QueryReply, QueryReply]:
        async with AsyncClusterClient(world.endpoints, "aeron:udp?endpoint=10.0.1.1:0", transport=transport) as client:
            return await client.query(b"AAPL"), await client.query(b"MSFT", consistency="stale", member_id=2)

    first, second = asyncio.run(asyncio.wait_for(ask(), 30))
    assert (first, second) == (QueryReply(b"42", 4096, 0), QueryReply(b"42", 4096, 2))

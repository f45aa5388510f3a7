"""Queries of real processes: of leader and followers, through failovers, in both modes of the service."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.query import QueryReply
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.errors import ClusterTimeoutError, QueryFailedError
from tests.cluster.integration.agreement import counter_of
from tests.cluster.integration.conftest import LendCluster, StartCluster
from tests.cluster.integration.protocol import COUNT
from tests.cluster.integration.writer import Writer
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def count_of(reply: QueryReply) -> int:
    """How many entries the ledger of the answer's member held."""
    (count,) = COUNT.unpack(reply.payload)
    return int(count)


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_every_member_shows_what_was_answered_before(lend_cluster: LendCluster, mode: str) -> None:
    cluster = lend_cluster(service_mode=mode)
    with Writer(cluster.ingress_endpoints) as writer:
        for _ in range(10):
            writer.write(50)
            for member_id in (None, *cluster.member_ids):
                reply = writer.client.query(b"", member_id=member_id)
                assert count_of(reply) == writer.acked
                assert reply.member_id == (cluster.leader() if member_id is None else member_id)


def test_stale_answers_say_of_which_position_they_are(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    leader = cluster.await_leader()
    follower = next(member_id for member_id in cluster.member_ids if member_id != leader)
    with Writer(cluster.ingress_endpoints, new_leader_timeout_s=patient(60)) as writer:
        writer.write(500)
        here = writer.client.query(b"")
        there = writer.client.query(b"", consistency="stale", member_id=follower, min_position=here.log_position)
        assert there.log_position >= here.log_position and count_of(there) == writer.acked
        cluster.send_signal(follower, signal.SIGSTOP)
        cluster.kill(leader)
        cluster.send_signal(follower, signal.SIGCONT)
        cluster.kill(next(member_id for member_id in cluster.member_ids if member_id not in (leader, follower)))
        alone = writer.client.query(b"", consistency="stale", member_id=follower, timeout_s=patient(10))
        assert count_of(alone) == writer.acked, "no quorum is left, and what was committed can be read"
        with pytest.raises(ClusterTimeoutError, match=f"member={follower} consistency=stale min_position="):
            writer.client.query(
                b"",
                consistency="stale",
                member_id=follower,
                min_position=alone.log_position + 32,
                timeout_s=1,
            )
        with pytest.raises(ClusterTimeoutError, match=f"member={follower} consistency=linearizable: member"):
            writer.client.query(b"", member_id=follower, timeout_s=patient(2))


def test_queries_go_on_through_the_death_of_the_leader(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(200)
        old = cluster.await_leader()
        cluster.kill(old)
        started_s = time.monotonic()
        assert count_of(writer.client.query(b"", timeout_s=patient(20))) == writer.acked
        print(f"\nfirst answer {(time.monotonic() - started_s) * 1000:.0f} ms after the leader was killed")
        writer.write(200)
        cluster.start_member(old)
        assert count_of(writer.client.query(b"", member_id=old, timeout_s=patient(30))) == writer.acked


def test_service_that_fails_at_a_query_goes_on(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(10)
        for member_id in cluster.member_ids:
            with pytest.raises(QueryFailedError, match=f"member {member_id}: RuntimeError: the ledger was told"):
                writer.client.query(b"raise", member_id=member_id)
        writer.write(10)
        assert [count_of(writer.client.query(b"", member_id=one)) for one in cluster.member_ids] == [20, 20, 20]


def test_queries_that_are_none_are_counted_and_harm_nobody(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster()
    whole = ordo_codecs.QUERY.encode(
        cluster_session_id=1 << 62, correlation_id=1, min_position=1 << 62, consistency=1, payload=b"AAPL"
    )
    before = counter_of(cluster, leader := cluster.await_leader(), CounterType.INVALID_REQUESTS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(10)
        publication = writer.client._current.leader_ingress
        assert publication is not None
        for message in [whole[:length] for length in range(8, len(whole))] + [whole] * 100:
            while publication.offer(message) <= 0:
                writer.client.poll()
        writer.write(100)
        assert count_of(writer.client.query(b"")) == 110
    assert counter_of(cluster, leader, CounterType.INVALID_REQUESTS) - before == len(whole) - 8
    cluster.check_running()


def test_queries_of_asyncio_are_many_at_a_time(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster()

    async def ask() -> list[QueryReply]:
        async with AsyncClusterClient(cluster.ingress_endpoints) as client:
            return await asyncio.gather(*[client.query(b"", member_id=one % 3) for one in range(300)])

    replies = asyncio.run(asyncio.wait_for(ask(), 60))
    assert [reply.member_id for reply in replies] == [one % 3 for one in range(300)]

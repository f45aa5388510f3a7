"""A stranger who can reach the ingress of the leader: whatever session it names, it speaks for nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption
from tests.cluster.integration.agreement import await_that, counter_of, demand_agreement
from tests.cluster.integration.conftest import LendCluster, StartCluster, lend_cluster, start_cluster
from tests.cluster.integration.writer import Writer
from tests.thorough import few_of

__all__ = ["lend_cluster", "start_cluster"]
GUESSES = (-1, -2, 0, 1, 2, 3, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
"""Marks of empty slots, ids that were given one after another before they were random, ids of service messages."""


@contextmanager
def stranger(
    endpoint: str, stream_id: int = INGRESS_STREAM_ID, interface: str = "127.0.0.1", **keys: str
) -> Iterator[Callable[[bytes], None]]:
    """Sends to a member's ingress without having a session; `keys`: those of a client, where they are needed."""
    transport = ClientTransport.embedded(encryption=Encryption.chosen(**keys))
    try:
        channel = f"aeron:udp?endpoint={endpoint}|term-length=64k|interface={interface}"
        publication = transport.client.add_exclusive_publication(channel, stream_id)

        def send(message: bytes) -> None:
            while publication.offer(message) <= 0:
                transport.drive()
            for _ in range(10):
                transport.drive()

        yield send
    finally:
        transport.close()


def session_message(term_id: int, session_id: int) -> bytes:
    header = codecs.SESSION_MESSAGE_HEADER.encode(
        leadership_term_id=term_id, cluster_session_id=session_id, timestamp=0
    )
    return header + b"from a stranger"


def leader_endpoint(cluster: LocalCluster) -> tuple[int, str]:
    leader = cluster.await_leader()
    return leader, cluster.ingress_endpoints[leader]


@pytest.mark.parametrize(("mode", "is_encrypted"), [("process", False), ("inline", False), ("process", True)])
def test_messages_and_requests_for_guessed_sessions_do_nothing(
    lend_cluster: LendCluster, mode: str, is_encrypted: bool
) -> None:
    """One message for session -1 was once executed on every member as a service's, and deafened it to its own."""
    cluster = lend_cluster(service_mode=mode, encrypted=is_encrypted)
    _, endpoint = leader_endpoint(cluster)
    keys = cluster.client_keys
    with Writer(cluster.ingress_endpoints, **keys) as writer, stranger(endpoint, **keys) as send:
        writer.write(50)
        term_id = writer.client.leadership_term_id
        for session_id in GUESSES:
            ids = {"leadership_term_id": term_id, "cluster_session_id": session_id}
            send(session_message(term_id, session_id))
            send(codecs.SESSION_KEEP_ALIVE.encode(**ids))
            send(codecs.SESSION_CLOSE_REQUEST.encode(**ids))
        writer.write(50)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
    cluster.check_running()


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_message_for_anothers_session_is_refused_and_counted(lend_cluster: LendCluster, is_encrypted: bool) -> None:
    """A session is bound to the image that it was opened on, so that knowing its number is not enough."""
    cluster = lend_cluster(encrypted=is_encrypted)
    leader, endpoint = leader_endpoint(cluster)
    keys = cluster.client_keys
    with Writer(cluster.ingress_endpoints, **keys) as writer, stranger(endpoint, **keys) as send:
        writer.write(50)
        message = session_message(writer.client.leadership_term_id, writer.client.session_id)
        refused = counter_of(cluster, leader, CounterType.INVALID_REQUESTS)
        for _ in range(5):
            send(message)
        writer.run(lambda: counter_of(cluster, leader, CounterType.INVALID_REQUESTS) == refused + 5, timeout_s=30)
        writer.write(50)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
    cluster.check_running()


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_query_for_anothers_session_is_refused_and_counted(lend_cluster: LendCluster, is_encrypted: bool) -> None:
    """It had the service asked in the name of that session, and its client answered."""
    cluster = lend_cluster(encrypted=is_encrypted)
    leader, endpoint = leader_endpoint(cluster)
    keys = cluster.client_keys
    with Writer(cluster.ingress_endpoints, **keys) as writer, stranger(endpoint, **keys) as send:
        writer.write(50)
        refused = counter_of(cluster, leader, CounterType.INVALID_REQUESTS)
        for consistency in ordo_codecs.Consistency:
            send(
                ordo_codecs.QUERY.encode(
                    cluster_session_id=writer.client.session_id,
                    correlation_id=7,
                    min_position=-1,
                    consistency=consistency,
                    payload=b"",
                )
            )
        writer.run(lambda: counter_of(cluster, leader, CounterType.INVALID_REQUESTS) == refused + 2, timeout_s=30)
        writer.write(50)
    cluster.check_running()


@pytest.mark.parametrize("is_encrypted", few_of([False, True], [False]))
def test_a_session_is_nobody_elses_after_a_change_of_the_leader(
    start_cluster: StartCluster, is_encrypted: bool
) -> None:
    """A new leader has never heard from the client, and took whoever showed the session's id first for it."""
    cluster = start_cluster(encrypted=is_encrypted)
    first = cluster.await_leader()
    keys = cluster.client_keys
    with Writer(cluster.ingress_endpoints, **keys) as writer:
        writer.write(50)
        cluster.kill(first)
        leader = cluster.await_leader(other_than=first)
        term_id = counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID)
        ids = {"leadership_term_id": term_id, "cluster_session_id": writer.client.session_id}
        refused = counter_of(cluster, leader, CounterType.INVALID_REQUESTS)
        with stranger(cluster.ingress_endpoints[leader], interface="127.0.0.2", **keys) as send:
            for message in (
                session_message(term_id, writer.client.session_id),
                codecs.SESSION_KEEP_ALIVE.encode(**ids),
                codecs.SESSION_CLOSE_REQUEST.encode(**ids),
            ):
                send(message)
            await_that(
                lambda: counter_of(cluster, leader, CounterType.INVALID_REQUESTS) >= refused + 3, "all are refused", 30
            )
        writer.write(50)
        cluster.start_member(first)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1


def test_numbers_of_sessions_cannot_be_guessed(start_cluster: StartCluster) -> None:
    cluster = start_cluster(member_count=1)
    ids = set()
    for _ in range(8):
        with Writer(cluster.ingress_endpoints) as writer:
            ids.add(writer.client.session_id)
    assert len(ids) == 8
    assert sum(session_id > 2**48 for session_id in ids) == 8

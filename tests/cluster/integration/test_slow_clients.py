"""A client that does not take what it is sent, beside others, on real processes (docs/CLIENT.md, Slow clients)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.errors import SessionClosedError
from tests.cluster.integration.agreement import await_that, describe
from tests.cluster.integration.conftest import PATIENT, LendCluster, StartCluster
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ECHO = "tests.cluster.integration.services:CountingEcho"
BANK = "tests.cluster.integration.requests_service:Bank"
MODES = pytest.mark.parametrize("mode", few_of(["process", "inline"], ["process"]))
KIB = 1024
SETTINGS = ClientSettings(message_timeout_s=20)


class Client:
    """Keeps what it is sent, and what it is told of its session."""

    def __init__(self, endpoints: dict[int, str], **settings: Any) -> None:
        self.received: list[bytes] = []
        self.events: list[str] = []
        self.client = ClusterClient(
            endpoints,
            settings=replace(SETTINGS, **settings),
            on_message=lambda session_id, timestamp, payload: self.received.append(payload),
            on_session_event=lambda code, detail: self.events.append(f"{code.name}: {detail}"),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def send_unread(self, payloads: list[bytes]) -> None:
        """Runs the transport, so that all is sent, and takes nothing that comes in."""
        for payload in payloads:
            while self.client.offer(payload) < 0:
                self.client.flush()
                self.client.park(0.0001)
        self.client.flush()

    def await_service(self, what: bytes, count: int, other: Client) -> None:
        """Until the service has "executed" so many messages of this session, or "closed" it, as `other` is told.

        This client takes no answer. A service may be behind the log by more than what is sent here, so who reads
        meanwhile need not be slow.
        """
        asked = b"%s %d" % (what, self.client.session_id)
        while int(other.client.query(asked).payload) < count:
            self.client.flush()

    def poll_until(self, count: int) -> None:
        while len(self.received) < count:
            if self.client.poll() == 0:
                self.client.park(0.001)


def numbered(count: int, length_bytes: int) -> list[bytes]:
    return [b"%06d" % number + bytes(length_bytes - 6) for number in range(count)]


@MODES
def test_a_window_of_answers_that_is_not_read_is_kept(lend_cluster: LendCluster, mode: str) -> None:
    """Inline the answers to 4,096 messages of 1 KiB were lost: the thread that waited was to drain them."""
    cluster = lend_cluster(ECHO, service_mode=mode, cluster=PATIENT)
    with Client(cluster.ingress_endpoints) as slow, Client(cluster.ingress_endpoints) as other:
        slow.send_unread(sent := numbered(4096, KIB))
        other.send_unread([b"hello"])
        other.poll_until(1)
        slow.poll_until(4096)
        assert slow.received == sent


@MODES
def test_others_are_answered_while_one_takes_a_few_at_a_time(lend_cluster: LendCluster, mode: str) -> None:
    """One client that took 200 answers a second held up all others for 23.6 s; the leader lost its office inline."""
    cluster = lend_cluster(ECHO, service_mode=mode, cluster=PATIENT)
    leader = cluster.await_leader()
    with Client(cluster.ingress_endpoints) as slow, Client(cluster.ingress_endpoints) as other:
        slow.send_unread(sent := numbered(4000, KIB))
        for number in range(200):
            other.send_unread([b"%d" % number])
            other.poll_until(number + 1)
            slow.client.poll(1)
        assert other.received == [b"%d" % number for number in range(200)]
        assert len(slow.received) <= 200
        slow.poll_until(4000)
        assert slow.received == sent
        assert slow.events == other.events == []
    assert cluster.await_leader() == leader


@MODES
def test_a_client_that_takes_too_little_is_told_why_its_session_ends(lend_cluster: LendCluster, mode: str) -> None:
    cluster = lend_cluster(ECHO, service_mode=mode, cluster={**PATIENT, "egress_buffer": "256k"})
    with Client(cluster.ingress_endpoints) as slow, Client(cluster.ingress_endpoints) as other:
        slow.send_unread(sent := numbered(1500, KIB))
        slow.await_service(b"closed", 1, other)
        with pytest.raises(SessionClosedError, match=r"too slow: it left more than 262144 bytes untaken"):
            slow.poll_until(1500)
        assert slow.received == sent[: len(slow.received)]
        assert slow.events == ["CLOSED: too slow: it left more than 262144 bytes untaken (egress_buffer)"]


@MODES
def test_a_feed_goes_on_and_knows_what_it_missed(lend_cluster: LendCluster, mode: str) -> None:
    cluster = lend_cluster(ECHO, service_mode=mode, cluster={**PATIENT, "egress_buffer": "256k"})
    with (
        Client(cluster.ingress_endpoints, egress_policy="drop-oldest") as feed,
        Client(cluster.ingress_endpoints) as other,
    ):
        feed.send_unread(sent := numbered(1500, KIB))
        feed.await_service(b"executed", 1500, other)
        while not feed.received or feed.received[-1] != sent[-1]:
            feed.poll_until(len(feed.received) + 1)
        missed = sum(int(event.split(": ")[2].split()[0]) for event in feed.events)
        assert 0 < missed == 1500 - len(feed.received)
        assert feed.received == [payload for payload in sent if payload in set(feed.received)]


def sessions_of(cluster: LocalCluster, member_id: int) -> int:
    """How many sessions a member knows."""
    return sum(one.type_id == CounterType.SESSION for one in read_counters(cluster.aeron_dir(member_id)))


@MODES
def test_requests_get_all_answers_through_a_disconnection(start_cluster: StartCluster, mode: str) -> None:
    """The client comes back by its identity, and gets what it missed."""
    cluster = start_cluster(BANK, service_mode=mode, cluster={**PATIENT, "egress_buffer": "64k"})
    leader = cluster.await_leader()
    with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
        client.request(b'{"add": 1}')
        before = client.session_id
        await_that(lambda: sessions_of(cluster, leader) == 1, "the counter of the session")
        pending = [client.submit(b'{"add": 1}') for _ in range(8000)]

        def is_disconnected() -> bool:
            client._requests.work(client._transport.clock.now())  # type: ignore[union-attr]
            client.flush()  # sends, and takes no answer
            return sessions_of(cluster, leader) == 0

        await_that(is_disconnected, "the end of the session", explain=lambda: describe(cluster))
        answers = [one.result(60) for one in pending]
        assert len({answer.log_position for answer in answers}) == 8000
        assert b'"balance": 8001' in answers[-1].payload
        assert client.session_id != before

"""A stranger has a cluster send to somebody else: bytes in, and bytes out to an address that asked for nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.transport.driver.frames.system_counters import REFUSED_TYPE_ID
from tests.attacks.test_sessions import leader_endpoint, stranger
from tests.attacks.test_streams import setup
from tests.cluster.integration.agreement import await_that, counter_of, demand_agreement
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.cluster.integration.writer import Writer
from tests.patience import patient
from tests.transport.test_hostile_stream import frame

__all__ = ["start_cluster"]
HOST = "127.0.0.1"
EGRESS_STREAM = 102
QUIET_S = 1.5
"""Longer than between any two set-ups or status messages."""
HELLO_LENGTH, NOTICE_LENGTH = 96, 16
NOT_ENCRYPTED = (9).to_bytes(4, "little")
"""Key of its counter."""


def later() -> None:
    """Ask for nothing again."""


class Port:
    """A socket of somebody; what it was sent."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.socket.settimeout(QUIET_S)
        self.number: int = self.socket.getsockname()[1]
        self.sent = 0

    def send(self, endpoint: str, *datagrams: bytes) -> None:
        host, _, port = endpoint.rpartition(":")
        for datagram in datagrams:
            self.socket.sendto(datagram, (host, int(port)))
            self.sent += len(datagram)
            time.sleep(0.05)

    def received(self, ask_again: Callable[[], object] | None = None, limit_s: float = 20.0) -> list[int]:
        """Lengths of all datagrams until nothing more comes; while nothing came, what brings it may be sent again.

        A member of a busy machine may take its time: `later` waits for the first one.
        """
        lengths: list[int] = []
        deadline_s = time.monotonic() + patient(limit_s)
        while time.monotonic() < deadline_s:
            try:
                lengths.append(len(self.socket.recv(65536)))
            except TimeoutError:
                if lengths or ask_again is None:
                    break
                ask_again()
        return lengths


@contextmanager
def port() -> Iterator[Port]:
    made = Port()
    try:
        yield made
    finally:
        made.socket.close()


def connect_request(channel: str) -> bytes:
    return codecs.SESSION_CONNECT_REQUEST.encode(
        correlation_id=1,
        response_stream_id=EGRESS_STREAM,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        response_channel=channel,
        encoded_credentials=b"",
        client_info="",
    )


def backup_query(port_number: int) -> bytes:
    return codecs.BACKUP_QUERY.encode(
        correlation_id=1,
        response_stream_id=EGRESS_STREAM,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        response_channel=f"aeron:udp?endpoint={HOST}:{port_number}",
        encoded_credentials=b"",
    )


def operator_connect(port_number: int) -> bytes:
    return ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=port_number, credentials=b"")


ASKS = {
    "connect request": lambda number: connect_request(f"aeron:udp?endpoint={HOST}:{number}"),
    "backup query": backup_query,
    "operator": operator_connect,
}


def of_every_member(cluster: LocalCluster, attack: Callable[[int, str], None]) -> None:
    """Attack all at a time: what each sends is counted apart, and all are listened to until they are quiet."""
    endpoints = cluster.ingress_endpoints.values()
    with ThreadPoolExecutor(len(endpoints)) as pool:
        list(pool.map(attack, range(len(endpoints)), endpoints))


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_request_for_somebody_else(start_cluster: StartCluster, ask: Callable[[int], bytes]) -> None:
    """168 bytes had 5,960 sent to whatever address they named, by every member."""
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(50)

        def attack(session: int, endpoint: str) -> None:
            with port() as attacker, port() as victim:
                request = frame(0, ask(victim.number), session=session, stream=INGRESS_STREAM_ID)
                send = partial(attacker.send, endpoint, setup(session, INGRESS_STREAM_ID), request)
                send()
                got = victim.received(send)  # a frame that comes before its set-up was seen to is dropped
                assert 0 < sum(got) <= attacker.sent
                assert set(got) == {40}, "more than set-ups"

        of_every_member(cluster, attack)
        writer.write(50)
        demand_agreement(cluster, [writer])
    cluster.check_running()


def test_a_client_with_a_trusted_key_names_somebody_else(start_cluster: StartCluster) -> None:
    """The victim gets the beginnings of handshakes: no more of them than the client's request weighs, encrypted."""
    cluster = start_cluster(encrypted=True)
    _, endpoint = leader_endpoint(cluster)
    for ask in ASKS.values():
        with stranger(endpoint, **cluster.client_keys) as send, port() as victim:
            send(ask(victim.number))
            got = victim.received(later)
            assert set(got) <= {HELLO_LENGTH}
            assert 0 < len(got) <= 2
    cluster.check_running()


def test_an_encrypted_cluster_tells_who_has_no_key_that_it_is_encrypted(start_cluster: StartCluster) -> None:
    """In 16 bytes for a datagram, of set-ups, gaps and requests alike. The address that requests name gets nothing."""
    cluster = start_cluster(encrypted=True)
    before = [not_encrypted(cluster, one) for one in cluster.member_ids]
    with port() as attacker, port() as victim:
        for session, endpoint in enumerate(cluster.ingress_endpoints.values()):
            attacker.send(endpoint, setup(session, INGRESS_STREAM_ID))
            for ask in ASKS.values():
                request = ask(victim.number)
                attacker.send(endpoint, frame(0, request, session=session, stream=INGRESS_STREAM_ID))
            attacker.send(endpoint, frame(4096, bytes(32), session=session, stream=INGRESS_STREAM_ID))
        got = attacker.received()
        assert set(got) <= {NOTICE_LENGTH} and len(got) <= 5 * len(cluster.member_ids)
        assert victim.received() == []
    wanted = [count + 5 for count in before]
    await_that(lambda: [not_encrypted(cluster, one) for one in cluster.member_ids] == wanted, "each datagram counts")
    cluster.check_running()


def not_encrypted(cluster: LocalCluster, member_id: int) -> int:
    """Datagrams that a member's driver dropped because they were not encrypted."""
    counters = read_counters(cluster.aeron_dir(member_id))
    return sum(one.value for one in counters if one.type_id == REFUSED_TYPE_ID and one.key[:4] == NOT_ENCRYPTED)


def silent_source(cluster: LocalCluster, datagrams: Callable[[int], list[bytes]]) -> None:
    def listen(session: int, endpoint: str) -> None:
        with port() as source:
            source.send(endpoint, *datagrams(1000 + session))
            got = source.received(later)
            assert 0 < sum(got) <= source.sent, (len(got), source.sent)

    of_every_member(cluster, listen)


@pytest.mark.parametrize("gap", [False, True], ids=["set-up", "gap"])
def test_a_stream_in_the_name_of_somebody_else(start_cluster: StartCluster, gap: bool) -> None:
    """With somebody else's source address: 40 bytes brought 2,016, and 104 bytes with a gap brought 1.2 MB."""
    cluster = start_cluster()

    def datagrams(session: int) -> list[bytes]:
        beyond = frame(4096, bytes(32), session=session, stream=INGRESS_STREAM_ID)
        return [setup(session, INGRESS_STREAM_ID), *([beyond] if gap else [])]

    silent_source(cluster, datagrams)
    cluster.check_running()


@pytest.mark.parametrize(
    "channel",
    ["aeron:ipc", "aeron:udp?control=127.0.0.1:9|control-mode=dynamic", "aeron:udp?endpoint=224.20.30.39:40456"],
)
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_response_channel_that_no_client_may_ask_for(
    start_cluster: StartCluster, channel: str, is_encrypted: bool
) -> None:
    """Over IPC the answers of the service were taken for its own messages."""
    cluster = start_cluster(member_count=1, encrypted=is_encrypted)
    leader, endpoint = leader_endpoint(cluster)
    keys = cluster.client_keys
    with Writer(cluster.ingress_endpoints, **keys) as writer, stranger(endpoint, **keys) as send:
        writer.write(20)
        refused = counter_of(cluster, leader, CounterType.INVALID_REQUESTS)
        send(connect_request(channel))
        writer.run(lambda: counter_of(cluster, leader, CounterType.INVALID_REQUESTS) == refused + 1, timeout_s=30)
        writer.write(20)
    cluster.check_running()

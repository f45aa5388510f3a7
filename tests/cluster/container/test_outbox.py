"""Clients that do not take what they are sent: the service never waits for them (docs/CLIENT.md, Slow clients)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.service_api.service import ClusteredService, OfferResult
from tests.cluster.container.native_service import NativeEcho
from tests.cluster.container.service_node import ServiceNode

SLOW, QUICK = "aeron:udp?endpoint=slow:1", "aeron:udp?endpoint=quick:1"
FEED = f"{SLOW}|egress-policy=drop-oldest"
KIB = 1024
BUFFER_BYTES = 64 * KIB


class Echo(ClusteredService):
    def __init__(self) -> None:
        self.results: list[int] = []

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.results.append(session.offer(payload))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=True)
    yield node
    node.close()


def run(node: ServiceNode, container: ServiceContainer) -> None:
    node.commit()
    node.run(container)


def numbered(count: int, first: int = 0, length_bytes: int = 1000) -> list[bytes]:
    return [b"%06d" % number + bytes(length_bytes - 6) for number in range(first, first + count)]


def take_all(node: ServiceNode, container: ServiceContainer, channel: str) -> list[bytes]:
    """Reads as long as anything comes, with duty cycles between."""
    found: list[bytes] = []
    while more := node.client.received(node.client.egress[channel, 102]):
        found += more
        node.cycle(container)
    return found


def payloads(messages: list[bytes]) -> list[bytes]:
    return [message[32:] for message in messages]


@pytest.mark.parametrize("service_class", [Echo, NativeEcho])
def test_what_a_client_does_not_take_is_kept_in_order(node: ServiceNode, service_class: type) -> None:
    """A window of 4,096 messages of 1 KiB, answered while nobody reads: inline they were lost outright."""
    container = node.container(service_class())
    node.open_session(1, SLOW)
    sent = numbered(4096, length_bytes=1024)
    for payload in sent:
        node.message(1, payload)
    run(node, container)
    assert container.messages_executed == 4096
    assert container.egress.kept_bytes == container.sessions[1].kept_bytes > 3 << 20
    assert payloads(take_all(node, container, SLOW)) == sent
    assert (container.egress.keeps, container.egress.kept_bytes, container.sessions[1].kept_bytes) == (False, 0, 0)


def test_others_get_theirs_meanwhile(node: ServiceNode) -> None:
    container = node.container(service := Echo())
    node.open_session(1, SLOW)
    node.open_session(2, QUICK)
    for payload in numbered(300):
        node.message(1, payload)
        node.message(2, payload)
    node.commit()
    taken: list[bytes] = []
    cycles = 0
    while len(taken) < 300:
        node.cycle(container)
        cycles += 1
        if (QUICK, 102) in node.client.egress:
            taken += payloads(node.client.received(node.client.egress[QUICK, 102]))
    assert cycles <= 600 // container.record_limit + 3, "as many duty cycles as without the slow client"
    assert taken == numbered(300)
    assert all(result > 0 for result in service.results)
    assert container.sessions[1].kept_bytes > 200_000 and container.sessions[2].kept_bytes == 0


def test_a_client_that_takes_too_little_is_disconnected(node: ServiceNode) -> None:
    container = node.container(service := Echo(), egress_buffer_bytes=BUFFER_BYTES)
    node.open_session(1, SLOW)
    node.open_session(2, QUICK)
    for payload in numbered(200):
        node.message(1, payload)
    node.message(2, b"hello")
    run(node, container)
    ((name, values),) = [one for one in node.asked() if one[0] != "ServiceAck"]
    assert (name, values.cluster_session_id) == ("DisconnectSession", 1)
    assert values.detail == "too slow: it left more than 65536 bytes untaken (egress_buffer)"
    assert service.results[-2:] == [OfferResult.NOT_CONNECTED, service.results[-1]]
    assert OfferResult.CLOSED in service.results and service.results[-1] > OfferResult.KEPT
    assert not container.sessions[1].is_connected and container.sessions[2].is_connected
    assert container.egress.kept_bytes == 0
    assert payloads(node.client.received(node.client.egress[QUICK, 102])) == [b"hello"]


def test_a_feed_loses_its_oldest_and_says_how_many(node: ServiceNode) -> None:
    container = node.container(Echo(), egress_buffer_bytes=BUFFER_BYTES)
    node.open_session(1, FEED)
    sent = numbered(300)
    for payload in sent:
        node.message(1, payload)
    run(node, container)
    assert container.egress.kept_bytes <= BUFFER_BYTES
    dropped = container.egress.messages_dropped
    taken = take_all(node, container, FEED)
    gaps = [index for index, message in enumerate(taken) if codecs.decode(message)[0] is codecs.SESSION_EVENT]  # type: ignore[index]
    assert len(gaps) == 1 and dropped > 0
    _, event = ordo_codecs.decode_any(taken[gaps[0]])  # type: ignore[misc]
    assert event.detail == f"too slow: {dropped} messages are left out here (egress_buffer)"
    before, after = payloads(taken[: gaps[0]]), payloads(taken[gaps[0] + 1 :])
    assert before == sent[: len(before)]
    assert after == sent[len(before) + dropped :]
    assert [one for one in node.asked() if one[0] == "DisconnectSession"] == []


def test_when_all_keep_too_much_the_largest_is_given_up(node: ServiceNode) -> None:
    container = node.container(Echo(), egress_buffer_bytes=4 * BUFFER_BYTES, egress_buffer_total_bytes=4 * BUFFER_BYTES)
    channels = {number: f"{SLOW}|alias={number}" for number in (1, 2, 3)}
    for number, channel in channels.items():
        node.open_session(number, channel)
    for number, count in ((1, 150), (2, 250), (3, 200)):
        for payload in numbered(count):
            node.message(number, payload)
    run(node, container)
    given_up = [values.cluster_session_id for name, values in node.asked() if name == "DisconnectSession"]
    assert given_up == [2]
    assert container.egress.kept_bytes <= 4 * BUFFER_BYTES
    assert payloads(take_all(node, container, channels[1])) == numbered(150)
    assert payloads(take_all(node, container, channels[3])) == numbered(200)


def test_a_client_that_is_gone_keeps_nothing(node: ServiceNode) -> None:
    container = node.container(Echo())
    node.open_session(1, SLOW)
    for payload in numbered(100):
        node.message(1, payload)
    run(node, container)
    assert container.egress.keeps
    node.client.egress[SLOW, 102].log.connected = False
    node.cycle(container)
    assert not container.egress.keeps
    node.close_session(1)
    run(node, container)
    assert container.egress.kept_bytes == 0


def test_a_closed_session_and_a_lost_leadership_keep_nothing(node: ServiceNode) -> None:
    container = node.container(Echo())
    for number, channel in ((1, SLOW), (2, QUICK)):
        node.open_session(number, channel)
        for payload in numbered(100):
            node.message(number, payload)
    run(node, container)
    before = container.egress.kept_bytes
    node.close_session(1)
    run(node, container)
    assert 0 < container.egress.kept_bytes < before
    node.leader_term.set(-1)
    node.cycle(container)
    assert container.egress.kept_bytes == 0 and not container.egress.keeps

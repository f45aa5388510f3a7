"""What a service may publish, as its harness holds it to it."""

from __future__ import annotations

import pytest

from ordo.runtime.errors import ServiceError
from ordo.service_api.feeds import PAYLOAD_BYTES_MAX, TOPICS_MAX, check_publication
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service


class Echo(ClusteredService):
    """Publishes each message to the topic that it names, and answers with its number."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        topic, _, text = payload.decode().partition(" ")
        return b"%d" % self.cluster.publish(topic, text.encode())


def test_topics_are_numbered_by_themselves() -> None:
    inputs: list[Input] = [OpenSession(1, 10), *(Message(1, 11, text) for text in (b"a x", b"b y", b"a z"))]
    harness = ServiceHarness(Echo).execute(*inputs)
    assert harness.egress(1) == [b"1", b"1", b"2"]
    assert harness.feed("a") == [b"x", b"z"]
    assert harness.feed("b") == [b"y"]
    check_service(Echo, inputs)


class Words(ClusteredService):
    """Publishes the words of each message in one call."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        return b"%d" % self.cluster.publish("words", *payload.split())


def test_many_messages_are_published_in_one_call() -> None:
    inputs: list[Input] = [OpenSession(1, 10), Message(1, 11, b"x y"), Message(1, 11, b"z")]
    harness = check_service(Words, inputs)
    assert harness.egress(1) == [b"1", b"3"] and harness.feed("words") == [b"x", b"y", b"z"]


def test_there_are_so_many_topics_and_no_more() -> None:
    harness = ServiceHarness(Echo).execute(OpenSession(1, 10))
    harness.execute(*(Message(1, 11, b"t%d x" % number) for number in range(TOPICS_MAX)))
    with pytest.raises(ServiceError, match="32 topics already"):
        harness.execute(Message(1, 11, b"one-more x"))


@pytest.mark.parametrize("topic", ["", ".a", "a b", "a|b", "a:b", "ä", "x" * 65])
def test_names_that_no_topic_has(topic: str) -> None:
    with pytest.raises(ServiceError, match="must have 1 to 64"):
        check_publication(topic, 1)


def test_a_message_that_is_too_long() -> None:
    check_publication("a", PAYLOAD_BYTES_MAX)
    with pytest.raises(ServiceError, match="at most 32000"):
        check_publication("a", PAYLOAD_BYTES_MAX + 1)

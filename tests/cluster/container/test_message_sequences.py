"""The numbers of messages: dense, kept in snapshots from their level on, and none where nobody can know them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import Reject
from ordo.service_api.native import Header, MessageSequence
from ordo.service_api.service import ClusteredService, MessageRun
from ordo.service_api.snapshot import SnapshotWriter
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_requests import Requests
from tests.cluster.container.test_service_container import take_snapshot


class Numbered(ClusteredService):
    """Keeps the number of each message."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Header) -> bytes | None:
        self.numbers.append(header.sequence)
        if payload == b"refused":
            raise Reject("as it asks")
        return None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"state")


class NumberedRuns(Numbered):
    """The same, many messages at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for _ in messages:
            self.numbers.append(messages.header.sequence)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=True)
    node.open_session(1)
    yield node
    node.close()


def raise_level(node: ServiceNode, level: int) -> int:
    term_id = node.leadership_term_id
    return node.append(
        ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=term_id, timestamp=node.time, level=level, member_id=0)
    )


def run(node: ServiceNode, container: ServiceContainer) -> None:
    node.commit()
    node.run(container)


def restore(node: ServiceNode, container: ServiceContainer, service: Numbered, flags: int = 0) -> ServiceContainer:
    """Go on from a snapshot that is taken here."""
    position, recording_id, _ = take_snapshot(node, container, flags)
    container.on_close()
    node.set_recovery(0, position, node.time, recording_id)
    return node.container(service)


@pytest.mark.parametrize("kind", [Numbered, NumberedRuns])
def test_messages_are_numbered_from_the_beginning_of_the_log_on(node: ServiceNode, kind: type[Numbered]) -> None:
    container = node.container(service := kind())
    node.message(1, b"one")
    raise_level(node, SEQUENCE_LEVEL)
    for payload in (b"two", b"three", b"four"):
        node.message(1, payload)
    run(node, container)
    assert service.numbers == [1, 2, 3, 4]
    container = restore(node, container, service := kind())
    node.message(1, b"five")
    run(node, container)
    assert service.numbers == [5]
    container.on_close()


def test_what_is_refused_has_a_number_and_what_is_sent_again_has_none(node: ServiceNode) -> None:
    container = node.container(service := Numbered())
    requests = Requests(node)
    requests.open()
    for number, payload in ((1, b"one"), (1, b"one"), (2, b"refused"), (2, b"refused"), (3, b"three")):
        requests.send(number, payload)
    run(node, container)
    assert service.numbers == [1, 2, 3]
    container.on_close()


def test_what_is_left_out_has_its_number_and_nobody_sees_it(node: ServiceNode) -> None:
    container = node.container(service := Numbered())
    positions = [node.message(1, payload) for payload in (b"one", b"poison", b"three")]
    container.marks = {positions[1]: "left out"}
    run(node, container)
    assert service.numbers == [1, 3]
    container.on_close()


def test_behind_a_snapshot_of_an_old_release_there_is_none_until_the_level_comes(node: ServiceNode) -> None:
    """Members that have executed all of the log say the same as those that start from the snapshot."""
    container = node.container(service := Numbered())
    raise_level(node, OUTPUT_ID_LEVEL)
    node.message(1, b"one")
    run(node, container)
    position, recording_id, _ = take_snapshot(node, container)
    node.message(1, b"none")
    level_position = raise_level(node, SEQUENCE_LEVEL)
    node.message(1, b"next")
    raise_level(node, SEQUENCE_LEVEL)
    node.message(1, b"and next")
    run(node, container)
    assert service.numbers == [1, 0, level_position + 1, level_position + 2]
    container.on_close()
    node.set_recovery(0, position, node.time, recording_id)
    node.service_position.set(position)
    container = node.container(restarted := Numbered())
    run(node, container)
    assert restarted.numbers == service.numbers[1:]
    container = restore(node, container, service := Numbered())
    node.message(1, b"the third")
    run(node, container)
    assert service.numbers == [level_position + 3]
    container.on_close()


def test_a_sequence_says_where_it_is() -> None:
    sequence = MessageSequence()
    assert (sequence.next(), sequence.next(), sequence.snapshot()) == (1, 2, (2, False))
    sequence.pass_snapshot()
    assert (sequence.next(), sequence.snapshot(), sequence.is_counting) == (0, (-1, False), False)
    sequence.keep(96)
    sequence.pass_snapshot()
    assert (sequence.next(), sequence.last, sequence.snapshot()) == (97, 97, (97, True))
    assert repr(Header(64, 1, 97)) == "Header(position=64, leadership_term_id=1, sequence=97, arrival_ns=None)"
    assert repr(Header(64, 1, 97, 5)) == "Header(position=64, leadership_term_id=1, sequence=97, arrival_ns=5)"


def answered(node: ServiceNode) -> list[tuple[int, int, int]]:
    """The number, the status and the sequence of each answer that the leader has sent."""
    found = []
    for message in node.client.received(node.client.egress["aeron:udp?endpoint=client:1", 102]):
        decoded: Any = ordo_codecs.decode_any(message)
        if decoded[0] is ordo_codecs.ANSWER:
            found.append((decoded[1].number, decoded[1].status, decoded[1].sequence))
    return found


def test_answers_tell_the_numbers_of_their_requests_as_long_as_they_are_known(node: ServiceNode) -> None:
    """A snapshot does not hold those of kept answers: nothing is said then, rather than something wrong."""
    container = node.container(Numbered())
    raise_level(node, SEQUENCE_LEVEL)
    requests = Requests(node)
    requests.open()
    node.message(1, b"one")
    requests.send(1, b"two")
    requests.send(2, b"refused")
    requests.send(1, b"two")
    requests.send(4, b"out of order")
    requests.send(1, b"of nobody", open_position=32)
    run(node, container)
    ok, refused = AnswerStatus.OK, AnswerStatus.REJECTED
    assert answered(node) == [(1, ok, 2), (2, refused, 3), (1, ok, 2), (1, AnswerStatus.UNKNOWN, 0)]
    container = restore(node, container, Numbered())
    requests.send(2, b"refused")
    requests.send(3, b"four")
    run(node, container)
    assert answered(node) == [(2, refused, 0), (3, ok, 4)]
    container.on_close()


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_standby_numbers_messages_as_members_do_behind_a_snapshot_of_its_own(
    node: ServiceNode, is_kept: bool
) -> None:
    """Below the level of numbers a log counts anew behind the members' snapshots; of this one they know nothing."""
    node.be_standby()
    container = node.container(service := Numbered())
    if is_kept:
        raise_level(node, SEQUENCE_LEVEL)
    node.message(1, b"first")
    run(node, container)
    if is_kept:
        container = restore(node, container, service := Numbered(), codecs.OF_STANDBYS)
    else:
        take_snapshot(node, container, codecs.OF_STANDBYS)
    node.message(1, b"second")
    run(node, container)
    assert service.numbers[-1] == 2

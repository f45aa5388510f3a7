"""Requests in the service container: executed once, answered again, part of the snapshot (docs/CLIENT.md)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.errors import Reject, ServiceError
from ordo.service_api.requests import NO_IDENTITY, IdentityState, OpenStatus, RequestLimits, RequestTable
from ordo.service_api.service import Cluster, ClusteredService, TimeUnit
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.container.native_service import NativeReply
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import take_snapshot

NAME = bytes(range(16))
OTHER = bytes(range(16, 32))


class Adder(ClusteredService):
    """Adds numbers up; what it is told to do otherwise is in the payload."""

    def __init__(self) -> None:
        self.total = 0
        self.identities: list[bytes | None] = []

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.total = int(snapshot.read())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        self.identities.append(session.identity)
        if payload == b"quiet":
            return None
        if payload == b"reply":
            session.reply(b"by reply")
            return None
        if payload == b"twice":
            session.reply(b"first")
            return b"second"
        if payload == b"wrong type":
            return 5  # type: ignore[return-value]
        if payload == b"exit":
            sys.exit("enough")
        if payload.startswith(b'"'):
            raise Reject(f"no account {json.loads(payload)}")
        if payload.startswith(b"refuse"):
            raise Reject("é" * int(payload[6:]))
        if payload.startswith(b"long"):
            return bytes(int(payload[4:]))
        try:
            self.total += int(payload)
        except ValueError:
            raise Reject("no number") from None
        return b"%d" % self.total

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"%d" % self.total)


class Answered(NamedTuple):
    number: int
    status: int
    payload: bytes
    log_position: int


class Requests:
    """Writes the records that a leader makes of a client's messages."""

    def __init__(self, node: ServiceNode) -> None:
        self.node = node
        self.position = 0

    def stamp(self, session_id: int) -> dict[str, int]:
        node = self.node
        return {"leadership_term_id": node.leadership_term_id, "cluster_session_id": session_id, "timestamp": node.time}

    def open(self, session_id: int = 1, identity: bytes = NAME, incarnation: int = 7, known: int = 0) -> None:
        record = ordo_codecs.OPEN_IDENTITY.encode(
            incarnation=incarnation,
            known_position=known,
            **ordo_codecs.split_identity(identity),
            **self.stamp(session_id),
        )
        self.position = self.node.append(record)

    def send(
        self, number: int, payload: bytes, confirmed: int = 0, session_id: int = 1, open_position: int | None = None
    ) -> int:
        head = ordo_codecs.REQUEST.encode(
            open_position=self.position if open_position is None else open_position,
            number=number,
            confirmed=confirmed,
            **self.stamp(session_id),
        )
        return self.node.append(head + payload)

    def write(self, number: int, payload: bytes, target: int) -> int:
        """An output of an application."""
        head = ordo_codecs.OUTPUT.encode(
            open_position=self.position, number=number, target_session_id=target, **self.stamp(1)
        )
        return self.node.append(head + payload)


def _take_all(self: Adder, messages: Any) -> None:
    for payload in messages:
        answer = self.on_session_message(messages.session, messages.timestamp, payload, messages.header)
        if answer is not None:
            messages.reply(answer)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=True)
    node.open_session(1)
    yield node
    node.close()


@pytest.fixture
def requests(node: ServiceNode) -> Requests:
    return Requests(node)


def run(node: ServiceNode, container: ServiceContainer) -> None:
    node.commit()
    node.run(container)


def sent(node: ServiceNode) -> list[Any]:
    """Answers, and values of other messages, that went to the client since the last call."""
    found: list[Any] = []
    for message in node.client.received(node.client.egress["aeron:udp?endpoint=client:1", 102]):
        decoded = ordo_codecs.decode_any(message)
        assert decoded is not None
        table, values = decoded
        if table is ordo_codecs.ANSWER:
            found.append(Answered(values.number, values.status, message[8 + table.block_length :], values.log_position))
        elif table is codecs.SESSION_MESSAGE_HEADER:
            found.append(message[32:])
        else:
            found.append(values)
    return found


def test_a_request_is_executed_once_and_answered_each_time(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    requests.open()
    first = requests.send(1, b"5")
    second = requests.send(2, b"6")
    requests.send(1, b"5")
    requests.send(2, b"6")
    run(node, container)
    opened, *answers = sent(node)
    assert (opened.status, opened.open_position, opened.number) == (OpenStatus.OK, requests.position, 0)
    assert opened.length_bytes_max == 128 * 1024
    expected = [Answered(1, AnswerStatus.OK, b"5", first), Answered(2, AnswerStatus.OK, b"11", second)]
    assert answers == expected * 2
    assert (service.total, container.requests_repeated) == (11, 2)
    assert service.identities == [NAME, NAME]
    assert all(session.identity is None for session in container.sessions.values())
    container.on_close()


@pytest.mark.parametrize("joins_messages", [False, True])
def test_an_output_is_sent_once_to_the_client_that_it_is_for(
    node: ServiceNode, requests: Requests, joins_messages: bool
) -> None:
    class Joining(Adder):
        on_session_messages = ClusteredService.on_session_messages if not joins_messages else _take_all

    node.open_session(2, "aeron:udp?endpoint=client:2")
    container = node.container(service := Joining())
    requests.open()
    requests.write(1, b"5", target=2)
    requests.write(1, b"5", target=2)
    requests.send(2, b"6")
    requests.write(3, b"no number, refused", target=2)
    requests.write(4, b"7", target=99)
    requests.write(5, b"8", target=-1)
    requests.write(6, b"9", target=2)
    run(node, container)
    assert [(head.cluster_session_id, payload) for head, payload in node.egress("aeron:udp?endpoint=client:2")] == [
        (2, b"5"),
        (2, b"9"),
    ]
    assert service.total == 35 and [one.number for one in sent(node)[1:]] == [1, 1, 2, 3, 4, 5, 6]
    container.on_close()


def test_a_follower_sends_no_outputs(tmp_path: Path) -> None:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=False)
    node.open_session(1)
    requests, container = Requests(node), node.container(service := Adder())
    requests.open()
    requests.write(1, b"5", target=1)
    run(node, container)
    assert service.total == 5 and not node.client.egress
    container.on_close()
    node.close()


def test_requests_are_executed_in_order_and_without_gaps(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    requests.open()
    for number in (2, 3, 1, 3, 2, 0, -1):
        requests.send(number, b"%d" % 10 ** max(number, 0))
    run(node, container)
    assert [answer.number for answer in sent(node)[1:]] == [1, 2]
    assert service.total == 110
    container.on_close()


def test_confirmed_answers_are_kept_no_longer(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    requests.open()
    for number in (1, 2, 3):
        requests.send(number, b"1")
    requests.send(4, b"1", confirmed=2)
    requests.send(1, b"1", confirmed=2)
    requests.send(3, b"1", confirmed=10**9)
    run(node, container)
    (identity,) = container.requests
    assert (identity.number, identity.confirmed, identity.kept_bytes, container.requests.kept_bytes) == (4, 4, 0, 0)
    assert [answer.number for answer in sent(node)[1:]] == [1, 2, 3, 4]
    assert service.total == 4
    container.on_close()


@pytest.mark.parametrize(
    ("payload", "status", "answer"),
    [
        (b"quiet", AnswerStatus.OK, b""),
        (b"reply", AnswerStatus.OK, b"by reply"),
        (b"x", AnswerStatus.REJECTED, b"no number"),
        (rb'"\ud800"', AnswerStatus.REJECTED, rb"no account \ud800"),
        (b"refuse9000", AnswerStatus.REJECTED, "é".encode() * 8156 + b"..."),
        (b"long%d" % (1 << 21), AnswerStatus.TOO_LONG, b"an answer of 2097152 bytes"),
        (b"long20000", AnswerStatus.TOO_LONG, b"an answer of 20000 bytes: see egress_term_length_bytes"),
    ],
)
def test_every_request_gets_its_answer(
    node: ServiceNode, requests: Requests, payload: bytes, status: AnswerStatus, answer: bytes
) -> None:
    container = node.container(service := Adder())
    requests.open()
    position = requests.send(1, payload)
    requests.send(1, payload)
    run(node, container)
    assert sent(node)[1:] == [Answered(1, status, answer, position)] * 2
    assert len(service.identities) == 1
    container.on_close()


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"twice", "a message is answered once"),
        (b"wrong type", "the answer of on_session_message is of type int, must be bytes"),
        (b"exit", r"sys.exit\('enough'\): a service may not end its process"),
    ],
)
def test_a_service_that_answers_wrongly_fails(node: ServiceNode, requests: Requests, payload: bytes, why: str) -> None:
    container = node.container(Adder())
    requests.open()
    requests.send(1, payload)
    with pytest.raises(ServiceError, match=why):
        run(node, container)
    container.on_close()


def test_messages_that_are_no_requests_are_answered_and_refused_too(node: ServiceNode) -> None:
    container = node.container(service := Adder())
    for payload in (b"5", b"reply", b"quiet", b"x"):
        node.message(1, payload)
    run(node, container)
    *answers, event = sent(node)
    assert answers == [b"5", b"by reply"]
    assert (event.code, event.cluster_session_id) == (codecs.EventCode.ERROR, 1)
    assert event.detail == f"rejected at position {node.log.position}: no number"
    assert (container.messages_rejected, service.identities) == (1, [None] * 4)
    container.on_close()


def test_a_service_in_cython_answers_too(node: ServiceNode, requests: Requests) -> None:
    container = node.container(NativeReply())
    requests.open()
    position = requests.send(1, b"hello")
    node.message(1, b"raw")
    run(node, container)
    assert sent(node)[1:] == [Answered(1, AnswerStatus.OK, b"hello", position), b"raw"]
    container.on_close()


def test_a_follower_keeps_answers_and_sends_none(node: ServiceNode, requests: Requests) -> None:
    """After a failover the new leader answers what the old one has executed."""
    container = node.container(service := Adder())
    requests.open()
    first = requests.send(1, b"5")
    run(node, container)
    sent(node)
    node.leader_term.set(-1)
    requests.send(2, b"6")
    run(node, container)
    assert sent(node) == []
    node.begin_term(1, leads=True)
    requests.send(1, b"5")
    requests.send(2, b"6")
    run(node, container)
    assert [(answer.number, answer.payload) for answer in sent(node)] == [(1, b"5"), (2, b"11")]
    assert container.requests_repeated == 2 and service.total == 11 and first > 0
    container.on_close()


@pytest.mark.parametrize("long_bytes", [10, 200_000])
def test_a_snapshot_holds_identities_and_answers(node: ServiceNode, requests: Requests, long_bytes: int) -> None:
    container = node.container(Adder())
    requests.open()
    requests.send(1, b"5")
    requests.send(2, b"6", confirmed=1)
    requests.send(3, b"x")
    requests.send(4, b"long%d" % long_bytes)
    run(node, container)
    kept = container.requests.snapshot()
    position, recording_id, _ = take_snapshot(node, container)
    container.on_close()

    node.set_recovery(0, position, node.time, recording_id)
    restored = node.container(service := Adder())
    node.begin_term(1, leads=True)
    for number in (2, 3):
        requests.send(number, b"1")
    requests.send(5, b"1")
    run(node, restored)
    assert [(answer.number, answer.status, answer.payload) for answer in sent(node)] == [
        (2, AnswerStatus.OK, b"11"),
        (3, AnswerStatus.REJECTED, b"no number"),
        (5, AnswerStatus.OK, b"12"),
    ]
    (before,), (after,) = kept, restored.requests.snapshot()
    assert after.answers[:-1] == before.answers
    assert service.total == 12
    restored.on_close()


def test_an_identity_is_taken_from_the_holder_that_is_named(node: ServiceNode, requests: Requests) -> None:
    container = node.container(Adder())
    requests.open(incarnation=7, known=NO_IDENTITY)
    first = requests.position
    requests.open(incarnation=8, known=NO_IDENTITY)
    requests.open(incarnation=9, known=first)
    requests.open(incarnation=8, known=first)
    run(node, container)
    assert [one.status for one in sent(node)] == [
        OpenStatus.OK,
        OpenStatus.SUPERSEDED,
        OpenStatus.OK,
        OpenStatus.SUPERSEDED,
    ]
    assert [one.incarnation for one in container.requests] == [9]
    container.on_close()


def test_a_request_of_a_session_that_was_closed_is_left_out(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    requests.open()
    node.close_session(1)
    requests.send(1, b"5")
    node.open_session(2)
    requests.send(1, b"5", session_id=2)
    run(node, container)
    assert service.total == 5
    container.on_close()


def test_nobody_uses_an_identity_that_is_another_principals(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    requests.open()
    stranger = codecs.SESSION_OPEN_EVENT.encode(
        leadership_term_id=0,
        correlation_id=5,
        cluster_session_id=2,
        timestamp=node.time,
        response_stream_id=102,
        response_channel="aeron:udp?endpoint=client:1",
        encoded_principal=b"somebody else",
    )
    node.append(stranger)
    requests.send(1, b"5", session_id=2)
    mine = requests.position
    requests.open(session_id=2, incarnation=8)
    requests.send(1, b"7", open_position=mine)
    run(node, container)
    first, refused, opened, answer = sent(node)
    assert (first.status, refused.status, opened.status) == (OpenStatus.OK, AnswerStatus.UNKNOWN, OpenStatus.FORBIDDEN)
    assert answer.payload == b"7"
    assert service.total == 7
    container.on_close()


def test_answers_wait_for_room_in_the_egress_and_the_service_does_not(node: ServiceNode, requests: Requests) -> None:
    """A client that reads nothing holds up nobody; what was answered goes out when it reads again."""
    container = node.container(service := Adder())
    requests.open()
    count, length_bytes = 40, 10_000
    for number in range(1, count + 1):
        requests.send(number, b"long%d" % length_bytes)
    run(node, container)
    assert len(service.identities) == count
    assert container.egress.keeps
    numbers = [answer.number for answer in sent(node)[1:]]
    assert 0 < len(numbers) < count
    while container.egress.keeps:
        node.cycle(container)
        numbers += [answer.number for answer in sent(node)]
    numbers += [answer.number for answer in sent(node)]
    assert numbers == list(range(1, count + 1))
    container.on_close()


# The table itself


def make(limits: RequestLimits | None = None) -> RequestTable:
    return RequestTable(limits or RequestLimits())


def test_an_identity_is_used_by_who_opened_it_last() -> None:
    table = make()
    status, identity = table.open(NAME, b"", 1, 0, 100, 0)
    assert status is OpenStatus.OK and identity is not None and identity.open_position == 100
    assert table.open(NAME, b"", 1, 100, 200, 0) == (OpenStatus.OK, identity), "the same client asks again"
    assert identity.open_position == 100
    assert table.open(NAME, b"", 2, 0, 300, 0) == (OpenStatus.OK, identity)
    assert identity.open_position == 300
    assert table.open(NAME, b"", 1, 100, 400, 0) == (OpenStatus.SUPERSEDED, None)
    assert table.open(NAME, b"you", 3, 0, 500, 0) == (OpenStatus.FORBIDDEN, None)


def test_an_identity_that_was_forgotten_is_not_begun_anew_in_silence() -> None:
    limits = RequestLimits(idle_timeout=1000)
    table = make(limits)
    table.open(NAME, b"", 1, 0, 100, 0)
    assert table.open(NAME, b"", 1, 100, 200, 1000)[0] is OpenStatus.OK
    assert table.open(NAME, b"", 1, 100, 300, 2001) == (OpenStatus.EXPIRED, None)
    assert table.open(NAME, b"", 1, 0, 400, 2001)[0] is OpenStatus.OK


def test_identities_are_bounded_and_the_one_silent_longest_makes_room() -> None:
    table = make(RequestLimits(identities_max=2, idle_timeout=10_000, idle_timeout_crowded=100))
    table.open(NAME, b"", 1, 0, 100, 0)
    table.open(OTHER, b"", 1, 0, 200, 50)
    assert table.open(b"x" * 16, b"", 1, 0, 300, 100) == (OpenStatus.FULL, None)
    assert table.open(b"x" * 16, b"", 1, 0, 400, 101)[0] is OpenStatus.OK
    assert [identity.identity for identity in table] == [OTHER, b"x" * 16]


def test_what_is_kept_is_bounded(node: ServiceNode, requests: Requests) -> None:
    container = node.container(service := Adder())
    container.set_requests(make(RequestLimits(answers_max=2)))
    requests.open()
    for number in (1, 2, 3):
        requests.send(number, b"1")
    requests.send(3, b"1", confirmed=1)
    run(node, container)
    statuses = [(answer.number, answer.status) for answer in sent(node)[1:]]
    assert statuses == [(1, 0), (2, 0), (3, AnswerStatus.WAIT), (3, 0)]
    assert service.total == 3
    container.on_close()


def test_snapshots_keep_every_field() -> None:
    states = [
        IdentityState(NAME, b"principal", 2**62, 640, 5, 3, 77, [(4, 700, 0, b""), (5, 800, 1, bytes(150_000))]),
        IdentityState(OTHER, b"", 1, 960, 0, 0, 78, []),
    ]
    state = container_snapshot.ServiceSnapshot(1000, 1, TimeUnit.MILLIS, 1, (), (), tuple(states))
    decoded = container_snapshot.decode(iter(list(container_snapshot.encode(state))))
    assert list(decoded.requests) == states
    table = make()
    table.restore(decoded.requests)
    assert table.snapshot() == states
    assert table.kept_bytes == 150_000 + 2 * 160

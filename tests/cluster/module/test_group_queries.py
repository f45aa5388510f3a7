"""Queries of applications at the leader: which instance is asked, and whose answer goes to the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ordo.cluster.module.sessions.group_queries import HOLD_NS, SERVES_NS, GroupQueries, GroupQuery
from ordo.cluster.module.sessions.sessions import EVENTS_MAX, ClusterSession, OpenSessions
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.cluster.wire.sessions.instance_codec import GROUP_BYTES_MAX
from ordo.runtime.native.counters import local_counter
from ordo.runtime.security.authentication import EVERYTHING, Right
from ordo.sequencer.session_table import SessionTable
from tests.cluster.module.test_sessions import CountingClient
from tests.records import make_record

GROUP = b"pricing"
COMMIT_POSITION = 4096
ASKER, FIRST, SECOND, POWERLESS = 1, 2, 3, 4


class Publication:
    """Where a client listens; with `takes` False it has no room."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.takes = True
        self.max_message_length = 256

    def offer(self, message: bytes) -> int:
        if self.takes:
            self.sent.append(message)
        return 1 if self.takes else -2


class Ingress:
    """The image that a client speaks through."""

    source_identity = "client:9"
    is_closed = False


@dataclass
class Member:
    """The member that leads."""

    member_id: int = 2
    leadership_term_id: int = 7
    is_leader: bool = True
    invalid: list[str] = field(default_factory=list)

    def on_invalid_request(self, detail: str) -> None:
        self.invalid.append(detail)


class Sessions(OpenSessions):
    """Sessions whose clients speak through stand-ins of images."""

    def may_ask(self, session_id: int, image: Any) -> bool:
        session = self.get(session_id)
        return session is not None and session.ingress_image is image


class Desk:
    """Four sessions, one of them a client's that asks, and one of a client without a right."""

    def __init__(self) -> None:
        self.member = Member()
        client: Any = CountingClient()
        rights = {b"powerless": EVERYTHING & ~Right.CONSUMERS}
        self.sessions = Sessions(client, SessionTable(), 10, lambda principal: rights.get(principal, EVERYTHING))
        self.images: dict[int, Any] = {}
        self.publications: dict[int, Publication] = {}
        for session_id in (ASKER, FIRST, SECOND, POWERLESS):
            image: Any = Ingress()
            publication: Any = Publication()
            principal = b"powerless" if session_id == POWERLESS else b""
            channel = "aeron:udp?endpoint=client:1"
            session = ClusterSession(session_id, 1, 0, 102, channel, principal, publication=publication)
            self.sessions.restore(session)
            self.sessions._bind(session, image)
            self.images[session_id], self.publications[session_id] = image, publication
        self.groups = GroupQueries(self.member, self.sessions, local_counter(COMMIT_POSITION))

    def serve(self, session_id: int, now_ns: int = 0, group: bytes = GROUP, image_of: int | None = None) -> Desk:
        values = make_record(ordo_codecs.GROUP_SERVES, cluster_session_id=session_id, group=group)
        self.groups.on_serves(values, self.images[session_id if image_of is None else image_of], now_ns)
        return self

    def ask(self, correlation_id: int = 5, position: int = 640, now_ns: int = 0, payload: bytes = b"?") -> Any:
        query = GroupQuery(ASKER, correlation_id, -1, payload, GROUP)
        refusal = self.groups.ask(query, position, now_ns)
        return None if refusal is None else refusal.status

    def answer(self, session_id: int, correlation_id: int = 5, **other: Any) -> Desk:
        fields = {"log_position": 640, "status": QueryStatus.OK, "payload": b"!", "asker_session_id": ASKER, **other}
        values = make_record(
            ordo_codecs.GROUP_ANSWER, cluster_session_id=session_id, correlation_id=correlation_id, **fields
        )
        self.groups.on_answer(values, self.images[session_id])
        return self

    def told(self, session_id: int) -> list[Any]:
        return [found[1] for one in self.publications[session_id].sent if (found := ordo_codecs.decode(one))]


def test_an_instance_is_asked_and_its_answer_goes_to_the_client() -> None:
    desk = Desk().serve(FIRST)
    assert desk.ask(payload=b"how much?") is None
    (question,) = desk.told(FIRST)
    assert (question.cluster_session_id, question.asker_session_id, question.correlation_id) == (FIRST, ASKER, 5)
    assert (question.read_position, question.payload) == (640, b"how much?")
    desk.answer(FIRST, log_position=704, payload=b"42")
    (response,) = desk.told(ASKER)
    assert (response.cluster_session_id, response.correlation_id, response.member_id) == (ASKER, 5, 2)
    assert (response.log_position, response.status, response.payload) == (704, QueryStatus.OK, b"42")
    assert len(desk.groups) == 0


def test_instances_take_turns_and_a_repeated_query_may_be_answered_by_either_once() -> None:
    desk = Desk().serve(FIRST).serve(SECOND)
    for _ in range(2):
        desk.ask()
    assert (len(desk.told(FIRST)), len(desk.told(SECOND)), len(desk.groups)) == (1, 1, 1)
    desk.answer(SECOND).answer(FIRST)
    assert len(desk.told(ASKER)) == 1


def test_without_an_instance_the_client_asks_again() -> None:
    desk = Desk()
    assert desk.ask() is QueryStatus.UNAVAILABLE
    desk.serve(FIRST).serve(SECOND, now_ns=1)
    desk.sessions.execute_close(FIRST)
    assert desk.ask(now_ns=SERVES_NS + 1) is None, "the second one was heard of lately"
    assert desk.ask(now_ns=SERVES_NS + 2) is QueryStatus.UNAVAILABLE


def test_a_session_answers_for_one_group_at_a_time() -> None:
    desk = Desk().serve(FIRST).serve(FIRST, group=b"other")
    assert desk.ask() is QueryStatus.UNAVAILABLE
    desk.serve(FIRST, group=b"").serve(FIRST, group=bytes(GROUP_BYTES_MAX + 1))
    assert desk.ask() is QueryStatus.UNAVAILABLE
    assert desk.serve(FIRST).ask() is None


def test_who_was_not_asked_or_speaks_for_another_or_has_no_right_is_not_listened_to() -> None:
    desk = Desk().serve(FIRST, image_of=SECOND).serve(POWERLESS)
    assert desk.ask() is QueryStatus.UNAVAILABLE
    desk.serve(FIRST).ask()
    desk.answer(SECOND).answer(FIRST, correlation_id=6).answer(FIRST, asker_session_id=SECOND)
    assert desk.told(ASKER) == []
    desk.answer(FIRST, log_position=639).answer(FIRST, status=99)
    desk.answer(FIRST, log_position=COMMIT_POSITION + 32).answer(FIRST, log_position=2**63 - 1)
    assert (desk.told(ASKER), len(desk.member.invalid)) == ([], 4)
    assert len(desk.answer(FIRST).told(ASKER)) == 1


def test_an_answer_that_the_client_cannot_take_is_told_in_a_line() -> None:
    desk = Desk().serve(FIRST)
    desk.ask()
    desk.answer(FIRST, payload=bytes(256))
    (response,) = desk.told(ASKER)
    assert response.status == QueryStatus.ERROR and b"answer of 256 bytes" in response.payload
    assert desk.ask(payload=bytes(256)) is QueryStatus.ERROR


def test_an_instance_that_takes_no_questions_gets_no_more() -> None:
    desk = Desk().serve(FIRST)
    desk.publications[FIRST].takes = False
    found = [desk.ask(correlation_id) for correlation_id in range(EVENTS_MAX + 1)]
    assert found == [None] * EVENTS_MAX + [QueryStatus.BUSY]


@pytest.mark.parametrize("change", [{"is_leader": False}, {"leadership_term_id": 8}])
def test_nothing_outlives_the_term(change: dict[str, Any]) -> None:
    desk = Desk().serve(FIRST)
    desk.ask()
    for name, value in change.items():
        setattr(desk.member, name, value)
    assert desk.ask(6) is QueryStatus.UNAVAILABLE
    assert desk.answer(FIRST).told(ASKER) == []


def test_what_is_not_asked_again_is_forgotten() -> None:
    desk = Desk().serve(FIRST)
    desk.ask()
    desk.groups.work(HOLD_NS)
    assert len(desk.groups) == 1
    desk.groups.work(HOLD_NS + 1)
    assert len(desk.groups) == 0

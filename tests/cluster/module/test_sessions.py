"""What sessions are told."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.sessions.sessions import ClusterSession, OpenSessions, session_event
from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.runtime.errors import RegistrationError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.security.authentication import Right
from ordo.sequencer.session_table import SessionTable
from tests.records import make_record


@dataclass
class Term:
    """A leadership without a log."""

    heartbeat_timeout_ns: int
    member_id: int = 2
    leadership_term_id: int = 7
    ingress_endpoints: str = ""

    def append(self, record: bytes) -> bool:
        return False


@pytest.mark.parametrize(("timeout_ns", "told_ns"), [(SECOND_NS // 2, 5 * SECOND_NS), (9 * SECOND_NS, 9 * SECOND_NS)])
def test_clients_are_told_a_heartbeat_timeout_that_outlasts_an_election(timeout_ns: int, told_ns: int) -> None:
    found = codecs.decode(session_event(Term(timeout_ns), 3, 4, EventCode.OK, "", 2))
    assert found is not None
    _, event = found
    assert event.leader_heartbeat_timeout_ns == told_ns
    assert (event.cluster_session_id, event.correlation_id, event.leadership_term_id) == (3, 4, 7)
    assert (event.code, event.leader_member_id, event.version) == (EventCode.OK, 2, codecs.CLIENT_PROTOCOL_VERSION)


class FullDriver:
    """A transport client whose driver has no counter left."""

    def async_add_counter(self, type_id: int, label: str, key: bytes) -> int:
        return 1

    def get(self, registration_id: int) -> Any:
        raise RegistrationError("no counter is free", code=11)


def test_a_session_without_a_counter_is_open_all_the_same() -> None:
    """At 640 sessions executing the open record raised, on two of three members alike, and ended them."""
    client: Any = FullDriver()
    sessions = OpenSessions(client, SessionTable(), 10)
    event = make_record(
        codecs.SESSION_OPEN_EVENT,
        cluster_session_id=5,
        correlation_id=6,
        response_stream_id=102,
        response_channel="aeron:udp?endpoint=client:1",
        encoded_principal=b"",
    )
    session = sessions.execute_open(event, 96)
    sessions.take_counters()
    assert sessions.get(5) is session and session.counter is None
    sessions.execute_close(5)
    assert len(sessions) == 0


class CountingClient:
    """A transport client that counts what it is asked for, and whose driver answers only when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = False

    def async_add_counter(self, type_id: int, label: str, key: bytes) -> int:
        raise RegistrationError("no counter is free", code=11)

    def async_add_publication(self, channel: str, stream_id: int) -> int:
        self.asked += 1
        return self.asked

    def invoke_driver(self) -> None:
        """Nothing happens."""

    def get(self, registration_id: int) -> Any:
        return SimpleNamespace(close=lambda: None, offer=lambda message: 1) if self.answers else None


def test_a_new_leader_reaches_thousands_of_sessions_a_few_at_a_time() -> None:
    """At 2,600 sessions it took longer than a heartbeat may: the leadership was lost, and so was the next one's."""
    client: Any = CountingClient()
    sessions = OpenSessions(client, SessionTable(), 10)
    for number in range(1, 101):
        sessions.restore(ClusterSession(number, number, 96, 102, "aeron:udp?endpoint=client:1"))
    sessions.lead(Term(SECOND_NS), 0, 1000)
    asked = [client.asked]
    for _ in range(3):
        sessions.send(Term(SECOND_NS), 0)
        asked.append(client.asked)
    assert asked == [32, 64, 64, 64], "what its driver has not made yet is waited for"
    client.answers = True
    while asked[-1] < 100:
        sessions.send(Term(SECOND_NS), 0)
        asked.append(client.asked)
    assert asked == [32, 64, 64, 64, 64, 96, 100]
    sessions.lead(Term(SECOND_NS), 0, 1000)
    sessions.lose_leadership()
    before = client.asked
    sessions.send(Term(SECOND_NS), 0)
    assert client.asked == before


@pytest.mark.parametrize("leads_again", [False, True])
def test_publications_that_come_after_the_leadership_was_lost_are_released(leads_again: bool) -> None:
    """A deposed leader kept up to 64 of them, with a descriptor each, until it led again."""
    client: Any = CountingClient()
    sessions = OpenSessions(client, SessionTable(), 10)
    for number in range(1, 101):
        sessions.restore(ClusterSession(number, number, 96, 102, "aeron:udp?endpoint=client:1"))
    sessions.lead(Term(SECOND_NS), 0, 1000)
    sessions.send(Term(SECOND_NS), 0)
    sessions.release_unwanted()
    sessions.lose_leadership()
    open_ones = 0

    def make(registration_id: int) -> Any:
        nonlocal open_ones
        open_ones += 1
        return SimpleNamespace(close=closed, offer=lambda message: 1, is_connected=True)

    def closed() -> None:
        nonlocal open_ones
        open_ones -= 1

    sessions.release_unwanted()
    client.get = make
    if leads_again:
        sessions.lead(Term(SECOND_NS), 0, 1000)
        for _ in range(9):
            sessions.send(Term(SECOND_NS), 0)
        sessions.release_unwanted()
        assert open_ones == 100, "those of a leader stay"
        sessions.lose_leadership()
    sessions.release_unwanted()
    assert open_ones == 0


@dataclass(eq=False)
class SpokenImage:
    """An image of a client's ingress."""

    source_identity: str


def test_sessions_end_with_the_image_that_their_client_speaks_through() -> None:
    """What was lost with it would be missing without a word; a session on another image goes on."""
    client: Any = CountingClient()
    sessions = OpenSessions(client, SessionTable(), 10)
    images: list[Any] = [SpokenImage("10.0.0.1:1"), SpokenImage("10.0.0.1:2")]
    for number, image in enumerate(images, 1):
        session = ClusterSession(number, number, 96, 102, "aeron:udp?endpoint=client:1")
        sessions.restore(session)
        sessions._bind(session, image)
    sessions.image_gone(images[0])
    reasons = [session.close_reason for session in sessions]
    assert reasons == [codecs.CloseReason.TIMEOUT, None]


@pytest.mark.parametrize(
    ("source", "may"), [("10.0.0.1:999", True), ("10.0.0.2:999", False), ("10.0.0.1:1#desk", False)]
)
def test_after_a_change_of_the_leader_a_session_is_that_of_the_host_and_key_that_opened_it(
    source: str, may: bool
) -> None:
    """It was taken over by whoever showed its id first, and ids stand in the log, which everybody may read."""
    client: Any = CountingClient()
    sessions = OpenSessions(client, SessionTable(), 10)
    sessions.restore(ClusterSession(1, 1, 96, 102, "aeron:udp?endpoint=10.0.0.1:1"))
    sessions.lead(Term(SECOND_NS), 0, 1000)
    image: Any = SpokenImage(source)
    assert sessions.may_claim(1, image) is may
    assert not sessions.may_claim(2, image)


def test_outputs_for_other_clients_take_a_role_and_only_the_session_itself_is_closed() -> None:
    client: Any = CountingClient()
    sessions = OpenSessions(
        client, SessionTable(), 10, lambda principal: Right.CONSUMERS if principal == b"app" else Right.INGRESS
    )
    images: list[Any] = [SpokenImage("10.0.0.2:1"), SpokenImage("10.0.0.1:1")]
    for number, principal in ((1, b"app"), (2, b"client")):
        session = ClusterSession(number, number, 96, 102, "aeron:udp?endpoint=10.0.0.1:1", principal)
        sessions.restore(session)
        sessions._bind(session, images[number - 1])
    assert sessions.admits_output(images[0], 1)
    assert not sessions.admits_output(images[0], 2)
    assert [session.close_reason for session in sessions] == [None, None], "who else names the session ends nothing"
    assert not sessions.admits_output(images[1], 2)
    closed = [(session.close_reason, session.close_detail) for session in sessions if session.close_reason is not None]
    assert closed == [
        (
            codecs.CloseReason.SERVICE_ACTION,
            "this client's roles do not include 'consumers', which outputs for other clients need",
        )
    ]


def test_sessions_whose_clients_speak_through_one_stream_are_kept_open_together() -> None:
    """Where a message of one of them waits, the keep-alives of all wait behind it."""
    client: Any = CountingClient()
    table = SessionTable()
    sessions = OpenSessions(client, table, 10)
    images: list[Any] = [SpokenImage("10.0.0.1:1"), SpokenImage("10.0.0.1:2")]
    for number, image in ((1, images[0]), (2, images[0]), (3, images[1])):
        session = ClusterSession(number, number, 96, 102, "aeron:udp?endpoint=10.0.0.1:1")
        sessions.restore(session)
        sessions._bind(session, image)
        table.put(number, 100)
    sessions.touch_stream(1, 200)
    sessions.touch_stream(4, 200)
    assert [table.get_activity(number) for number in (1, 2, 3, 4)] == [200, 200, 100, None]

"""Queries of one instance: answered when the log was executed so far, and only for the session that they came in."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from ordo.applications.app_executor import AppExecutor
from ordo.applications.app_queries import ANSWERS_PER_CYCLE, HOLD_NS, SERVES_INTERVAL_NS, WAITING_MAX, AppQueries
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.service_api.service import Cluster, ClusteredService


class Session:
    """The session of an instance; the leader's ingress takes what it sends while `takes`."""

    def __init__(self) -> None:
        self.questions: deque[Any] = deque()
        self.session_id, self.leadership_term_id = 9, 1
        self.message_bytes_max = 256
        self.takes = True
        self.sent: list[tuple[Any, Any]] = []

    def offer_unlogged(self, message: bytes) -> bool:
        if self.takes:
            found = ordo_codecs.decode(message)
            assert found is not None
            self.sent.append(found)
        return self.takes

    def ask(self, correlation_id: int, read_position: int = 0, payload: bytes = b"?") -> None:
        self.questions.append(
            SimpleNamespace(
                cluster_session_id=self.session_id,
                asker_session_id=4,
                correlation_id=correlation_id,
                read_position=read_position,
                payload=payload,
            )
        )

    def answers(self) -> list[Any]:
        return [values for table, values in self.sent if table is ordo_codecs.GROUP_ANSWER]

    def serves(self) -> list[Any]:
        return [values for table, values in self.sent if table is ordo_codecs.GROUP_SERVES]


def echo(payload: bytes) -> tuple[QueryStatus, bytes]:
    return QueryStatus.OK, payload


def test_questions_are_answered_in_the_order_of_their_positions() -> None:
    queries, session = AppQueries("pricing", echo), Session()
    session.ask(1, 700)
    session.ask(2, 640, b"how much?")
    assert queries.work(session, 639, 0, is_up_to_date=False) == 0
    assert queries.work(session, 640, 0, is_up_to_date=False) == 1
    (answer,) = session.answers()
    assert (answer.cluster_session_id, answer.asker_session_id, answer.correlation_id) == (9, 4, 2)
    assert (answer.log_position, answer.status, answer.payload) == (640, QueryStatus.OK, b"how much?")
    assert queries.work(session, 900, 0, is_up_to_date=False) == 1
    assert [one.correlation_id for one in session.answers()] == [2, 1]


def test_the_leader_is_told_of_an_instance_that_is_up_to_date_and_again() -> None:
    queries, session = AppQueries("pricing", echo), Session()
    queries.work(session, 0, 0, is_up_to_date=False)
    assert session.serves() == []
    for now_ns in (0, SERVES_INTERVAL_NS - 1, SERVES_INTERVAL_NS):
        queries.work(session, 0, now_ns, is_up_to_date=True)
    assert [(one.cluster_session_id, one.group) for one in session.serves()] == [(9, b"pricing")] * 2
    session.leadership_term_id += 1
    queries.work(session, 0, SERVES_INTERVAL_NS, is_up_to_date=True)
    assert len(session.serves()) == 3
    session.session_id = -1
    queries.work(session, 0, 9 * SERVES_INTERVAL_NS, is_up_to_date=True)
    assert len(session.serves()) == 3


def test_a_question_of_a_former_session_or_of_long_ago_is_nobodys() -> None:
    queries, session = AppQueries("pricing", echo), Session()
    session.ask(1)
    session.ask(2, 640)
    session.session_id = 10
    session.ask(3, 640)
    queries.work(session, 0, 0, is_up_to_date=False)
    queries.work(session, 640, HOLD_NS + 1, is_up_to_date=False)
    assert session.answers() == []


def test_an_answer_that_has_no_room_now_is_given_later_and_one_that_is_too_long_never() -> None:
    queries, session = AppQueries("pricing", echo), Session()
    session.ask(1, payload=bytes(256))
    session.takes = False
    assert queries.work(session, 0, 0, is_up_to_date=False) == 0
    session.takes, session.message_bytes_max = True, 0
    assert queries.work(session, 0, 0, is_up_to_date=False) == 0
    session.message_bytes_max = 256
    assert queries.work(session, 0, 0, is_up_to_date=False) == 1
    (answer,) = session.answers()
    assert answer.status == QueryStatus.ERROR and b"answer of 256 bytes: at most" in answer.payload


def test_questions_are_bounded_and_entries_are_executed_between_answers() -> None:
    queries, session = AppQueries("pricing", echo), Session()
    for number in range(WAITING_MAX + 1):
        session.ask(number, 640)
    queries.work(session, 0, 0, is_up_to_date=False)
    queries.work(session, 0, 0, is_up_to_date=False)
    assert len(session.questions) == 1
    assert queries.work(session, 640, 0, is_up_to_date=False) == ANSWERS_PER_CYCLE
    session.ask(WAITING_MAX + 1, 700)
    queries.work(session, 0, HOLD_NS + 1, is_up_to_date=False)
    queries.work(session, 700, HOLD_NS + 1, is_up_to_date=False)
    assert {one.correlation_id for one in session.answers()} <= {*range(WAITING_MAX + 2)}


class Pricer(ClusteredService):
    """Answers one question, and fails at another."""

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        self.cluster = cluster

    def on_query(self, payload: bytes) -> bytes:
        if payload == b"fail":
            raise ValueError("no such symbol")
        if payload == b"offer":
            self.cluster.offer(b"no")
        return b"42" if payload == b"price" else "42"  # type: ignore[return-value]


def test_the_service_is_asked_and_its_exceptions_fail_the_query_alone() -> None:
    executor, errors = AppExecutor(Pricer(), "pricing"), list[Exception]()

    def ask(payload: bytes) -> tuple[QueryStatus, bytes]:
        return executor.query(payload, errors.append)

    assert ask(b"price") == (QueryStatus.OK, b"42")
    assert ask(b"fail") == (QueryStatus.ERROR, b"ValueError: no such symbol")
    assert ask(b"text") == (QueryStatus.ERROR, b"ServiceError: on_query must return bytes, returned str")
    status, text = ask(b"offer")
    assert status == QueryStatus.ERROR and b"offer is not allowed from on_query" in text
    assert [type(error).__name__ for error in errors] == ["ValueError", "ServiceError", "ServiceCallError"]
    assert AppExecutor(ClusteredService(), "x").query(b"", errors.append)[0] == QueryStatus.UNSUPPORTED

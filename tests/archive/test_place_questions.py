"""Questions for places of the log: each reads a stretch of it, so that one is answered in a turn of the node."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest import mock

import pytest

from ordo.archive.control.access import full_access
from ordo.archive.control.queries import QUESTIONS_MAX, QueryRequests
from ordo.archive.protocol.own_codecs import FIND_LOG_PLACE, FIND_PAST_IDENTITY, PlaceKind, ToldPlace


class Asker:
    """A session of a client, with what it was answered: (correlation id, place)."""

    def __init__(self) -> None:
        self.is_done = False
        self.answers: list[tuple[int, ToldPlace | None]] = []
        self.responses = mock.Mock()
        self.responses.log_place.side_effect = lambda correlation_id, told: (correlation_id, told)
        self.responses.past_identity.side_effect = lambda correlation_id, identity: (correlation_id, identity)
        self.responses.send.side_effect = self.answers.append

    def ask_past(self, queries: QueryRequests, correlation_id: int) -> None:
        request: Any = mock.Mock(correlation_id=correlation_id, position=64 * correlation_id)
        queries.handlers[FIND_PAST_IDENTITY.template_id](self, request)  # type: ignore[arg-type]

    def ask(self, queries: QueryRequests, correlation_id: int) -> None:
        request: Any = mock.Mock(correlation_id=correlation_id, kind=PlaceKind.SEQUENCE, value=correlation_id)
        queries.handlers[FIND_LOG_PLACE.template_id](self, request)  # type: ignore[arg-type]


@pytest.fixture
def places() -> mock.Mock:
    return mock.Mock(**{"find.side_effect": lambda kind, value: ToldPlace(64 * value, value, 0, True)})


@pytest.fixture
def queries(places: mock.Mock) -> QueryRequests:
    return QueryRequests(mock.Mock(), mock.Mock(), dataclasses.replace(full_access(), places=places))


def test_one_question_is_answered_in_a_turn(queries: QueryRequests, places: mock.Mock) -> None:
    askers = [Asker() for _ in range(4)]
    for number, asker in enumerate(askers):
        asker.ask(queries, number)
    assert not places.find.called
    askers[1].is_done = True
    for _ in askers:
        before = places.find.call_count
        assert queries.work() == 1
        assert places.find.call_count <= before + 1
    assert queries.work() == 0
    expected = [[(number, ToldPlace(64 * number, number, 0, True))] for number in range(4)]
    assert [asker.answers for asker in askers] == [expected[0], [], *expected[2:]]


def test_whose_question_waits_is_told_nothing_of_another(queries: QueryRequests, places: mock.Mock) -> None:
    asker = Asker()
    for number in range(3):
        asker.ask(queries, number)
    assert asker.answers == [(1, None), (2, None)]
    assert queries.work() == 1 and queries.work() == 0
    assert asker.answers[2:] == [(0, ToldPlace(0, 0, 0, True))]


def test_so_many_wait_at_the_most(queries: QueryRequests, places: mock.Mock) -> None:
    askers = [Asker() for _ in range(QUESTIONS_MAX + 1)]
    for asker in askers:
        asker.ask(queries, 7)
    assert [len(asker.answers) for asker in askers] == [0] * QUESTIONS_MAX + [1]
    assert askers[-1].answers == [(7, None)] and not places.find.called


def test_whose_a_log_was_is_asked_in_the_same_turns(queries: QueryRequests, places: mock.Mock) -> None:
    """Each looks through all terms of the log. An archive that is no node's does not know it."""
    find = mock.Mock(side_effect=lambda position: b"%016d" % position)
    knows = QueryRequests(mock.Mock(), mock.Mock(), dataclasses.replace(full_access(), past_identity=find))
    first, second = Asker(), Asker()
    for number in (1, 2):
        first.ask_past(knows, number)
    second.ask_past(knows, 3)
    assert first.answers == [(2, b"")] and not find.called
    assert knows.work() == knows.work() == 1 and knows.work() == 0
    assert (first.answers[1:], second.answers) == ([(1, b"%016d" % 64)], [(3, b"%016d" % 192)])
    second.ask_past(queries, 4)
    assert queries.work() == 1 and second.answers[1:] == [(4, b"")]

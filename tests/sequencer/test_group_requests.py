"""What an instance still has under way, when it hears up to where the outputs of its group were executed."""

from __future__ import annotations

from unittest import mock

import pytest

from ordo.applications.outputs import GroupRequests, Output
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus


@pytest.fixture
def requests() -> GroupRequests:
    made = GroupRequests(
        mock.Mock(), identity=bytes(16), incarnation=0, retry_interval_ns=1, outstanding_max=100, wait=mock.Mock()
    )
    for number in range(10):
        push(made, number)
    return made


def push(requests: GroupRequests, number: int) -> None:
    with mock.patch.object(requests, "_check_length"):
        requests.push(Output(number, 0, 0, -1, b"output"))


def under_way(requests: GroupRequests) -> list[int]:
    return [one.number for one in requests.under_way]


@pytest.mark.parametrize("executed", [[1], [3], [1, 2, 3], [3, 2], [9, 3, 10], [10], [4, 4, 7]])
def test_what_was_executed_is_not_under_way_any_more(requests: GroupRequests, executed: list[int]) -> None:
    for number in executed:
        requests.note_executed(number)
    assert under_way(requests) == list(range(max(executed) + 1, 11))
    assert (requests.executed, requests.next_number) == (max(executed), 11)


def opened(requests: GroupRequests, number: int, term: int) -> None:
    message = ordo_codecs.IDENTITY_OPENED.encode(
        leadership_term_id=term, incarnation=0, open_position=640, number=number, status=0, length_bytes_max=1000
    )
    requests.on_opened(ordo_codecs.IDENTITY_OPENED.decode(message), 1)


def test_outputs_that_a_promoted_standby_lacks_are_written_again() -> None:
    """The third was answered by what was executed for its id before: nothing else showed that the standby lacks it."""
    session = mock.Mock(session_id=5, leadership_term_id=1)
    session.leader_ingress.offer.return_value = session.leader_ingress.max_message_length = 1000
    requests = GroupRequests(
        session, identity=bytes(16), incarnation=0, retry_interval_ns=1000, outstanding_max=100, wait=mock.Mock()
    )
    requests.work(1)
    opened(requests, 0, 1)
    for number in (1, 2, 3):
        push(requests, number)
        requests.on_answer(640, number, 1000, AnswerStatus.OK, b"")
    requests.work(2)
    session.leadership_term_id = 1 << 20
    push(requests, 4)
    requests.work(3)
    session.leader_ingress.offer.reset_mock()
    requests.work(10_000)
    sent = ordo_codecs.decode(session.leader_ingress.offer.call_args_list[0].args[0])
    assert sent is not None and sent[0] is ordo_codecs.OPEN_IDENTITY
    opened(requests, 2, 1 << 20)
    assert (requests.executed, requests.next_number, requests.failure) == (2, 3, None)


def test_other_instances_may_be_far_ahead(requests: GroupRequests) -> None:
    requests.note_executed(4)
    requests.note_executed(1 << 62)
    assert under_way(requests) == []
    assert requests.next_number == (1 << 62) + 1
    push(requests, 11)
    assert under_way(requests) == [(1 << 62) + 1]
    requests.note_executed((1 << 62) + 1)
    assert under_way(requests) == []

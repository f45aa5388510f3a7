"""What an instance still has under way, when it hears up to where the outputs of its group were executed."""

from __future__ import annotations

from unittest import mock

import pytest

from ordo.applications.outputs import GroupRequests, Output


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


def test_other_instances_may_be_far_ahead(requests: GroupRequests) -> None:
    requests.note_executed(4)
    requests.note_executed(1 << 62)
    assert under_way(requests) == []
    assert requests.next_number == (1 << 62) + 1
    push(requests, 11)
    assert under_way(requests) == [(1 << 62) + 1]
    requests.note_executed((1 << 62) + 1)
    assert under_way(requests) == []

"""Waits of the asyncio client: each ends with its answer or at its time, and nobody has a timer of their own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ordo.cluster.client.async_requests import ANSWERED_KEPT, AnswerWaits, Asked, AsyncPendingRequest, Changes
from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.runtime.errors import ClusterTimeoutError, RequestOutcome

ANSWER = Answer(b"yes", 64)


async def never(pending: PendingRequest[object], timeout_s: float | None) -> None:
    raise AssertionError("nobody waits for the request itself")


def ask() -> Asked:
    pending: PendingRequest[object] = PendingRequest(b"a question", None, lambda *_: None)
    return Asked(asyncio.get_running_loop().create_future(), pending, never)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_wait_ends_at_its_time_and_not_before_with_the_request_that_goes_on() -> None:
    async def test() -> None:
        waits, asked = AnswerWaits(), ask()
        waits.add(asked, 5.0)
        waits.end_late(4.9, "no leader")
        assert not asked.future.done()
        waits.end_late(5.0, "no leader")
        with pytest.raises(ClusterTimeoutError, match="no leader") as raised:
            await asked.future
        assert raised.value.pending == asked.request != ask().request
        assert {raised.value.pending, asked.request} == {AsyncPendingRequest(asked.pending, never)}
        assert raised.value.outcome is RequestOutcome.UNKNOWN

    run(test)


def test_a_shorter_wait_that_begins_later_ends_first() -> None:
    async def test() -> None:
        waits, long, short = AnswerWaits(), ask(), ask()
        waits.add(long, 9.0)
        waits.add(short, 3.0)
        waits.end_late(3.0, "")
        assert short.future.done() and not long.future.done()
        waits.end_late(9.0, "")
        assert isinstance(long.future.exception(), ClusterTimeoutError)
        assert isinstance(short.future.exception(), ClusterTimeoutError)

    run(test)


def test_an_answer_stays_after_its_time_and_holds_up_none_behind_it() -> None:
    async def test() -> None:
        waits, answered, cancelled, late = AnswerWaits(), ask(), ask(), ask()
        for asked in (answered, cancelled, late):
            waits.add(asked, 2.0)
        answered.future.set_result(ANSWER)
        cancelled.future.cancel()
        waits.end_late(2.0, "")
        assert answered.future.result() == ANSWER
        assert cancelled.future.cancelled()
        assert isinstance(late.future.exception(), ClusterTimeoutError)

    run(test)


def test_answered_requests_behind_a_slow_one_are_not_kept() -> None:
    async def test() -> None:
        waits, slow = AnswerWaits(), ask()
        waits.add(slow, 5.0)
        for time_s in range(6, 6 + 3 * ANSWERED_KEPT):
            asked = ask()
            waits.add(asked, float(time_s))
            asked.future.set_result(ANSWER)
            waits.end_late(1.0, "")
            assert len(waits) <= ANSWERED_KEPT
        waits.end_late(5.0, "")
        assert isinstance(slow.future.exception(), ClusterTimeoutError)

    run(test)


def test_a_change_is_told_to_all_who_wait_and_to_nobody_who_waits_later() -> None:
    async def test() -> None:
        changes = Changes()
        first, gone = (asyncio.ensure_future(changes.wait()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        changes.announce()
        later = asyncio.ensure_future(changes.wait())
        await first
        await asyncio.sleep(0)
        assert not later.done() and gone.cancelled()
        changes.announce()
        await later

    run(test)

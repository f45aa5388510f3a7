"""The rate limiter and the lock service of examples/, proven deterministic and restorable."""

from __future__ import annotations

from typing import Any

import pytest

from examples.lock_service import LockService
from examples.rate_limiter import REFILL_MS, TOKENS_MAX, RateLimiter
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.testing.harness import CloseSession, Message, OpenSession, ServiceHarness, check_service

NOON = 1_000_000


def test_a_key_has_so_many_tokens_and_gets_them_back_with_time() -> None:
    burst = [Message(1, NOON, b"alice") for _ in range(TOKENS_MAX + 1)]
    later = [Message(1, NOON + 30, b"alice"), Message(1, NOON + 30, b"bob"), Message(1, NOON + REFILL_MS, b"alice")]
    harness = check_service(RateLimiter, [OpenSession(1, NOON), *burst, *later])
    wait_ms = str(REFILL_MS).encode()
    left_ms = str(REFILL_MS - 30).encode()
    assert harness.egress(1) == [b"0"] * TOKENS_MAX + [wait_ms, left_ms, b"0", b"0"]


@pytest.mark.parametrize("unit", TimeUnit)
def test_the_limit_is_the_same_in_each_unit_of_time(unit: TimeUnit) -> None:
    noon, refill = unit.duration(seconds=1000), unit.duration(milliseconds=REFILL_MS)
    harness = ServiceHarness(RateLimiter, time_unit=unit).execute(OpenSession(1, noon))
    for timestamp in [*[noon] * (TOKENS_MAX + 1), noon + refill]:
        harness.execute(Message(1, timestamp, b"alice"))
    assert harness.egress(1) == [b"0"] * TOKENS_MAX + [str(REFILL_MS).encode(), b"0"]


def test_whoever_was_refused_is_let_in_when_it_was_told_to_come_back() -> None:
    harness = ServiceHarness(RateLimiter).execute(OpenSession(1, NOON))
    now = NOON
    for _ in range(5 * TOKENS_MAX):
        harness.execute(Message(1, now, b"alice"))
        now += int(harness.egress(1)[-1])
    assert harness.egress(1).count(b"0") >= 2 * TOKENS_MAX
    assert now - NOON <= 5 * TOKENS_MAX * REFILL_MS


def rejections(harness: ServiceHarness) -> list[bytes | int]:
    return [one.value for one in harness.effects if one.kind == "reject"]


def test_a_lock_has_one_holder_and_goes_on_in_the_order_of_asking() -> None:
    inputs: list[Any] = [OpenSession(one, one) for one in (1, 2, 3)]
    inputs += [Message(one, 10 + one, b"lock disk") for one in (1, 2, 3)]
    inputs += [Message(2, 20, b"unlock disk"), Message(1, 21, b"unlock disk"), CloseSession(3, 22)]
    harness = check_service(LockService, inputs)
    (first,), second, (third,) = harness.egress(1), harness.egress(2), harness.egress(3)
    assert second == [], "who left the queue gets nothing"
    tokens = [int(one.removeprefix(b"disk ")) for one in (first, third)]
    assert tokens[0] < tokens[1], "a later holder has a higher token"
    assert harness.query(b"disk") == b"[]"


def test_the_lock_of_a_session_that_ends_goes_to_the_next() -> None:
    inputs: list[Any] = [OpenSession(1, 1), OpenSession(2, 2), Message(1, 3, b"lock a"), Message(1, 3, b"lock b")]
    inputs += [Message(2, 4, b"lock a"), CloseSession(1, 5)]
    harness = check_service(LockService, inputs)
    assert len(harness.egress(2)) == 1
    assert (harness.query(b"a"), harness.query(b"b")) == (b"[2]", b"[]")


def test_orders_that_cannot_be_change_nothing() -> None:
    inputs: list[Any] = [OpenSession(1, 1), Message(1, 2, b"lock a")]
    inputs += [Message(1, 3, one) for one in (b"lock a", b"unlock b", b"steal a", b"lock ", b"\xff")]
    harness = check_service(LockService, inputs)
    assert len(rejections(harness)) == 5
    assert harness.query(b"a") == b"[1]"

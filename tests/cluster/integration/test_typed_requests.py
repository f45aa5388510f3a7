"""Requests with types on real processes: each has the message that answers it, or one error (docs/MESSAGES.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_type

import pytest

from ordo import (
    Answer,
    AsyncClusterClient,
    AsyncPendingRequest,
    ClientSettings,
    ClusterClient,
    PendingRequest,
    decode,
    encode,
)
from ordo.deploy.launcher import LocalCluster
from ordo.errors import MessageError, RejectedError, RequestIdError, RequestOutcome
from ordo.messages import Schema
from ordo.service_api.messages.evolution import breaks
from tests.cluster.integration.conftest import LendCluster
from tests.cluster.integration.typed_bank import (
    Balance,
    Deposit,
    EarlierWithdraw,
    LaterDeposit,
    Misled,
    Plain,
    Shortage,
    Unknown,
    Withdraw,
)
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
BANK = "tests.cluster.integration.typed_bank:Bank"
SETTINGS = ClientSettings(message_timeout_s=patient(30))
MISLED = r"executed at log position \d+, and answered by something else \(.*\): message 1 of schema 1 is no Shortage"


def test_a_request_is_answered_by_the_message_that_it_names(lend_cluster: LendCluster) -> None:
    with ClusterClient(lend_cluster(BANK).ingress_endpoints, settings=SETTINGS) as client:
        assert assert_type(client.request(Deposit(1, 500)), Balance) == Balance(1, 500)
        assert assert_type(client.request(Withdraw(1, 600)), Balance | Shortage) == Shortage(100)
        assert client.request(Withdraw(1, 200)) == Balance(1, 300)
        assert decode(Balance, client.request(encode(Deposit(1, 1))).payload) == Balance(1, 301), "bytes stay bytes"
        pending = client.submit(Deposit(1, 1))
        assert_type(pending, PendingRequest[Balance])
        assert pending.result() == pending.value == Balance(1, 302)
        assert pending.answer == Answer(encode(Balance(1, 302)), pending.answer.log_position if pending.answer else 0)


def test_one_with_an_id_is_executed_once(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)
    for _ in range(2):
        with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
            assert client.request(Deposit(2, 500), id=b"salary of account 2") == Balance(2, 500)


def test_one_with_an_id_is_repeated_over_an_upgrade_by_its_bytes(lend_cluster: LendCluster) -> None:
    with ClusterClient(lend_cluster(BANK).ingress_endpoints, settings=SETTINGS) as client:
        kept = encode(Deposit(7, 500))
        first = client.submit(Deposit(7, 500), id=b"salary of account 7")
        assert first.result() == Balance(7, 500)
        with pytest.raises(RequestIdError, match="not executed") as conflict:
            client.request(LaterDeposit(7, 500), id=b"salary of account 7")
        assert first.answer is not None and conflict.value.log_position == first.answer.log_position
        assert client.request(kept, id=b"salary of account 7").payload == first.answer.payload
        assert client.request(LaterDeposit(7, 1)) == Balance(7, 501)


def test_a_client_of_before_an_answer_was_added_learns_that_its_request_was_executed(lend_cluster: LendCluster) -> None:
    old, new = Schema("old", EarlierWithdraw, Balance), Schema("new", Withdraw, Balance, Shortage)
    assert breaks(old, new) == [], "what answers a request is no part of a schema"
    with ClusterClient(lend_cluster(BANK).ingress_endpoints, settings=SETTINGS) as client:
        with pytest.raises(MessageError, match=r"something else \(.*\): message 2 of schema 1 is no Balance") as failed:
            client.request(EarlierWithdraw(8, 1))
        assert failed.value.outcome is RequestOutcome.EXECUTED


def test_what_fails_has_one_error(lend_cluster: LendCluster) -> None:
    with ClusterClient(lend_cluster(BANK).ingress_endpoints, settings=SETTINGS) as client:
        with pytest.raises(RejectedError, match="nothing to deposit"):
            client.request(Deposit(3, 0))
        with pytest.raises(RejectedError, match="message 5 of schema 1, version 0, is unknown: known are"):
            client.request(Unknown(3))
        with pytest.raises(MessageError, match=MISLED) as misled:
            client.request(Misled(3, 7))
        assert misled.value.outcome is RequestOutcome.EXECUTED and misled.value.log_position > 0
        assert decode(Balance, misled.value.pending.answer.payload) == Balance(3, 7)
        with pytest.raises(MessageError, match="not executed: Plain names no answer"):
            client.request(Plain(3))  # type: ignore[call-overload]
        with pytest.raises(MessageError, match=r"not executed: Deposit\.cents is -1"):
            client.request(Deposit(3, -1))
        assert client.request(Deposit(3, 1)) == Balance(3, 8), "the misled one was executed, the others were not"


def test_many_requests_have_their_messages_in_order(lend_cluster: LendCluster) -> None:
    with ClusterClient(lend_cluster(BANK).ingress_endpoints, settings=SETTINGS) as client:
        orders = [Deposit(4, 1)] * 3
        assert assert_type(client.request_many(orders), list[Balance]) == [Balance(4, one) for one in (1, 2, 3)]
        assert list(client.request_stream(orders, ids=[b"4a", b"4b", b"4a"])) == [
            Balance(4, 4),
            Balance(4, 5),
            Balance(4, 4),
        ]
        mixed: list[Deposit | Misled] = [Deposit(4, 1), Misled(4, 1), Deposit(4, 0), Deposit(4, -1), Deposit(4, 1)]
        found = client.request_many(mixed, return_exceptions=True)
        assert [type(one) for one in found] == [Balance, MessageError, RejectedError, MessageError, Balance]
        assert found[4] == Balance(4, 8)
        with pytest.raises(MessageError, match=MISLED) as misled:
            client.request_many(mixed)
        assert misled.value.answers == [Balance(4, 9), None, None, None, Balance(4, 11)]


@asynccontextmanager
async def opened(cluster: LocalCluster) -> AsyncIterator[AsyncClusterClient]:
    async with AsyncClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
        yield client


def test_the_same_for_asyncio(lend_cluster: LendCluster) -> None:
    async def run() -> None:
        async with opened(lend_cluster(BANK)) as client:
            assert assert_type(await client.request(Deposit(5, 500)), Balance) == Balance(5, 500)
            assert assert_type(await client.request(Withdraw(5, 600)), Balance | Shortage) == Shortage(100)
            assert assert_type(await client.submit(Deposit(5, 1)), Balance) == Balance(5, 501)
            assert (await client.request(encode(Deposit(5, 1)))).payload == encode(Balance(5, 502))
            with pytest.raises(MessageError, match=MISLED) as misled:
                await client.request(Misled(5, 1))
            pending = misled.value.pending
            assert isinstance(pending, AsyncPendingRequest) and pending.answer is not None
            assert decode(Balance, pending.answer.payload) == Balance(5, 503)
            with pytest.raises(RejectedError, match="is unknown"):
                await client.request(Unknown(5))
            with pytest.raises(MessageError, match="not executed: Plain names no answer"):
                await client.request(Plain(5))  # type: ignore[call-overload]

    asyncio.run(run())


def test_many_requests_for_asyncio(lend_cluster: LendCluster) -> None:
    async def run() -> None:
        async with opened(lend_cluster(BANK)) as client:
            orders = [Deposit(6, 1)] * 3
            assert assert_type(await client.request_many(orders), list[Balance]) == [
                Balance(6, one) for one in (1, 2, 3)
            ]
            assert [one async for one in client.request_stream(orders)] == [Balance(6, one) for one in (4, 5, 6)]
            mixed: list[Deposit | Misled] = [Deposit(6, 1), Misled(6, 1), Deposit(6, 0), Deposit(6, -1), Deposit(6, 1)]
            found = await client.request_many(mixed, return_exceptions=True)
            assert [type(one) for one in found] == [Balance, MessageError, RejectedError, MessageError, Balance]
            with pytest.raises(MessageError, match=MISLED) as misled:
                await client.request_many(mixed)
            assert misled.value.answers == [Balance(6, 10), None, None, None, Balance(6, 12)]

    asyncio.run(run())

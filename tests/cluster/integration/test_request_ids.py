"""Requests on real processes that are waited for again, sent again by id, and made many at a time (docs/CLIENT.md)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time

import pytest

from ordo import AsyncClusterClient, ClientSettings, ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.errors import (
    ClusterTimeoutError,
    ConfigurationError,
    OrdoError,
    RejectedError,
    RequestIdError,
    RequestOutcome,
)
from tests.cluster.integration.conftest import LendCluster, StartCluster
from tests.cluster.integration.test_requests import ADD, BANK, balance_of
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
WAIT_S = 60
SHORT_S = 0.000_001
ELSEWHERE = """
import sys
from ordo import ClusterClient
with ClusterClient(sys.argv[1].split(",")) as client:
    answer = client.request(b'{"add": 1}', id=b"payment 1", timeout_s=60)
    print(answer.log_position, answer.payload.decode())
"""


def hold_all(cluster: LocalCluster) -> None:
    """Have no member do anything, until they are let go on."""
    for member_id in cluster.member_ids:
        cluster.send_signal(member_id, signal.SIGSTOP)


def let_all_go_on(cluster: LocalCluster) -> None:
    for member_id in cluster.member_ids:
        cluster.send_signal(member_id, signal.SIGCONT)


def executed(client: ClusterClient) -> int:
    return int(json.loads(client.query(b"", timeout_s=WAIT_S).payload)[1])


def test_an_id_is_executed_once_from_other_processes_through_a_killed_leader_and_restarts(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(BANK)
    with ClusterClient(cluster.ingress_endpoints) as client:
        first = client.request(ADD, id=b"payment 1", timeout_s=WAIT_S)
        with pytest.raises(RejectedError, match="the account has 1") as refused:
            client.request(b'{"add": -5}', id=b"payment 2", timeout_s=WAIT_S)
        with pytest.raises(RequestIdError, match="not executed: the id was used for another payload") as conflict:
            client.request(b'{"add": 3}', id=b"payment 1", timeout_s=WAIT_S)
        assert conflict.value.log_position == first.log_position
        assert client.request(b'{"add": 0}', timeout_s=WAIT_S).log_position > conflict.value.log_position
    take_snapshot(cluster)
    cluster.kill(leader := cluster.await_leader())
    endpoints = ",".join(cluster.ingress_endpoints.values())
    lines = [
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE, endpoints], capture_output=True, text=True, timeout=120, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert lines == [f"{first.log_position} {first.payload.decode()}"] * 2
    cluster.start_member(leader)
    for member_id in sorted(cluster.ingress_endpoints):
        cluster.kill(member_id)
    for member_id in sorted(cluster.ingress_endpoints):
        cluster.start_member(member_id)
    cluster.await_leader(WAIT_S)
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert client.request(ADD, id=b"payment 1", timeout_s=WAIT_S) == first
        with pytest.raises(RejectedError, match="the account has 1") as again:
            client.request(b'{"add": -5}', id=b"payment 2", timeout_s=WAIT_S)
        assert again.value.log_position == refused.value.log_position
        assert executed(client) == 2


def test_a_wait_that_was_too_short_goes_on(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request(ADD, timeout_s=WAIT_S)
        hold_all(cluster)
        with pytest.raises(ClusterTimeoutError, match="unknown whether it was executed") as late:
            client.request(ADD, timeout_s=0.2)
        assert late.value.outcome is RequestOutcome.UNKNOWN
        assert client.pending_requests == [late.value.pending]
        let_all_go_on(cluster)
        assert balance_of(late.value.pending.result(timeout_s=WAIT_S)) == 2
        assert executed(client) == 2


def test_one_refusal_among_many_loses_no_answer(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)
    payloads = [b'{"add": -9999}' if number == 500 else ADD for number in range(1000)]
    with ClusterClient(cluster.ingress_endpoints) as client:
        with pytest.raises(RejectedError) as refused:
            client.request_many(payloads)
        answers = refused.value.answers
        assert [one is None for one in answers] == [number == 500 for number in range(1000)]
        assert balance_of(answers[-1]) == 999 and refused.value.requests[500].error is refused.value
        found = client.request_many(payloads, return_exceptions=True)
        assert isinstance(found[500], RejectedError) and len(found) == 1000
        stream = list(client.request_stream(iter(payloads), return_exceptions=True))
        assert [isinstance(one, OrdoError) for one in stream] == [number == 500 for number in range(1000)]
        with pytest.raises(RejectedError) as ended:
            for count, _ in enumerate(client.request_stream(payloads), 1):
                last = count
        assert last == 500 and len(ended.value.requests) > 1
        for one in ended.value.requests[1:]:
            one.result(timeout_s=WAIT_S)
        ids = [b"refused %d" % number for number in range(1000)]
        once = client.request_many(payloads[:500], ids=ids)
        assert client.request_many(payloads[:500], ids=ids) == once


def test_many_wait_for_as_long_as_answers_come(lend_cluster: LendCluster) -> None:
    """With one timeout for all of them, 50,000 requests had to be answered within it."""
    cluster = lend_cluster(BANK)
    settings = ClientSettings(outstanding_requests_max=64)
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        client.request(ADD, timeout_s=WAIT_S)
        answers = client.request_many([ADD] * 20_000, timeout_s=patient(0.9))
        assert balance_of(answers[-1]) == 20_001
        hold_all(cluster)
        with pytest.raises(ClusterTimeoutError, match="unknown") as late:
            client.request_many([ADD] * 10, timeout_s=0.3)
        assert late.value.answers == [None] * 10
        let_all_go_on(cluster)
        assert [balance_of(one.result(timeout_s=WAIT_S)) for one in late.value.requests] == list(range(20_002, 20_012))


async def many_that_end_early(client: AsyncClusterClient) -> None:
    """A payload that is too long ends its own request; a missing id, and a silent cluster, end the call."""
    mixed = await client.request_many([ADD, bytes(1 << 27), ADD], return_exceptions=True)
    assert [isinstance(one, OrdoError) for one in mixed] == [False, True, False]
    assert isinstance(mixed[1], OrdoError) and mixed[1].outcome == RequestOutcome.NOT_EXECUTED
    with pytest.raises(ConfigurationError, match="ids: fewer than payloads") as few:
        await client.request_many([ADD, ADD], ids=[b"only one"], return_exceptions=True)
    assert balance_of(await few.value.requests[0].result(timeout_s=WAIT_S)) > 2 and len(few.value.requests) == 1


def test_asyncio_waits_once_for_many_that_nobody_answers(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)

    async def run() -> None:
        async with AsyncClusterClient(cluster.ingress_endpoints) as client:
            await client.request(ADD, timeout_s=WAIT_S)
            hold_all(cluster)
            began_s = time.monotonic()
            found = await client.request_many([ADD] * 100, timeout_s=0.3, return_exceptions=True)
            lasted_s = time.monotonic() - began_s
            with pytest.raises(ClusterTimeoutError, match="unknown") as late:
                await client.request_many([ADD], timeout_s=0.3)
            let_all_go_on(cluster)
            assert lasted_s < 100 * 0.3, "each was waited for"
            assert all(isinstance(one, ClusterTimeoutError) and one.outcome == RequestOutcome.UNKNOWN for one in found)
            assert late.value.answers == [None]
            for index, one in enumerate([*[getattr(one, "pending", None) for one in found], *late.value.requests]):
                assert one is not None and balance_of(await one.result(timeout_s=WAIT_S)) == 2 + index

    asyncio.run(run())


def test_asyncio_has_the_same(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)

    async def run() -> None:
        async with AsyncClusterClient(cluster.ingress_endpoints) as client:
            first = await client.request(ADD, id=b"asyncio", timeout_s=WAIT_S)
            assert await client.request(ADD, id=b"asyncio", timeout_s=WAIT_S) == first
            with pytest.raises(ClusterTimeoutError, match=r"error\.pending\.result") as late:
                await client.request(ADD, timeout_s=SHORT_S)
            assert balance_of(await late.value.pending.result(timeout_s=WAIT_S)) == 2
            hold_all(cluster)  # an answer must not come between the two
            task = asyncio.create_task(client.request(ADD, timeout_s=WAIT_S))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (pending,) = client.pending_requests
            let_all_go_on(cluster)
            assert balance_of(await pending.result(timeout_s=WAIT_S)) == 3 and client.pending_requests == []
            payloads = [b'{"add": -9999}' if number == 500 else ADD for number in range(1000)]
            with pytest.raises(RejectedError) as refused:
                await client.request_many(payloads)
            assert [one is None for one in refused.value.answers] == [number == 500 for number in range(1000)]
            assert refused.value.requests[500].error is refused.value and len(refused.value.requests) == 1000
            together = await client.request_many(payloads, return_exceptions=True)
            assert [isinstance(one, RejectedError) for one in together] == [number == 500 for number in range(1000)]
            found = [one async for one in client.request_stream(payloads, return_exceptions=True)]
            assert isinstance(found[500], RejectedError) and len(found) == 1000
            await many_that_end_early(client)
            ids = [b"asyncio %d" % number for number in range(100)]
            once = await client.request_many([ADD] * 100, ids=ids)
            assert await client.request_many([ADD] * 100, ids=ids) == once

    asyncio.run(run())

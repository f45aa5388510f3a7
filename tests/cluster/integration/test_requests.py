"""Requests on real processes: executed once and answered, whatever dies (docs/CLIENT.md)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ordo import Answer, AsyncClusterClient, ClientSettings, ClusterClient
from ordo.errors import ClusterTimeoutError, ConfigurationError, IdentityError, RejectedError, RequestOutcome
from tests.cluster.integration.agreement import replace_leader, timeouts_of
from tests.cluster.integration.conftest import LendCluster, StartCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
BANK = "tests.cluster.integration.requests_service:Bank"
ADD = b'{"add": 1}'


def balance_of(answer: Answer) -> int:
    return int(json.loads(answer.payload)["balance"])


def accounts(client: ClusterClient) -> tuple[dict[str, int], int]:
    balances, executed = json.loads(client.query(b"", timeout_s=20).payload)
    return balances, executed


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_requests_are_answered_with_their_position(lend_cluster: LendCluster, mode: str) -> None:
    cluster = lend_cluster(BANK, service_mode=mode)
    with ClusterClient(cluster.ingress_endpoints) as client:
        answers = [client.request(ADD), *client.request_many([ADD] * 2000, timeout_s=30)]
        assert [balance_of(answer) for answer in answers] == list(range(1, 2002))
        assert all(json.loads(answer.payload)["position"] == answer.log_position for answer in answers)
        with pytest.raises(RejectedError, match="the account has 2001") as refused:
            client.request(b'{"add": -5000}')
        assert refused.value.log_position > answers[-1].log_position
        assert accounts(client) == ({client.identity.hex(): 2001}, 2001)


def test_nothing_is_lost_or_done_twice_around_killed_leaders(start_cluster: StartCluster) -> None:
    """Of 4,585 raw messages around a killed leader all returned success, and 4,129 were executed."""
    cluster = start_cluster(BANK)
    killed: list[int] = []

    def kill_leaders() -> None:
        for _ in range(2):
            killed.append(replace_leader(cluster))

    thread = threading.Thread(target=kill_leaders)
    thread.start()
    with ClusterClient(cluster.ingress_endpoints) as client:
        count = 0
        while thread.is_alive():
            answers = client.request_many([ADD] * 200, timeout_s=60)
            assert [balance_of(answer) for answer in answers] == list(range(count + 1, count + 201))
            count += 200
        thread.join()
        assert len(killed) == 2
        assert accounts(client) == ({client.identity.hex(): count}, count)


def test_a_client_that_pauses_goes_on_with_a_new_session(start_cluster: StartCluster) -> None:
    """Its session has timed out meanwhile. The message was lost, and the client told that the leader was gone."""
    cluster = start_cluster(BANK, cluster={"session_timeout": "1s"})
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request(ADD)
        before = client.session_id
        cluster.await_value(lambda: timeouts_of(cluster) or None, "the end of the session")
        assert balance_of(client.request(ADD, timeout_s=30)) == 2
        assert client.session_id != before
        assert accounts(client)[1] == 2


PROCESS = """
import sys
from ordo import ClientSettings, ClusterClient
endpoints, journal = sys.argv[1].split(","), sys.argv[2]
with ClusterClient(endpoints, settings=ClientSettings(journal=journal, message_timeout_s=60)) as client:
    for pending in client.recovered_requests:
        pending.result()
    while True:
        client.request_many([b'{"add": 1}'] * 20)
        print(client.identity.hex(), flush=True)
"""


def test_a_client_that_is_killed_goes_on_from_its_journal(lend_cluster: LendCluster, tmp_path: Path) -> None:
    cluster = lend_cluster(BANK)
    endpoints = list(cluster.ingress_endpoints.values())
    command = [sys.executable, "-c", PROCESS, ",".join(endpoints), str(tmp_path / "journal")]
    identities = set()
    for _ in range(4):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(5):
            identities.add(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    settings = ClientSettings(journal=str(tmp_path / "journal"))
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        assert identities == {client.identity.hex()}
        for pending in client.recovered_requests:
            pending.result(30)
        numbered = client.request(ADD)
        (balances, executed) = accounts(client)
        assert balances == {client.identity.hex(): executed}
        assert balance_of(numbered) == executed, "each number was executed once, and this was the last"
        assert client._requests is not None and client._requests._number == executed


def test_the_later_client_of_one_identity_has_it(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)
    settings = ClientSettings(identity=os.urandom(16))
    with (
        ClusterClient(cluster.ingress_endpoints, settings=settings) as first,
        ClusterClient(cluster.ingress_endpoints, settings=settings) as second,
    ):
        assert balance_of(first.request(ADD)) == 1
        assert balance_of(second.request(ADD)) == 2
        with pytest.raises(IdentityError, match="opened by another client"):
            first.request(ADD)
        assert balance_of(second.request(ADD)) == 3


def test_a_request_that_is_not_answered_in_time_goes_on(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(BANK)
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request(ADD)
        leader = cluster.await_leader()
        others = [member_id for member_id in cluster.member_ids if member_id != leader]
        for member_id in others:
            cluster.send_signal(member_id, signal.SIGSTOP)
        pending = client.submit(ADD)
        with pytest.raises(
            ClusterTimeoutError, match="request 2 not answered in time, unknown whether it was executed"
        ):
            pending.result(0.5)
        for member_id in others:
            cluster.send_signal(member_id, signal.SIGCONT)
        assert balance_of(pending.result(30)) == 2
        assert accounts(client)[1] == 2


def test_a_time_that_is_none_is_refused_before_anything_is_executed(lend_cluster: LendCluster) -> None:
    """The request was executed, and its answer lost behind a TypeError: who repeated it had it executed twice."""
    cluster = lend_cluster(BANK)
    wrong: list[Any] = ["2", float("nan"), b"1"]

    def check(caught: pytest.ExceptionInfo[ConfigurationError]) -> None:
        assert caught.value.outcome is RequestOutcome.NOT_EXECUTED

    async def ask() -> Answer:
        async with AsyncClusterClient(cluster.ingress_endpoints) as client:
            for timeout_s in wrong:
                with pytest.raises(ConfigurationError, match=r"^not executed: timeout_s=") as caught:
                    await client.request(ADD, timeout_s=timeout_s)
                check(caught)
            return await client.request(ADD, timeout_s=float("inf"))

    with ClusterClient(cluster.ingress_endpoints) as client:
        for timeout_s in wrong:
            for call in (
                client.request,
                lambda payload, timeout_s: client.request_many([payload], timeout_s=timeout_s),
            ):
                with pytest.raises(ConfigurationError, match=r"^not executed: timeout_s=") as caught:
                    call(ADD, timeout_s=timeout_s)
                check(caught)
        assert balance_of(client.request(ADD, timeout_s=float("inf"))) == 1
    assert balance_of(asyncio.run(ask())) == 1


def test_asyncio_clients_make_requests(start_cluster: StartCluster) -> None:
    cluster = start_cluster(BANK)

    async def work() -> None:
        async with AsyncClusterClient(cluster.ingress_endpoints) as client:
            assert balance_of(await client.request(ADD)) == 1
            answers = await asyncio.gather(*(client.request(ADD, timeout_s=30) for _ in range(500)))
            assert sorted(map(balance_of, answers)) == list(range(2, 502))
            with pytest.raises(RejectedError, match="not an amount"):
                await client.request(b"nonsense")
            stream: list[Any] = [answer async for answer in client.request_stream([ADD] * 3000)]
            assert [balance_of(answer) for answer in stream] == list(range(502, 3502))
            cluster.kill(cluster.await_leader())
            assert balance_of(await client.request(ADD, timeout_s=30)) == 3502

    asyncio.run(work())

"""Messages of `send` around killed leaders, on real processes: none is said to be there that is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ordo import AsyncClusterClient, ClientSettings, ClusterClient, Unsequenced
from ordo.deploy.launcher import LocalCluster
from ordo.errors import NotSequencedError
from tests.cluster.integration.agreement import replace_leader
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.test_requests import ADD, BANK, accounts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
SETTINGS = ClientSettings(message_timeout_s=30)


@contextmanager
def killing_leaders(cluster: LocalCluster) -> Iterator[threading.Thread]:
    """Kills two leaders, one after the other, and starts them again."""

    def kill() -> None:
        for _ in range(2):
            replace_leader(cluster)

    thread = threading.Thread(target=kill)
    thread.start()
    yield thread
    thread.join()


def executed_raw(cluster: LocalCluster) -> int:
    with ClusterClient(cluster.ingress_endpoints) as client:
        return accounts(client)[0].get("raw", 0)


def test_what_is_not_executed_is_given_back(start_cluster: StartCluster) -> None:
    """Of 4,585 raw messages around a killed leader all returned success, and 4,129 were executed."""
    cluster = start_cluster(BANK)
    given_back: list[Unsequenced] = []
    with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS, on_unsequenced=given_back.append) as client:
        sent = 0
        with killing_leaders(cluster) as killer:
            while killer.is_alive():
                sent += 1
                assert client.send(ADD).number == sent
                client.poll()
        client.await_sequenced(timeout_s=30)
        assert client.sequenced is not None and client.sequenced.number == sent
        assert client.sequenced_position > 0
    assert all(message.is_certain and message.payload == ADD for message in given_back)
    numbers = [message.number for message in given_back]
    assert numbers == sorted(set(numbers)) and sent > 500
    assert executed_raw(cluster) == sent - len(given_back)


def test_a_message_that_is_waited_for_is_there(start_cluster: StartCluster) -> None:
    cluster = start_cluster(BANK)
    there = 0
    with ClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client, killing_leaders(cluster) as killer:
        while killer.is_alive():
            try:
                client.send(ADD, until="sequenced" if there % 2 else "executed")
                there += 1
            except NotSequencedError as error:
                assert error.is_certain
    assert executed_raw(cluster) == there > 100


def test_asyncio_is_told_the_same(start_cluster: StartCluster) -> None:
    cluster = start_cluster(BANK)
    given_back: list[Unsequenced] = []
    sent = there = 0

    async def work() -> None:
        nonlocal sent, there
        endpoints = cluster.ingress_endpoints
        async with AsyncClusterClient(endpoints, settings=SETTINGS, on_unsequenced=given_back.append) as client:

            async def read() -> None:
                async for _ in client:
                    pass

            reader = asyncio.create_task(read())
            with killing_leaders(cluster) as killer:
                while killer.is_alive():
                    sent += 20
                    for _ in range(19):
                        await client.send(ADD)
                    try:
                        await client.send(ADD, until="executed")
                        there += 1
                    except NotSequencedError as error:
                        assert error.is_certain
                        sent -= 1
            await client.await_sequenced(timeout_s=30)
            reader.cancel()

    asyncio.run(work())
    assert all(message.is_certain for message in given_back)
    assert executed_raw(cluster) == sent - len(given_back)
    assert there > 10

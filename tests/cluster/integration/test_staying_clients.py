"""Clients that are not called for a while, and messages that no log takes, on real processes (docs/CLIENT.md)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from ordo import AsyncClusterClient, ClientEvent, ClientSettings, ClusterClient, Unsequenced
from ordo.errors import ClusterError, ClusterTimeoutError, SessionClosedError
from ordo.service_api.service import OfferResult
from tests.cluster.integration.agreement import timeouts_of
from tests.cluster.integration.conftest import LendCluster, StartCluster
from tests.patience import factor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ECHO = "ordo.bench.loads.echo:Echo"
SESSION_TIMEOUT_S = round(min(3.0, factor()), 1)
SHORT = {"session_timeout": f"{round(SESSION_TIMEOUT_S * 1000)}ms"}
PAUSE_S = 2.5 * SESSION_TIMEOUT_S
"""More than twice the timeout of sessions here."""
SETTINGS = ClientSettings(keep_alive_interval_s=0.2, message_timeout_s=20)


def test_a_client_that_is_not_called_keeps_its_session(lend_cluster: LendCluster) -> None:
    """A client that paused 12 seconds before it sent got success, lost the message and its session."""
    cluster = lend_cluster(ECHO, cluster=SHORT)
    received: list[bytes] = []
    with ClusterClient(
        cluster.ingress_endpoints,
        settings=SETTINGS,
        on_message=lambda session_id, at, payload: received.append(payload),
    ) as client:
        session_id = client.session_id
        time.sleep(PAUSE_S)
        client.send(b"after a pause")
        while not received:
            client.poll()
            client.park(0.01)
        client.park(PAUSE_S)
        client.send(b"after another")
        while len(received) < 2:
            client.poll()
        assert received == [b"after a pause", b"after another"]
        assert client.session_id == session_id


def test_asyncio_that_is_held_up_keeps_its_session(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(ECHO, cluster=SHORT)

    async def work() -> None:
        async with AsyncClusterClient(cluster.ingress_endpoints, settings=SETTINGS) as client:
            time.sleep(PAUSE_S)  # the loop does nothing else meanwhile
            await client.send(b"after a pause")
            async for message in client:
                assert message.payload == b"after a pause"
                break

    asyncio.run(work())


def test_a_client_that_was_stopped_gets_no_success_and_hears_why(lend_cluster: LendCluster) -> None:
    """As the pause of a whole process: it was told that the leader was gone, which was not so."""
    cluster = lend_cluster(ECHO, cluster=SHORT)
    settings = replace(SETTINGS, keep_alive_thread=False, message_timeout_s=2)
    timeouts = timeouts_of(cluster)
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        cluster.await_value(lambda: timeouts_of(cluster) > timeouts or None, "the end of the session")
        with pytest.raises((ClusterTimeoutError, SessionClosedError)):
            client.send(b"after a pause")
        with pytest.raises(SessionClosedError, match=r"TIMEOUT|this client did not run for \d+\.\d s"):
            while True:
                client.poll()
                client.park(0.01)


def test_a_message_that_the_log_does_not_take_is_refused_by_send(start_cluster: StartCluster) -> None:
    """Above the limit of the log it returned a position, and was gone. The log's own terms say what the limit is, also
    where the configuration has others by now."""
    cluster = start_cluster(ECHO, member_count=1, cluster={"log_term_length": "1m", "segment_length": "4m"})
    path = cluster.config_path(0)
    path.write_text(path.read_text().replace('log_term_length = "1m"', 'log_term_length = "4m"'))
    cluster.restart(0)
    cluster.await_leader()
    told = f"goes on with log_term_length = {1 << 20} and mtu = 1408, with which it was begun: {4 << 20} and 1408 of"
    assert cluster.logs(0).count(told) == 1
    settings = replace(SETTINGS, ingress_channel="aeron:udp?term-length=16m", egress_term_length_bytes=16 << 20)
    received: list[int] = []
    with ClusterClient(
        cluster.ingress_endpoints,
        settings=settings,
        on_message=lambda session_id, at, payload: received.append(len(payload)),
    ) as client:
        longest = 128 * 1024 - 32
        assert client.offer(bytes(longest + 1)) == OfferResult.MESSAGE_TOO_LONG
        with pytest.raises(ClusterError, match="not sent: message of 131,041 bytes: at most 131,040 are taken here"):
            client.send(bytes(longest + 1))
        client.send(bytes(longest))
        while not received:
            client.poll()
            client.park(0.01)
        assert received == [longest]


def test_a_client_that_stays_has_a_new_session_and_knows_what_was_lost_with_the_old_one(
    lend_cluster: LendCluster,
) -> None:
    cluster = lend_cluster(ECHO, cluster=SHORT)
    settings = replace(SETTINGS, keep_alive_thread=False)
    events: list[ClientEvent] = []
    given_back: list[Unsequenced] = []
    timeouts = timeouts_of(cluster)
    with ClusterClient(
        cluster.ingress_endpoints, settings=settings, on_event=events.append, on_unsequenced=given_back.append
    ) as client:
        client.send(b"before", until="executed")
        cluster.await_value(lambda: timeouts_of(cluster) > timeouts or None, "the end of the session")
        client.offer(b"into a session that is gone")
        while len(events) < 3:
            client.poll()
            client.park(0.01)
        client.send(b"after", until="executed")
        client.await_sequenced()
        assert [event.kind for event in events] == ["opened", "lost", "opened"]
        assert events[2].session_id == client.session_id != events[0].session_id
        assert [(lost.payload, lost.is_certain) for lost in given_back] == [(b"into a session that is gone", True)]

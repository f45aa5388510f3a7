"""As many sessions as are allowed, and the one beyond them (docs/CLIENT.md, Many sessions).

`make test SUITE=sessions` does it with the 4,096 of the default, and prints what they cost a node.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.errors import SessionRejectedError
from ordo.transport.client.client_transport import ClientTransport
from tests.cluster.integration.conftest import StartCluster

COUNT = int(os.environ.get("SESSIONS", "256"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 if COUNT <= 256 else 1800)]
ECHO = "ordo.bench.loads.echo:Echo"
PER_TRANSPORT = 512
CONNECTING_MAX = 64
ROUNDS = 3
PER_SESSION_RATE = 10
SECONDS = 2 if COUNT <= 256 else 10
STEADY_TIMEOUT_S = 120


class Sessions:
    """Clients that share a few drivers; each has an egress stream of its own."""

    def __init__(self, stack: ExitStack, endpoints: dict[int, str], count: int) -> None:
        self.endpoints = endpoints
        self.answered: dict[int, int] = {}
        self.clients: list[ClusterClient] = []
        self._stack = stack
        self._transports: list[ClientTransport] = []
        waiting: list[ClusterClient] = []
        for number in range(count):
            waiting.append(self.make(number))
            while len(waiting) >= CONNECTING_MAX or (waiting and number == count - 1):
                self.poll(waiting)
                waiting = [client for client in waiting if not client.is_connected]
            if number % CONNECTING_MAX == 0:
                self.poll(self.clients)  # those that are open say that they live, however long it takes

    def make(self, number: int, wait: bool = False) -> ClusterClient:
        if number // PER_TRANSPORT >= len(self._transports):
            transport = ClientTransport.embedded(clients_max=PER_TRANSPORT + 1)
            self._transports.append(transport)
            self._stack.callback(transport.close)
        client = ClusterClient(
            self.endpoints,
            transport=self._transports[number // PER_TRANSPORT],
            on_message=self._count,
            wait=wait,
            settings=ClientSettings(
                ingress_channel="aeron:udp?term-length=64k",
                egress_term_length_bytes=64 * 1024,
                egress_stream_id=10_000 + number,
                connect_timeout_s=120,
                connect_attempt_timeout_s=10,
            ),
        )
        self.clients.append(client)
        return client

    def _count(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.answered[session_id] = self.answered.get(session_id, 0) + 1

    def poll(self, clients: list[ClusterClient]) -> None:
        for transport in self._transports:
            transport.drive()
        for client in clients:
            client.poll()

    def take_room(self, number: int) -> None:
        """Asks for a session until the one that was closed has made room, while the others go on."""
        while True:
            self.poll(self.clients)
            with suppress(SessionRejectedError):
                self.make(number, wait=True)
                return

    def exchange(self, rounds: int) -> None:
        """Every session sends a message and gets its answer, so many times."""
        for done in range(1, rounds + 1):
            for client in self.clients:
                client.send(b"hello", timeout_s=60)
            while sum(self.answered.values()) < done * len(self.clients):
                self.poll(self.clients)

    def steady(self, seconds: int) -> float:
        """Every session sends ten messages a second, by turns; messages a second until all were answered."""
        before, total = sum(self.answered.values()), len(self.clients) * PER_SESSION_RATE * seconds
        begun_s, sent = time.monotonic(), 0
        while (have := sum(self.answered.values())) < before + total:
            assert time.monotonic() < begun_s + STEADY_TIMEOUT_S, f"{before + total - have} answers are missing"
            due = min(total, int((time.monotonic() - begun_s) * PER_SESSION_RATE * len(self.clients)))
            while sent < due and self.clients[sent % len(self.clients)].offer(b"hello") > 0:
                sent += 1
            self.poll(self.clients)
        return total / (time.monotonic() - begun_s)


@contextmanager
def sessions_of(endpoints: dict[int, str], count: int) -> Iterator[Sessions]:
    with ExitStack() as stack:
        yield Sessions(stack, endpoints, count)


def memory_of(pid: int) -> int:
    """Bytes of a process that are in memory, shared ones included."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))


def test_all_that_are_allowed_and_one_more(start_cluster: StartCluster) -> None:
    """At 620 to 800 sessions the counters were used up, and the nodes ended; now the next one is told why."""
    count = COUNT
    patience = {"session_timeout": "60s", "leader_heartbeat_timeout": "5s"}  # all of it shares the machine's cores
    cluster = start_cluster(ECHO, cluster={"max_sessions": count, "max_sessions_per_host": count, **patience})
    leader = cluster.await_leader()
    before = {member_id: memory_of(cluster.pid(member_id)) for member_id in cluster.member_ids}
    with sessions_of(cluster.ingress_endpoints, count) as sessions:
        sessions.exchange(ROUNDS)
        rate = sessions.steady(SECONDS)
        answers = ROUNDS + SECONDS * PER_SESSION_RATE
        assert set(sessions.answered.values()) == {answers} and len(sessions.answered) == count
        print(f"\n{count} sessions, {rate:,.0f} messages a second, {PER_SESSION_RATE} wanted of each")
        with pytest.raises(SessionRejectedError, match="concurrent session limit"):
            sessions.make(count, wait=True)
        for member_id in cluster.member_ids:
            grown = memory_of(cluster.pid(member_id)) - before[member_id]
            print(
                f"member {member_id}{' leads' if member_id == leader else ''}: {grown / count / 1024:.0f} KiB a session"
            )
        sessions.clients.pop(0).close()
        sessions.take_room(count)
    assert cluster.await_leader() == leader

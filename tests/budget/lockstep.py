"""Three members and a client on one thread, over loopback sockets, on a clock that stands still while it is counted.

A party has its turn when its sockets have something, in the order in which they got it, as if each had a core of its
own and waited for nothing else. On the loopback a datagram has arrived when the call that sends it returns, so a run
does the same every time: what is counted depends neither on the machine's load nor on its speed. What is done by time
(heartbeats, timers, a client that looks again after a millisecond) is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import select
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.bench.loads.answering import Answering
from ordo.bench.loads.echo import Echo
from ordo.bench.loads.echo_native import NativeEcho
from ordo.bench.loads.load_native import EchoStream, LoadRun
from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.node.node import Node, NodeSeams
from ordo.cluster.settings.config import NodeSettings
from ordo.deploy.launcher import find_ports
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.random import RandomSource
from ordo.service_api.service import MessageRun, Service
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.udp import UdpNetwork
from tests.budget.probes import drive_probes
from tests.budget.turns import (
    begin_phase,
    end_phase,
    look,
    turn_of_client,
    turn_of_follower,
    turn_of_leader,
    turn_of_python_client,
)

MEMBERS = 3
SIZE_BYTES = 32
TERM_LENGTH_BYTES = 4 << 20
STEP_NS = 5_000_000
STEPS_MAX = 12_000
SETTLE_NS = 3_000_000_000
"""After it the followers take the log from the leader itself, no more from a replay."""
PHASES = {"round trips": (400, 1), "window 100": (4_000, 100)}
"""Messages, and how many of them are on the way at a time."""
SESSIONS_PHASE = "native, 64 sessions"
SESSION_COUNT = 64
SESSION_MESSAGE_COUNT = 128
SESSION_WINDOW = 8
"""In each of the sessions."""
ASYNCIO_PHASE = "asyncio, 256 tasks"
TASK_COUNT = 256
TASK_REQUEST_COUNT = 16
"""Of each of the tasks, one after the other."""


@dataclass
class Party:
    """Somebody who has turns: `turn` works until nothing is left to do; so does `look`, once time has moved on."""

    name: str
    descriptor: int
    turn: Callable[[], object]
    look: Callable[[], object]


class Lockstep:
    """The members, and whoever joins them. `close` gives everything back."""

    def __init__(self, make_service: Callable[[], Service]) -> None:
        self.clock = VirtualClock(1_000_000_000)
        self._stack = ExitStack()
        self._waiting: deque[Party] = deque()
        self._poll = select.poll()
        self._parties: dict[int, Party] = {}
        self.root = root = Path(tempfile.mkdtemp(prefix="ordo-budget-", dir="/dev/shm"))
        self._stack.callback(shutil.rmtree, root, ignore_errors=True)
        ports = find_ports(MEMBERS)
        self.ingress_endpoints = {member_id: f"127.0.0.1:{port}" for member_id, port in enumerate(ports)}
        self.nodes = [self._boot(root, ports, member_id, make_service()) for member_id in range(MEMBERS)]
        self.run_until(lambda: self._leader is not None)
        settled_ns = self.clock.now() + SETTLE_NS
        self.run_until(lambda: self.clock.now() >= settled_ns)

    def _boot(self, root: Path, ports: list[int], member_id: int, service: Service) -> Node:
        config = NodeSettings.model_validate(
            {
                "node": {
                    "member_id": member_id,
                    "data_dir": str(root / f"{member_id}"),
                    "aeron_dir": str(root / f"{member_id}-aeron"),
                    "service_mode": "inline",
                    "sync": "none",
                },
                "members": [{"id": index, "host": "127.0.0.1", "port": port} for index, port in enumerate(ports)],
                "cluster": {"appointed_leader_id": 0, "leader_heartbeat_timeout": "20s", "session_timeout": "5m"},
            }
        )
        network = UdpNetwork()
        seams = NodeSeams(self.clock, network, FileMemoryProvider(), FileStorage(open_lmdb), RandomSource(member_id))
        node = Node(config, seams, [service])
        self._stack.callback(node.close)
        node.start()
        name = "leader" if member_id == 0 else f"follower {member_id}"
        turn = turn_of_leader if member_id == 0 else turn_of_follower
        self.add(Party(name, network.fileno(), lambda: turn(node.cycle), lambda: look(node.cycle)))
        return node

    @property
    def _leader(self) -> Node | None:
        leaders = [node for node in self.nodes if node.module.sequencer.takes_ingress]
        return leaders[0] if leaders else None

    def transport(self, clients_max: int = 1) -> ClientTransport:
        """A client's, with a driver of its own, on the clock of the members."""
        transport = ClientTransport.embedded("budget", clients_max, clock=self.clock)
        self._stack.callback(transport.close)
        return transport

    def add(self, party: Party) -> None:
        self._parties[party.descriptor] = party
        self._poll.register(party.descriptor, select.POLLIN)

    def remove(self, party: Party) -> None:
        del self._parties[party.descriptor]
        self._poll.unregister(party.descriptor)
        if party in self._waiting:
            self._waiting.remove(party)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Turns, until it is so. Time moves on only when nobody has anything to do; everybody looks then."""
        for _ in range(STEPS_MAX):
            while self._waiting or self._look():
                if is_done():
                    return
                self._waiting.popleft().turn()
                self._look()
            if is_done():
                return
            self.clock.advance(STEP_NS)
            for party in self._parties.values():
                party.look()
        raise AssertionError(f"not done after {STEPS_MAX} steps of time")

    def _look(self) -> bool:
        ready = {descriptor for descriptor, _ in self._poll.poll(0)}
        self._waiting.extend(
            party for descriptor, party in self._parties.items() if descriptor in ready and party not in self._waiting
        )
        return bool(self._waiting)

    def close(self) -> None:
        self._stack.close()


def drive_native(world: Lockstep, prefix: str) -> None:
    """A native client counts for the cluster: a Cython service, no Python object on the way."""
    transport = world.transport()
    stream = EchoStream(SIZE_BYTES)
    client = ClusterClient(
        world.ingress_endpoints, settings=_settings(), on_message=stream, transport=transport, wait=False
    )
    stream.attach(client.native)
    _connect(world, client, transport)
    _count(prefix, partial(_run_native, world, transport, [stream], [client]))


def drive_sessions(world: Lockstep) -> None:
    """The same with many sessions of one process."""
    transport = world.transport(SESSION_COUNT)
    length_bytes = TERM_LENGTH_BYTES // SESSION_COUNT * 4
    settings = replace(
        _settings(), ingress_channel=f"aeron:udp?term-length={length_bytes}", egress_term_length_bytes=length_bytes
    )
    streams = [EchoStream(SIZE_BYTES) for _ in range(SESSION_COUNT)]
    clients = []
    for stream in streams:
        client = ClusterClient(
            world.ingress_endpoints, settings=settings, on_message=stream, transport=transport, wait=False
        )
        stream.attach(client.native)
        _connect(world, client, transport)
        clients.append(client)
    _run_native(world, transport, streams, clients, SESSION_MESSAGE_COUNT // 4, SESSION_WINDOW)
    gc.collect()
    begin_phase(SESSIONS_PHASE)
    _run_native(world, transport, streams, clients, SESSION_MESSAGE_COUNT, SESSION_WINDOW)
    end_phase(SESSIONS_PHASE)


def _run_native(
    world: Lockstep,
    transport: ClientTransport,
    streams: list[EchoStream],
    clients: list[ClusterClient],
    count: int,
    window: int,
) -> None:
    def keep() -> None:
        for client in clients:
            client.poll(1)

    driver, descriptor = transport.driver, transport.descriptor
    assert driver is not None and descriptor is not None
    load = LoadRun(streams, driver, world.clock, count, window, keep)
    turn = partial(turn_of_client, load)
    party = Party("client", descriptor, turn, turn)
    world.add(party)
    load.give()
    world.run_until(lambda: load.left == 0)
    world.remove(party)


class PythonLoad:
    """What a program in Python does with its client; `batches` with what there is for many messages at a time."""

    def __init__(self, world: Lockstep, is_batched: bool) -> None:
        self._is_batched = is_batched
        callback: dict[str, Any] = (
            {"on_messages": self._on_messages} if is_batched else {"on_message": self._on_message}
        )
        transport = world.transport()
        self.client = ClusterClient(
            world.ingress_endpoints, settings=_settings(), transport=transport, wait=False, **callback
        )
        _connect(world, self.client, transport)
        self._payload = bytes(SIZE_BYTES)
        self.begin(0, 1)

    def begin(self, count: int, window: int) -> None:
        self._count, self._window, self._sent, self.received = count, window, 0, 0

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.received += 1

    def _on_messages(self, session_id: int, timestamps: memoryview, lengths: memoryview, payloads: bytes) -> None:
        self.received += len(lengths)

    def give(self) -> None:
        room = min(self._window - (self._sent - self.received), self._count - self._sent)
        self._sent += room
        if room == 1:
            self.client.send(self._payload)
        elif self._is_batched:
            assert self.client.offer_many([self._payload] * room) == room
        else:
            for _ in range(room):
                self.client.offer(self._payload)

    def turn(self) -> None:
        self.client.park(0.001)
        while self.client.poll(512):
            pass
        self.give()


def drive_python(world: Lockstep, prefix: str) -> None:
    """The client as a program in Python uses it."""
    _count_python(world, prefix, PythonLoad(world, prefix == "batches"))


def _count_python(world: Lockstep, prefix: str, load: PythonLoad) -> None:
    descriptor = load.client.descriptor
    assert descriptor is not None

    def run(count: int, window: int) -> None:
        load.begin(count, window)
        turn = partial(turn_of_python_client, load.turn)
        party = Party("client", descriptor, turn, turn)
        world.add(party)
        load.give()
        load.client.flush()
        world.run_until(lambda: load.received == count)
        world.remove(party)

    _count(prefix, run)


class RequestLoad(PythonLoad):
    """Requests in the place of messages."""

    def _on_done(self, request: PendingRequest) -> None:
        self.received += request.answer is not None

    def give(self) -> None:
        room = min(self._window - (self._sent - self.received), self._count - self._sent)
        self._sent += room
        for _ in range(room):
            self.client.submit(self._payload, on_done=self._on_done)
        self.client.flush()


def drive_requests(world: Lockstep, prefix: str) -> None:
    """Requests of the client of a program in Python, each executed once."""
    _count_python(world, prefix, RequestLoad(world, False))


class LockstepLoop(asyncio.SelectorEventLoop):
    """On the clock of the members. `turn` does what has come, and what follows from that."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def time(self) -> float:
        """As asyncio's own loops have it, in seconds."""
        return self._clock.now() / 1e9

    def turn(self) -> None:
        """Takes answers, resumes the tasks, sends what they ask for."""
        for _ in range(3):
            self.call_soon(self.stop)
            self.run_forever()


def drive_asyncio(world: Lockstep) -> None:
    """Many tasks of one asyncio client, each with a request on the way."""
    loop = LockstepLoop(world.clock)
    transport = world.transport()
    client = AsyncClusterClient(world.ingress_endpoints, settings=_settings(), transport=transport)
    assert transport.descriptor is not None
    turn = partial(turn_of_python_client, loop.turn)
    party = Party("client", transport.descriptor, turn, turn)
    world.add(party)

    async def ask(count: int) -> None:
        for _ in range(count):
            await client.request(bytes(SIZE_BYTES))

    def run(count: int) -> None:
        tasks = [loop.create_task(ask(count)) for _ in range(TASK_COUNT)]
        loop.turn()
        world.run_until(lambda: all(task.done() for task in tasks))
        for task in tasks:
            task.result()

    opening = loop.create_task(client.open())
    loop.turn()
    world.run_until(opening.done)
    run(TASK_REQUEST_COUNT // 4)
    gc.collect()
    begin_phase(ASYNCIO_PHASE)
    run(TASK_REQUEST_COUNT)
    end_phase(ASYNCIO_PHASE)
    world.remove(party)
    loop.call_soon(client.close)
    loop.turn()
    loop.close()


def _settings() -> ClientSettings:
    return ClientSettings(
        ingress_channel=f"aeron:udp?term-length={TERM_LENGTH_BYTES}", egress_term_length_bytes=TERM_LENGTH_BYTES
    )


def _connect(world: Lockstep, client: ClusterClient, transport: ClientTransport) -> None:
    assert transport.descriptor is not None
    party = Party("client", transport.descriptor, client.poll, client.poll)
    world.add(party)
    world.run_until(lambda: client.is_connected)
    world.remove(party)


def _count(prefix: str, run: Callable[[int, int], None]) -> None:
    for name, (count, window) in PHASES.items():
        run(count // 4, window)
        gc.collect()
        begin_phase(f"{prefix}, {name}")
        run(count, window)
        end_phase(f"{prefix}, {name}")


class EchoRuns(Echo):
    """The same, many at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for payload in messages:
            if messages.session is not None:
                messages.session.offer(payload)


HALVES: dict[str, tuple[Callable[[], Service], Callable[[Lockstep, str], None]]] = {
    "native": (NativeEcho, drive_native),
    "python": (Echo, drive_python),
    "batches": (EchoRuns, drive_python),
    "requests": (Answering, drive_requests),
}
"""Service and client of each; `batches` are in Python, too, with many messages at a time."""


def main() -> None:
    gc.disable()
    for prefix, (make_service, drive) in HALVES.items():
        world = Lockstep(make_service)
        try:
            drive(world, prefix)
            if prefix == "native":
                drive_probes(world.root / "0", world.root / "0-aeron", world.clock)
                drive_sessions(world)
            elif prefix == "requests":
                drive_asyncio(world)
        finally:
            world.close()


if __name__ == "__main__":
    sys.exit(main())

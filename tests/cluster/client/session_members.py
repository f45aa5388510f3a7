"""The members of a cluster as a client sees them, in virtual time: they open sessions, redirect, echo and fail over.

No log and no Raft: the test says who leads. Drivers, transport and codecs are the real ones.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.sessions.message_limit import encode_announcement, encode_message_limit
from ordo.runtime.io.datagram import DatagramNetwork
from ordo.runtime.native.clock import SystemClock, VirtualClock
from ordo.runtime.native.memory import FileMemoryProvider, HeapMemoryProvider, MemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.udp import UdpNetwork
from tests.simulation.network import SimulatedNetwork

STEP_NS = 50_000
PORT = 9000
HEARTBEAT_TIMEOUT_NS = 500_000_000


class SimulatedProcess:
    """A driver and its client on one host."""

    def __init__(self, world: SessionWorld, address: str, name: str) -> None:
        self.address = address
        self.memory = world.make_memory()
        config = MediaDriverSettings(
            directory=f"{world.directory}/{name}",
            to_driver_capacity=1 << 16,
            to_clients_capacity=1 << 16,
            counters_values_length=1 << 16,
            error_log_length=1 << 16,
            loss_report_length=1 << 16,
            term_length=1 << 16,
            ipc_term_length=1 << 16,
            image_liveness_timeout_ns=2_000_000_000,
            publication_connection_timeout_ns=1_000_000_000,
        )
        self.driver = MediaDriver(
            config,
            clock=world.clock,
            network=world.host(address),
            memory=self.memory,
            random=RandomSource(crc32(name.encode())),
        )
        self.driver.on_start()
        self.client = TransportClient(
            config.directory,
            clock=world.clock,
            memory=self.memory,
            invoker=lambda: self.driver.do_work(world.clock.now()),
            name=name,
        )

    def work(self, now_ns: int) -> None:
        self.driver.do_work(now_ns)
        self.client.do_work(now_ns)

    def close(self) -> None:
        self.client.close()
        self.driver.on_close()


class Member(SimulatedProcess):
    """One member; how it meets a connect request is the world's to say.

    `silent`: it answers nothing. `answer_after_ns`: so late it answers connect requests.
    """

    def __init__(self, world: SessionWorld, member_id: int) -> None:
        super().__init__(world, world.address(member_id), f"member{member_id}")
        self.world = world
        self.member_id = member_id
        self.endpoint = f"{world.address(member_id)}:{world.port}"
        self.ingress = self.client.add_subscription(f"aeron:udp?endpoint={self.endpoint}|rejoin=false", 101)
        self.received: list[tuple[str, Any]] = []
        self.streams: dict[str, int] = {}
        """Keyed by name of message: the session id of the stream that the last one came in."""
        self.publications: dict[str, Any] = {}
        self._outbox: list[tuple[str, bytes]] = []
        self.echoes = True
        self.silent = False
        self.answer_after_ns = 0
        self._answers: list[tuple[int, Any]] = []

    def work(self, now_ns: int) -> None:
        super().work(now_ns)
        self.ingress.poll_messages(self._on_message, 50)
        while self._answers and self._answers[0][0] <= now_ns:
            self.world.on_connect(self, self._answers.pop(0)[1])
        for item in list(self._outbox):
            if self.publications[item[0]].offer(item[1]) <= 0:
                break
            self._outbox.remove(item)

    def _on_message(self, message: bytes, header: Any) -> None:
        found = codecs.decode(message) or ordo_codecs.decode(message)
        assert found is not None
        table, values = found
        self.streams[table.name] = header.session_id
        self.received.append((table.name, values))
        if self.silent:
            return
        if table is codecs.SESSION_CONNECT_REQUEST:
            self._answers.append((self.world.clock.now() + self.answer_after_ns, values))
        elif table is codecs.CHALLENGE_RESPONSE:
            self.world.on_challenge_response(self, values)
        elif table is ordo_codecs.QUERY:
            self.world.on_query(self, values)
        elif (
            table is codecs.SESSION_MESSAGE_HEADER
            and self.echoes
            and values.leadership_term_id == self.world.leadership_term_id
        ):
            self.send_message(values.cluster_session_id, message[32:])

    def connect(self, channel: str, stream_id: int) -> None:
        if channel not in self.publications:
            self.publications[channel] = self.client.add_publication(channel, stream_id)

    def send(self, channel: str, message: bytes) -> None:
        self._outbox.append((channel, message))

    def send_message(self, session_id: int, payload: bytes) -> None:
        header = codecs.SESSION_MESSAGE_HEADER.encode(
            leadership_term_id=self.world.leadership_term_id, cluster_session_id=session_id, timestamp=77
        )
        self.send(self.world.sessions[session_id].response_channel, header + payload)

    def send_event(self, channel: str, session_id: int, correlation_id: int, code: EventCode, detail: str = "") -> None:
        self.send(
            channel,
            codecs.SESSION_EVENT.encode(
                cluster_session_id=session_id,
                correlation_id=correlation_id,
                leadership_term_id=self.world.leadership_term_id,
                leader_member_id=self.world.leader_id,
                code=code,
                version=codecs.CLIENT_PROTOCOL_VERSION,
                leader_heartbeat_timeout_ns=HEARTBEAT_TIMEOUT_NS,
                detail=detail,
            ),
        )

    def names_received(self) -> list[str]:
        return [name for name, _ in self.received]


class SessionWorld:
    """`size` members, of which `leader_id` leads in `leadership_term_id`; every step lets 50 us pass."""

    clock: Any
    directory: Any = ""
    port = PORT

    def __init__(self, size: int = 3, seed: int = 1) -> None:
        self._make_seams(seed)
        self.leader_id = 0
        self.leadership_term_id = 4
        self.members = [Member(self, member_id) for member_id in range(size)]
        self.down: set[int] = set()
        self.learners: set[int] = set()
        self.sessions: dict[int, Any] = {}
        self.refusal: tuple[EventCode, str] | None = None
        self.challenge: bytes | None = None
        self.opened_detail = encode_message_limit(1 << 20)
        """What a cluster says when it opens a session; Aeron's says nothing."""
        self._challenged: dict[int, Any] = {}
        self._processes: list[SimulatedProcess] = []
        self._client_count = 0
        self._planned: list[tuple[int, Callable[[], None]]] = []

    def _make_seams(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.network = SimulatedNetwork(self.clock, Random(seed))

    def host(self, address: str) -> DatagramNetwork:
        return self.network.host(address)

    def make_memory(self) -> MemoryProvider:
        return HeapMemoryProvider()

    def address(self, member_id: int) -> str:
        return f"10.0.0.{member_id + 1}"

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        """Does something once the clock has come so far."""
        self._planned.append((time_ns, action))

    @property
    def endpoints(self) -> dict[int, str]:
        return {member.member_id: member.endpoint for member in self.members}

    @property
    def endpoint_text(self) -> str:
        told = ((one, endpoint) for one, endpoint in self.endpoints.items() if one not in self.learners)
        return ",".join(f"{member_id}={endpoint}" for member_id, endpoint in told)

    @property
    def leader(self) -> Member:
        return self.members[self.leader_id]

    def step(self, delta_ns: int = STEP_NS) -> None:
        self.pass_time(delta_ns)
        now_ns = self.clock.now()
        for planned in [planned for planned in self._planned if planned[0] <= now_ns]:
            self._planned.remove(planned)
            planned[1]()
        for member in self.members:
            if member.member_id not in self.down:
                member.work(now_ns)
        for process in self._processes:
            process.work(now_ns)

    def pass_time(self, delta_ns: int) -> None:
        self.clock.advance(delta_ns)

    # What members do

    def on_connect(self, member: Member, request: Any) -> None:
        member.connect(request.response_channel, request.response_stream_id)
        if member.member_id != self.leader_id:
            member.send_event(
                request.response_channel, -1, request.correlation_id, EventCode.REDIRECT, self.endpoint_text
            )
        elif self.refusal is not None:
            member.send_event(request.response_channel, -1, request.correlation_id, *self.refusal)
        elif self.challenge is not None:
            self._challenged[50] = request
            member.send(
                request.response_channel,
                codecs.CHALLENGE.encode(
                    correlation_id=request.correlation_id, cluster_session_id=50, encoded_challenge=self.challenge
                ),
            )
        else:
            self._open(member, request, request.correlation_id)

    def on_challenge_response(self, member: Member, response: Any) -> None:
        self._open(member, self._challenged[response.cluster_session_id], response.correlation_id)

    def on_query(self, member: Member, query: Any) -> None:
        """Nobody answers, unless the test says what."""

    def _open(self, member: Member, request: Any, correlation_id: int) -> None:
        session_id = len(self.sessions) + 1
        self.sessions[session_id] = request
        member.send_event(request.response_channel, session_id, correlation_id, EventCode.OK, self.opened_detail)

    def fail_over(self, leader_id: int, *, stop: bool = True, announce: bool = True) -> None:
        """Another member leads; the old one is gone unless told otherwise."""
        if stop:
            self.down.add(self.leader_id)
        self.leader_id = leader_id
        self.leadership_term_id += 1
        if announce:
            self.announce()

    def announce(self) -> None:
        for session_id, request in self.sessions.items():
            self.leader.connect(request.response_channel, request.response_stream_id)
            detail = encode_announcement(1 << 20)
            self.leader.send_event(request.response_channel, session_id, request.correlation_id, EventCode.OK, detail)
            self.leader.send(
                request.response_channel,
                codecs.NEW_LEADER_EVENT.encode(
                    leadership_term_id=self.leadership_term_id,
                    cluster_session_id=session_id,
                    leader_member_id=self.leader_id,
                    ingress_endpoints=self.endpoint_text,
                ),
            )

    # The client

    def client_process(self) -> tuple[SimulatedProcess, WorldTransport]:
        self._client_count += 1
        process = SimulatedProcess(self, f"10.0.1.{self._client_count}", f"client{self._client_count}")
        self._processes.append(process)
        return process, WorldTransport(self, process)

    def client(self, **options: Any) -> ClusterClient:
        """`options` are arguments of ClusterClient, or fields of its settings."""
        process, transport = self.client_process()
        endpoints = options.pop("ingress_endpoints", self.endpoints)
        names = [field.name for field in fields(ClientSettings) if field.name in options]
        options["settings"] = ClientSettings(**{name: options.pop(name) for name in names})
        return ClusterClient(endpoints, f"aeron:udp?endpoint={process.address}:0", transport=transport, **options)

    def run(self, client: ClusterClient, until: Any, steps_max: int = 400_000) -> None:
        """Polls until the condition holds; asserts that it does."""
        for _ in range(steps_max):
            if until():
                return
            client.poll()
        raise AssertionError(f"not reached in {steps_max} steps: state={client.state}")

    def close(self) -> None:
        for process in [*self.members, *self._processes]:
            process.close()


class RealWorld(SessionWorld):
    """One member on loopback, in real time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        super().__init__(1)

    def _make_seams(self, seed: int) -> None:
        self.clock = SystemClock()

    def host(self, address: str) -> DatagramNetwork:
        return UdpNetwork()

    def make_memory(self) -> MemoryProvider:
        return FileMemoryProvider()

    def address(self, member_id: int) -> str:
        return "127.0.0.1"

    def pass_time(self, delta_ns: int) -> None:
        """It passes by itself."""

    stopping = False

    def step_until_stopped(self) -> None:
        """For a thread: the member beside a client that waits."""
        while not self.stopping:
            self.step()
            self.members[0].driver.park(self.clock.now(), 200_000)

    def run(self, client: ClusterClient, until: Any, steps_max: int = 400_000) -> None:
        for _ in range(steps_max):
            if until():
                return
            self.step()
            if client.poll() == 0:
                client.park(STEP_NS / 1e9)
        raise AssertionError(f"not reached in {steps_max} steps: state={client.state}")


class WorldTransport(ClientTransport):
    """Every duty cycle of the client is a step of the world; parking lets time pass."""

    def __init__(self, world: SessionWorld, process: SimulatedProcess) -> None:
        super().__init__(process.client, world.clock)
        self._world = world

    def drive(self) -> int:
        self._world.step()
        return int(self._world.clock.now())

    def park(self, timeout_ns: int) -> None:
        self._world.step(min(timeout_ns, 1_000_000))

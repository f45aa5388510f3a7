"""The door put together: the listening socket, its connections, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

from ordo.gateway.doors.connection_places import ConnectionPlaces
from ordo.gateway.doors.descriptors import connections_left
from ordo.gateway.doors.door import Door
from ordo.gateway.doors.tls import tls_context
from ordo.gateway.kafka.broker_calls import BrokerCalls
from ordo.gateway.kafka.caller import Caller
from ordo.gateway.kafka.connection import ByteBudget, Connection
from ordo.gateway.kafka.door_lease import DoorLease
from ordo.gateway.kafka.group_calls import GroupCalls
from ordo.gateway.kafka.groups.groups import Groups
from ordo.gateway.kafka.record_calls import RecordCalls
from ordo.gateway.kafka.sessions import ClusterSessions
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_readers import TopicReaders
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.gateway.kafka.wire.compression import find_lack
from ordo.gateway.kafka.wire.frames import FrameStream
from ordo.gateway.kafka.wire.messages import Api, Request
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.open_files import raise_open_files
from ordo.runtime.reporting.logging import get_logger

Values = Mapping[str, object]
TICK_S = 0.1
HANDSHAKE_TIMEOUT_S = 10.0
"""For TLS. A connection counts, and has a place, from its end on."""
DESCRIPTORS_OF_DOOR, DESCRIPTORS_OF_SESSION, DESCRIPTORS_OF_READER = 128, 16, 8
Answer = Callable[[Caller, Request], Awaitable[Values]]


class RequestCalls:
    """Passes each request to what carries it out."""

    def __init__(
        self, settings: KafkaSettings, sessions: ClusterSessions, topics: TopicTable, readers: TopicReaders
    ) -> None:
        members = Groups(lambda: uuid4().hex)
        self.lease = lease = DoorLease(settings, sessions, members)
        records, broker = RecordCalls(settings, topics, readers), BrokerCalls(settings, topics, lease)
        self.groups = groups = GroupCalls(members, lease)
        self._answers: Mapping[Api, Answer] = {
            Api.PRODUCE: lambda caller, one: records.produce(caller, one.body),
            Api.FETCH: lambda caller, one: records.fetch(caller, one.body),
            Api.LIST_OFFSETS: lambda caller, one: records.list_offsets(caller, one.body),
            Api.METADATA: lambda caller, one: broker.metadata(caller, one.body, one.version),
            Api.CREATE_TOPICS: lambda caller, one: broker.create_topics(caller, one.body),
            Api.INIT_PRODUCER_ID: lambda caller, one: broker.init_producer_id(caller, one.body),
            Api.DESCRIBE_CONFIGS: lambda caller, one: broker.describe_configs(caller, one.body),
            Api.FIND_COORDINATOR: lambda caller, one: broker.find_coordinator(caller, one.body, one.version),
            Api.JOIN_GROUP: lambda caller, one: groups.join(caller, one.body, one.version),
            Api.SYNC_GROUP: lambda caller, one: groups.sync(one.body),
            Api.HEARTBEAT: lambda caller, one: _now(groups.heartbeat(one.body)),
            Api.LEAVE_GROUP: lambda caller, one: _now(groups.leave(one.body)),
            Api.OFFSET_COMMIT: lambda caller, one: groups.commit(caller, one.body),
            Api.OFFSET_FETCH: lambda caller, one: groups.fetch_offsets(caller, one.body),
            Api.DESCRIBE_GROUPS: lambda caller, one: groups.describe(caller, one.body),
            Api.LIST_GROUPS: lambda caller, one: groups.list(caller, one.body),
            Api.DELETE_GROUPS: lambda caller, one: groups.delete(caller, one.body),
        }

    async def answer(self, caller: Caller, request: Request) -> Values:
        """Return the values of the response. Raises OrdoError where the connection has to end."""
        return await self._answers[request.api](caller, request)


async def _now(values: Values) -> Values:
    return values


class KafkaDoor(Door):
    """`async with KafkaDoor(settings) as door`; belongs to one event loop."""

    name = "kafka"

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings)
        self._settings = settings
        self._sessions = ClusterSessions(settings)
        self._budget = ByteBudget(settings.requests_bytes_max)
        self._connections: set[asyncio.Task[Any]] = set()
        self._places = ConnectionPlaces(0, 0)
        self._refused = 0
        self._server: asyncio.Server | None = None
        self._readers: TopicReaders | None = None
        self._calls: RequestCalls | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    async def open(self) -> None:
        """See Door.open."""
        settings = self._settings
        self._places = _places(settings, raise_open_files())
        context = tls_context(settings)
        self._readers = TopicReaders(settings)
        self._calls = RequestCalls(settings, self._sessions, TopicTable(), self._readers)
        host, _, port = settings.listen.rpartition(":")
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: FrameStream(self._accept),
                host.strip("[]"),
                int(port),
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S if context else None,
            )
        except OSError as error:
            raise ConfigurationError(f"--listen {settings.listen}: {error.strerror or error}") from None
        self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"
        registered = settings.registered_address(self._server.sockets[0].getsockname()[1])
        self._tasks = [
            asyncio.create_task(self._tick(self._calls)),
            asyncio.create_task(self._calls.lease.run(registered)),
            asyncio.create_task(self._calls.lease.watch()),
        ]
        if lack := find_lack():  # clients are told a code alone
            get_logger().warning("kafka.compression", trouble=lack)

    async def _tick(self, calls: RequestCalls) -> None:
        while True:
            calls.groups.tick()
            await asyncio.sleep(TICK_S)

    def _accept(self, stream: FrameStream) -> None:
        host = _host_of(stream)
        if self._is_ending or not self._has_place(host):
            stream.transport.abort()
            return
        task = asyncio.create_task(self._connect(stream))
        self._connections.add(task)
        task.add_done_callback(lambda _: self._end(task, stream, host))

    def _has_place(self, host: str) -> bool:
        """Take a place for a connection; one line of the log for each time that twice as many have been refused."""
        if self._places.take(host):
            return True
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:
            get_logger().warning("kafka.connection-refused", peer=host, open=len(self._places), refused=self._refused)
        return False

    def _end(self, task: asyncio.Task[None], stream: FrameStream, host: str) -> None:
        """Close a connection, whose task may have been cancelled before it began."""
        self._connections.discard(task)
        self._places.give_back(host)
        stream.close()

    async def _connect(self, stream: FrameStream) -> None:
        assert self._calls is not None
        connection = Connection(self._settings, self._sessions, self._budget, self._calls, stream)
        try:
            await connection.serve()
        except (OrdoError, OSError, TimeoutError) as error:
            get_logger().warning("kafka.connection-ended", peer=_host_of(stream), trouble=str(error)[:200])
        except asyncio.CancelledError:
            pass  # the door stops

    async def close(self) -> None:
        """See Door.close."""
        self._is_ending = True
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks, self._tasks = self._tasks, []
        for one in [*tasks, *self._connections]:
            one.cancel()
        await asyncio.gather(*tasks, *self._connections, return_exceptions=True)
        if self._calls is not None:
            await self._calls.lease.end()
        if self._readers is not None:
            self._readers.close()
        self._sessions.close()


def _host_of(stream: FrameStream) -> str:
    """Return the address from which a client comes; empty for one that is gone already."""
    peer = stream.transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _places(settings: KafkaSettings, limit: int) -> ConnectionPlaces:
    """Return the places of a process that may open `limit` files. Raises ConfigurationError where they are too few."""
    own = DESCRIPTORS_OF_DOOR + DESCRIPTORS_OF_SESSION * settings.sessions_max
    own += DESCRIPTORS_OF_READER * settings.readers_max
    left = connections_left(limit, own, "sessions and readers", "--sessions-max or --readers-max")
    places_max = min(settings.connections_max, left)
    return ConnectionPlaces(places_max, settings.address_connections_max or max(places_max // 2, 1))


async def run(settings: KafkaSettings) -> None:
    """Run a door until SIGTERM or SIGINT."""
    await KafkaDoor(settings).run_until_signal()

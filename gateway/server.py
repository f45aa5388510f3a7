"""A gateway: the gRPC server, its services, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ordo.gateway.callers.bounds import Bounds, CallPlaces
from ordo.gateway.callers.round_trips import RoundTrips
from ordo.gateway.callers.sessions import GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.doors.descriptors import WATCHES_MAX, share_out
from ordo.gateway.doors.door import Door
from ordo.gateway.doors.settings import read_file
from ordo.gateway.services.administration import AdministrationCalls
from ordo.gateway.services.archive_calls import ArchiveCalls
from ordo.gateway.services.archive_visits import ArchiveVisits
from ordo.gateway.services.consume_streams import ConsumeStreams
from ordo.gateway.services.consumer_calls import ConsumerCalls
from ordo.gateway.services.operations import Operations
from ordo.gateway.services.sequencer_calls import SequencerCalls
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.open_files import raise_open_files
from ordo.runtime.reporting.logging import get_logger
from ordo.service_api import ordo_pb2, ordo_pb2_grpc

if TYPE_CHECKING:
    from ordo.gateway.console.server import Console

HEALTH_INTERVAL_S = 0.2
CALLER_PING_INTERVAL_MS = 5_000
"""Callers may ping twice as often as gRPC's libraries let them (10 s); two pings that come sooner are put up with."""
PING_INTERVAL_MS = 30_000
PING_TIMEOUT_MS = 20_000
HANDSHAKE_TIMEOUT_MS = 10_000
"""A connection that has not said by then that it speaks HTTP/2 is closed."""
SERVICES = tuple(service.full_name for service in ordo_pb2.DESCRIPTOR.services_by_name.values())
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Gateway(Door):
    """`async with Gateway(settings) as gateway`; belongs to one event loop."""

    name = "gateway"

    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(settings)
        self._settings = settings
        self._stopping = asyncio.Event()
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._sessions: GatewaySessions | None = None
        self._watch: asyncio.Task[None] | None = None
        self._console: Console | None = None

    async def open(self) -> None:
        """See Door.open."""
        settings = self._settings
        visits = settings.subscriptions_max + settings.archive_calls_max + (WATCHES_MAX if settings.console else 0)
        shares = share_out(raise_open_files(), settings.sessions_max + 1, visits)
        server = grpc.aio.server(options=_server_options(settings, shares.callers))
        host = settings.listen.rpartition(":")[0]
        try:
            if settings.certificate:
                port = server.add_secure_port(settings.listen, _server_credentials(settings))
            else:
                port = server.add_insecure_port(settings.listen)
        except RuntimeError as error:
            raise ConfigurationError(f"--listen {settings.listen}: {error}") from None
        self.address = f"{host}:{port}"
        self._sessions = GatewaySessions(settings)
        bounds = Bounds(settings.requests_max, settings.request_bytes_max)
        round_trips = RoundTrips()
        places = CallPlaces(settings.subscriptions_max, "subscriptions", "--subscriptions-max")
        calls = SequencerCalls(settings, self._sessions, bounds, round_trips, places, self._stopping)
        ordo_pb2_grpc.add_SequencerServicer_to_server(calls, server)  # type: ignore[no-untyped-call]
        operations = Operations(settings)
        ordo_pb2_grpc.add_AdministrationServicer_to_server(AdministrationCalls(operations), server)  # type: ignore[no-untyped-call]
        streams = ConsumeStreams(settings, self._sessions, places, self._stopping)
        ordo_pb2_grpc.add_ConsumersServicer_to_server(ConsumerCalls(operations, streams), server)  # type: ignore[no-untyped-call]
        archive_visits = ArchiveVisits(settings, self._stopping)
        ordo_pb2_grpc.add_ArchivesServicer_to_server(ArchiveCalls(archive_visits), server)  # type: ignore[no-untyped-call]
        await self._tell_health(NOT_SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        self._server = server
        await server.start()
        if settings.console:
            await self._start_console(settings, round_trips, shares.console, places)
        self._watch = asyncio.create_task(self._watch_leader(self._sessions))

    async def _start_console(
        self, settings: GatewaySettings, round_trips: RoundTrips, connections: int, places: CallPlaces
    ) -> None:
        from ordo.gateway.console.server import Console
        from ordo.gateway.watching.watchers import Watchers

        assert self._sessions is not None
        watchers = Watchers(settings, self._sessions, places, self._stopping)
        self._console = Console(settings, round_trips, connections, watchers)
        await self._console.start()
        get_logger().info("gateway.console", address=self._console.address)

    async def _watch_leader(self, sessions: GatewaySessions) -> None:
        told = NOT_SERVING
        while True:
            status = SERVING if sessions.is_leader_reachable else NOT_SERVING
            if status != told:
                await self._tell_health(status)
                get_logger().info("gateway.health", serving=status == SERVING)
                told = status
            await asyncio.sleep(HEALTH_INTERVAL_S)

    async def _tell_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", *SERVICES):
            await self._health.set(service, status)

    async def close(self) -> None:
        """Refuse new calls, wait `grace_s` for those under way, and close the sessions. Idempotent."""
        server, self._server = self._server, None
        self._stopping.set()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._console is not None:
            await self._console.stop()
            self._console = None
        if server is not None:
            await self._health.enter_graceful_shutdown()
            await server.stop(self._settings.grace_s)
        if self._sessions is not None:
            self._sessions.close()


def _server_options(settings: GatewaySettings, connections_max: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
        ("grpc.http2.settings_timeout", HANDSHAKE_TIMEOUT_MS),
        ("grpc.max_receive_message_length", settings.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", int(settings.workers > 1)),
        # Callers' pings: gRPC's own default of one in 5 minutes ends quiet subscriptions of careful callers.
        ("grpc.http2.min_ping_interval_without_data_ms", CALLER_PING_INTERVAL_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # The gateway's pings: a caller whose machine is gone frees what it holds, also when it is sent nothing.
        ("grpc.keepalive_time_ms", PING_INTERVAL_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _server_credentials(settings: GatewaySettings) -> grpc.ServerCredentials:
    pair = read_file(settings.key), read_file(settings.certificate)
    if not settings.client_ca:
        return grpc.ssl_server_credentials([pair])
    return grpc.ssl_server_credentials([pair], read_file(settings.client_ca), require_client_auth=True)


async def run(settings: GatewaySettings, on_started: Callable[[], object] = lambda: None) -> None:
    """Run a gateway until SIGTERM or SIGINT; `on_started` is called when it serves."""
    await Gateway(settings).run_until_signal(on_started)

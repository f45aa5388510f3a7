"""A web server behind bounded connections, as the console has them, without a cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from ordo.gateway.console.connections import Connections


@asynccontextmanager
async def served_behind(
    add_routes: Callable[[web.Application], object],
    connections_max: int,
    *,
    sweep_interval_s: float,
    runner_options: dict[str, Any] | None = None,
    **timeouts: float,
) -> AsyncIterator[Connections]:
    """Serve what `add_routes` adds, swept as the console sweeps it; `timeouts` are those of `Connections`."""
    made: list[Connections] = []

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        made[0].begin(request.protocol)
        try:
            return await handler(request)
        finally:
            made[0].end(request.protocol)

    async def sweep() -> None:
        while True:
            await asyncio.sleep(sweep_interval_s)
            made[0].close_silent()

    app = web.Application(middlewares=[note])
    add_routes(app)
    runner = web.AppRunner(app, access_log=None, **(runner_options or {}))
    await runner.setup()
    assert runner.server is not None
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    made.append(Connections(listener, runner.server, connections_max, **timeouts))
    made[0].start(None)
    sweeper = asyncio.create_task(sweep())
    try:
        yield made[0]
    finally:
        sweeper.cancel()
        made[0].stop()
        await runner.cleanup()

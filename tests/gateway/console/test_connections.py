"""Connections to the console that keep silent or are too many, and what they leave to others. No cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ordo.gateway.console.connections import ADDRESS_SHARE, Connections
from ordo.gateway.doors.descriptors import CALLER_CONNECTIONS_MAX, CONSOLE_CONNECTIONS_MAX, share_out
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.open_files import raise_open_files
from tests.gateway.console.served import served_behind
from tests.patience import patient

BEGUN = b"GET / HTTP/1.1\r\nHost: localhost\r\nX"
"""34 bytes of a header that never ends."""
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT_S = patient(0.2)
WRITERS: list[asyncio.StreamWriter] = []
"""Kept, since one that is forgotten closes its connection."""


@asynccontextmanager
async def served(
    connections_max: int, handler: Callable[[web.Request], Awaitable[web.Response]] | None = None
) -> AsyncIterator[Connections]:
    """A web server behind bounded connections with short timeouts."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    def add_routes(app: web.Application) -> None:
        app.router.add_get("/", handler or answer)

    async with served_behind(
        add_routes,
        connections_max,
        sweep_interval_s=SHORT_S / 4,
        header_timeout_s=SHORT_S,
        idle_timeout_s=SHORT_S,
    ) as connections:
        try:
            yield connections
        finally:
            while WRITERS:
                WRITERS.pop().close()


async def nobody_left(connections: Connections) -> None:
    """Returns once those who kept silent are cut off."""
    async with asyncio.timeout(patient(30)):
        while len(connections):
            await asyncio.sleep(0.01)


async def connect(connections: Connections, text: bytes, source: str = "127.0.0.1") -> asyncio.StreamReader:
    host, port = connections._listener.getsockname()
    reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
    writer.write(text)
    WRITERS.append(writer)
    return reader


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is closed."""
    try:
        return await asyncio.wait_for(reader.read(), patient(10))
    except ConnectionError:
        return b""


def test_a_thousand_silent_connections_leave_room_for_others_and_are_closed() -> None:
    assert raise_open_files() > 1_200

    async def run() -> None:
        async with served(64) as connections:
            hogs = [await connect(connections, BEGUN) for _ in range(1_004)]
            assert connections.refused > 0 and len(connections) <= 64 // ADDRESS_SHARE == 16
            answered = await connect(connections, WHOLE, "127.0.0.3")
            assert (await asyncio.wait_for(answered.readline(), patient(5))).startswith(b"HTTP/1.1 200")
            assert [await end_of(one) for one in hogs].count(b"") == len(hogs)
            await nobody_left(connections)
            again = await connect(connections, WHOLE)
            assert (await asyncio.wait_for(again.readline(), patient(5))).startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_many_addresses_together_have_no_more_than_all() -> None:
    async def run() -> None:
        async with served(8) as connections:
            readers = [await connect(connections, BEGUN, f"127.0.0.{number + 2}") for number in range(40)]
            assert len(connections) <= 8
            assert [await end_of(one) for one in readers].count(b"") == 40

    asyncio.run(run())


def test_a_request_under_way_is_not_cut_off_and_a_silent_keeper_is() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(3 * SHORT_S)
        return web.Response(text="late")

    async def run() -> None:
        async with served(8, slow) as connections:
            text = await end_of(await connect(connections, WHOLE))
            assert text.startswith(b"HTTP/1.1 200") and text.endswith(b"late")  # closed by the server, after its time

    asyncio.run(run())


def test_whoever_does_not_take_the_answer_is_cut_off() -> None:
    async def much(_: web.Request) -> web.Response:
        return web.Response(body=bytes(16 << 20))

    async def run() -> None:
        async with served(8, much) as connections:
            with socket.create_connection(connections._listener.getsockname()) as browser:
                await asyncio.get_running_loop().sock_sendall(browser, WHOLE)
                while len(connections) == 0:
                    await asyncio.sleep(0.01)
                await nobody_left(connections)

    asyncio.run(run())


def test_descriptors_are_shared_out_by_purpose() -> None:
    assert share_out(1 << 20, 65, 42) == (CALLER_CONNECTIONS_MAX, CONSOLE_CONNECTIONS_MAX)
    callers, console = share_out(1_024, 65, 42)
    assert (callers, console) == (71, 23)
    with pytest.raises(ConfigurationError, match=r"may open 256 files, .* need 930 of them: raise the limit"):
        share_out(256, 65, 42)

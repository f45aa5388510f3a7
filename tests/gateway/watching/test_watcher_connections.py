"""What watchers do to the connections they came by: tokens stay out of the logs, and descriptors come back."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ordo.gateway.console.connections import ADDRESS_SHARE, Connections
from ordo.gateway.watching import channels, watchers
from ordo.gateway.watching.pages import WatchPages
from ordo.gateway.watching.watched_items import Polled, WatchedItem
from ordo.gateway.watching.watchers import Ending, Watcher
from tests.gateway.console.served import served_behind
from tests.patience import patient

CONNECTIONS_MAX = 8
TOKEN = "t" * 40
TOKEN_TEXT = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
CLOSING_TIMEOUT_S = 0.5
SOCKET_HEAD = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
TEXT_FRAME = b"\x81\x82" + bytes(4) + b"hi"
"""Masked, with a mask of zeros."""


class EndlessItems:
    """Polls of 100 KB."""

    place: int | None = 1

    def poll(self) -> Polled:
        return Polled([WatchedItem(number, '"' + "x" * 10_000 + '"') for number in range(1, 11)], 10)

    async def catch_up(self) -> None:
        pass

    def keep_alive(self) -> None:
        pass

    def close(self) -> None:
        pass


class AnyWatchers:
    """Lets everybody in."""

    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    async def watch(self, wanted: object, who: Any, channel: Any) -> Ending:
        self.tokens.append(who.credentials)
        return await Watcher(EndlessItems(), channel, lambda: None).run()


@asynccontextmanager
async def served(admitted: AnyWatchers, closing_timeout_s: float = CLOSING_TIMEOUT_S) -> AsyncIterator[Connections]:
    """The pages of watchers behind bounded connections."""
    pages = WatchPages(admitted, lambda _: None, {})  # type: ignore[arg-type]
    options = {"handler_cancellation": True, "shutdown_timeout": 0.1}
    timeouts = {"idle_timeout_s": 3_600, "closing_timeout_s": closing_timeout_s}
    async with served_behind(
        pages.add_to, CONNECTIONS_MAX, sweep_interval_s=0.05, runner_options=options, **timeouts
    ) as connections:
        yield connections


async def connect(connections: Connections, head: bytes) -> socket.socket:
    """A client that has asked for the log, and takes what is sent only if it is read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, connections._listener.getsockname())
    await loop.sock_sendall(client, b"GET /api/log HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
    return client


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(30)):
        while not is_so():
            await asyncio.sleep(0.01)


async def answer_to(head: bytes, admitted: AnyWatchers) -> bytes:
    """The header of the answer, and the body of a refusal."""
    async with served(admitted) as connections:
        with await connect(connections, head) as client:
            found = b""
            while b"\r\n\r\n" not in found or (b" 400 " in found and not found.endswith(b"}")):
                part = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 4_096), patient(10))
                assert part, found
                found += part
            return found


# Tokens


@pytest.mark.parametrize("more", [b"", b"Authorization: Bearer x\r\n"])
def test_a_token_without_the_protocol_is_refused_and_nobody_logs_it(
    more: bytes, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    admitted = AnyWatchers()
    offered = f"Sec-WebSocket-Protocol: bearer.{TOKEN_TEXT}\r\n".encode()
    head, _, body = asyncio.run(answer_to(SOCKET_HEAD + offered + more, admitted)).partition(b"\r\n\r\n")
    assert b" 400 " in head and admitted.tokens == []
    error = json.loads(body)["error"]
    assert "must offer ordo.v1" in error and "\n" not in error
    told = caplog.text + "".join(capsys.readouterr()) + error
    assert TOKEN_TEXT not in told and TOKEN not in told


def test_a_token_beside_the_protocol_is_taken() -> None:
    admitted = AnyWatchers()
    offered = f"Sec-WebSocket-Protocol: ordo.v1, bearer.{TOKEN_TEXT}\r\n".encode()
    assert b" 101 " in asyncio.run(answer_to(SOCKET_HEAD + offered, admitted))
    assert admitted.tokens == [TOKEN.encode()]


def test_a_token_that_is_no_text_is_refused() -> None:
    admitted = AnyWatchers()
    answer = asyncio.run(answer_to(b"Authorization: Bearer \xff\xfe\r\n", admitted))
    assert b" 400 " in answer and b"must be UTF-8" in answer and admitted.tokens == []


# Descriptors


def is_full(one: Any) -> bool:
    return one.transport is not None and one.transport.get_write_buffer_size() > 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "SLOW_TIMEOUT_S", 0.4)
    monkeypatch.setattr(watchers, "KEEP_INTERVAL_S", 0.02)
    monkeypatch.setattr(channels, "END_TIMEOUT_S", 0.2)


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def talk(client: socket.socket) -> None:
    client.send(TEXT_FRAME)


def keep_silent(_: socket.socket) -> None:
    pass


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("head", "act", "ping_s"),
    [
        (b"", half_close, 20.0),
        (b"", keep_silent, 20.0),
        (SOCKET_HEAD, half_close, 20.0),
        (SOCKET_HEAD, talk, 20.0),
        (SOCKET_HEAD, keep_silent, 20.0),
        (SOCKET_HEAD, keep_silent, 0.2),
    ],
    ids=["stream-half-closed", "stream", "socket-half-closed", "socket-talks", "socket", "socket-without-pong"],
)
def test_one_that_takes_nothing_counts_until_its_descriptor_is_given_back_in_time(
    head: bytes, act: Callable[[socket.socket], object], ping_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's end stays open all the while."""
    monkeypatch.setattr(channels, "PING_S", ping_s)

    async def run() -> None:
        async with served(AnyWatchers()) as connections:
            with await connect(connections, head) as client:
                await until(lambda: len(connections) == 1)
                (one,) = connections._open.values()
                await until(lambda: is_full(one))
                act(client)
                await until(lambda: one.transport is not None and one.transport.is_closing())
                assert is_full(one)
                connections.close_silent()
                assert len(connections) == 1, "it has its descriptor, and counts"
                await until(lambda: len(connections) == 0)
                assert one._source.fileno() < 0

    asyncio.run(run())


def test_one_that_is_closing_takes_the_place_of_its_address() -> None:
    async def run() -> None:
        async with served(AnyWatchers(), patient(60)) as connections:
            clients = [await connect(connections, b"") for _ in range(CONNECTIONS_MAX // ADDRESS_SHARE)]
            await until(lambda: len(connections) == 2 and all(is_full(one) for one in connections._open.values()))
            for client in clients:
                client.shutdown(socket.SHUT_WR)
            await until(lambda: all(one.transport and one.transport.is_closing() for one in connections._open.values()))
            (await connect(connections, b"")).close()
            await until(lambda: connections.refused == 1)
            for client in clients:
                client.close()
            await until(lambda: len(connections) == 0)

    asyncio.run(run())

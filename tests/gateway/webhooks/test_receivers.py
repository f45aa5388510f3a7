"""Receivers that are slow, rude, or not there: a post is not taken, and the hook goes on with one line about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ordo.gateway.webhooks.posts import Outcome, Post, Receiver, ReceiverGoneError
from tests.gateway.webhooks.test_posts import ENTRY, SETTINGS
from tests.patience import factor, patient

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
POST = Post.of(ENTRY, "json", "")


async def read_post(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


@asynccontextmanager
async def served(handle: Handle) -> Any:
    """The URL of a server whose connections `handle` has."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/T0/secret"


def send(handle: Handle, count: int = 1, **changes: Any) -> list[Outcome]:
    """The outcomes of so many tries at one server."""

    async def run() -> list[Outcome]:
        async with served(handle) as url:
            settings = replace(SETTINGS, url=url, **({"timeout_s": patient(20)} | changes))
            async with Receiver(settings) as receiver:
                return [await receiver.send(POST) for _ in range(count)]

    return asyncio.run(run())


def answering(*answers: bytes) -> Handle:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_post(reader)
            writer.write(answer)
            await writer.drain()

    return handle


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_connections_are_used_again() -> None:
    assert [one.is_taken for one in send(answering(OK, OK, OK), 3)] == [True] * 3


def test_secrets_and_headers_go_with_each_post() -> None:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_post(reader)
        heads.append(head.lower())
        assert body == POST.body
        writer.write(OK)

    assert send(handle, secrets=[b"x" * 32], headers={"Authorization": "Bearer T"})[0].is_taken
    (head,) = heads
    assert head.startswith(b"post /t0/secret http/1.1")
    for wanted in (b"authorization: bearer t", b"webhook-signature: v1,", b"webhook-timestamp: ", b"webhook-id: "):
        assert head.count(b"\r\n" + wanted) == 1


REDIRECT = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * (1 << 20)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nno\nreally", "status 500"),
        (REDIRECT, "redirect is not followed"),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n", "status 429"),
        (b"nonsense\r\n\r\n", ""),
        (b"", ""),
        (ENDLESS_HEAD, ""),
    ],
    ids=["error", "redirect", "throttled", "nonsense", "closed", "endless head"],
)
def test_what_is_no_success_is_a_failure_in_one_line(answer: bytes, says: str) -> None:
    (outcome,) = send(answering(answer))
    assert not outcome.is_taken
    assert says in outcome.reason
    assert len(outcome.reason) < 400
    assert "\n" not in outcome.reason
    assert "secret" not in outcome.reason
    assert outcome.retry_after_s == (9 if says == "status 429" else 0)


def test_an_endless_answer_is_not_read() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_post(reader)
        writer.write(b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    (outcome,) = send(handle)
    assert outcome.reason.startswith("status 503: xxx")
    assert len(outcome.reason) < 400


def test_silence_is_a_failure() -> None:
    (outcome,) = send(silent, timeout_s=0.05)
    assert outcome.reason == "no answer within 0.05 s"
    assert outcome.was_sent


def test_what_waits_for_a_connection_was_not_sent() -> None:
    """The other side takes the connection, and never says anything in TLS."""

    async def run() -> Outcome:
        async with served(silent) as url:
            secure = replace(SETTINGS, url=url.replace("http", "https"), timeout_s=0.05)
            async with Receiver(secure) as receiver:
                return await receiver.send(POST)

    outcome = asyncio.run(run())
    assert outcome.reason == "no answer within 0.05 s"
    assert not outcome.was_sent


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(-1)


def test_a_connection_that_breaks_after_the_request_may_have_brought_it() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_post(reader)
        writer.transport.abort()

    (outcome,) = send(handle)
    assert not outcome.is_taken
    assert outcome.was_sent


def test_nobody_there_is_a_failure() -> None:
    async def run() -> Outcome:
        async with served(answering()) as url:
            pass
        async with Receiver(replace(SETTINGS, url=url, timeout_s=patient(20))) as receiver:
            return await receiver.send(POST)

    outcome = asyncio.run(run())
    assert not outcome.is_taken
    assert "Connect" in outcome.reason
    assert not outcome.was_sent


def test_a_status_counts_although_its_body_does_not_come() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_post(reader)
        writer.write(b"HTTP/1.1 429 Slow\r\nRetry-After: 9\r\nContent-Length: 10\r\n\r\n")
        await reader.read(-1)

    (outcome,) = send(handle, timeout_s=0.5 * factor())
    assert (outcome.reason, outcome.retry_after_s) == ("status 429", 9)


@pytest.mark.parametrize("length", [0, 10], ids=["whole", "without its body"])
def test_gone_is_said(length: int) -> None:
    with pytest.raises(ReceiverGoneError, match="wants no posts any more") as gone:
        send(answering(b"HTTP/1.1 410 Gone\r\nContent-Length: %d\r\n\r\n" % length))
    assert "secret" not in gone.value.message

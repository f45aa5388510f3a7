"""Closes, or forks, an object for asyncio while it is in use, and prints what came of it.

python -m tests.ordo.async_closing HOW CASE ENDPOINT

HOW: "thread": another thread is told that it cannot, and has the loop do it; "signal": the handler of SIGTERM has the
loop do it; "fork": a child is refused, and leaves the parent's alone.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from ordo.archive.client.async_client import AsyncArchiveClient
from ordo.archive.client.async_subscription import AsyncPersistentSubscription
from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.consumers.async_consumer import AsyncConsumer, AsyncSharedConsumer
from ordo.follow.topics.async_feeds import AsyncFeedReader
from ordo.follow.topics.feeds import FeedReader
from ordo.runtime.errors import ForkedError, OrdoError, TransportError

ALARM_S = 30
CHILD_STATUS = 7
USE_S = 0.2
Step = Callable[[Any], Awaitable[object]]


async def _request(client: Any) -> object:
    return await client.request(b"1")


async def _take_next(reader: Any) -> object:
    return await anext(reader)


async def _list(archive: Any) -> object:
    return await archive.list_recordings()


def _feed(endpoint: str) -> AsyncFeedReader:
    return AsyncFeedReader(FeedReader([archive_endpoint(endpoint)], "trades", from_position="oldest"))


def _subscription(endpoint: str) -> AsyncPersistentSubscription:
    return AsyncPersistentSubscription.connect(archive_endpoint(endpoint), 0, "aeron:udp?endpoint=127.0.0.1:0", 7)


CASES: dict[str, tuple[Callable[[str], Any], Step]] = {
    "cluster_client": (lambda endpoint: AsyncClusterClient([endpoint]), _request),
    "feed_reader": (_feed, _take_next),
    "consumer": (lambda endpoint: AsyncConsumer([endpoint], "alone-async"), _take_next),
    "shared_consumer": (lambda endpoint: AsyncSharedConsumer([endpoint], "shared-async"), _take_next),
    "archive_client": (lambda endpoint: AsyncArchiveClient.connect(archive_endpoint(endpoint)), _list),
    "persistent_subscription": (_subscription, _take_next),
}


async def use(one: Any, step: Step) -> str:
    """How the use for ever ended."""
    try:
        while True:
            await step(one)
    except StopAsyncIteration:
        return "ended"
    except OrdoError as error:
        return f"{type(error).__name__}: {error.message}"


def close_on_loop(one: Any, loop: asyncio.AbstractEventLoop) -> None:
    """For `call_soon_threadsafe`."""
    closing = one.close()
    if inspect.isawaitable(closing):
        one.closing = loop.create_task(closing)  # type: ignore[arg-type]


def close_here(one: Any) -> None:
    """On a thread that runs no loop, or another one."""
    closing = one.close()
    if inspect.isawaitable(closing):
        asyncio.run(closing)  # type: ignore[arg-type]


async def close_by_thread(one: Any, step: Step) -> None:
    loop, told = asyncio.get_running_loop(), list[str]()

    def close() -> None:
        try:
            close_here(one)
        except TransportError as error:
            told.append(error.message)
        loop.call_soon_threadsafe(close_on_loop, one, loop)

    thread = threading.Timer(USE_S, close)
    thread.start()
    ended = await use(one, step)
    thread.join()
    assert len(told) == 1 and "call_soon_threadsafe" in told[0], told
    print(ended)


async def close_by_signal(one: Any, step: Step) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, close_on_loop, one, loop)
    thread = threading.Timer(USE_S, os.kill, (os.getpid(), signal.SIGTERM))
    thread.start()
    print(await use(one, step))
    thread.join()


async def fork_while_open(one: Any, step: Step) -> None:
    await step(one)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                asyncio.run(step(one))  # type: ignore[arg-type]
            except ForkedError:
                close_here(one)
                status = CHILD_STATUS
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == CHILD_STATUS, status
    for _ in range(3):
        async with asyncio.timeout(10):
            await step(one)
    print("ended")


HOWS = {"thread": close_by_thread, "signal": close_by_signal, "fork": fork_while_open}


async def close(how: str, name: str, endpoint: str) -> None:
    make, step = CASES[name]
    async with make(endpoint) as one:
        await HOWS[how](one, step)


def main() -> None:
    signal.alarm(ALARM_S)
    asyncio.run(close(*sys.argv[1:]))


if __name__ == "__main__":
    main()

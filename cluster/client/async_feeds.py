"""A reader of a feed for asyncio: the same reader, run by the event loop while somebody waits for a message."""

from __future__ import annotations

import asyncio
from typing import Self

from cluster.client.feeds import FeedMessage, FeedReader

CYCLE_INTERVAL_S = 0.010
KEEP_INTERVAL_S = 0.25
"""While nobody waits, its node is still told that the reader is there."""
POLL_INTERVAL_S = 0.001


class AsyncFeedReader:
    """`async for message in reader`, or `async with reader` to close it at once afterwards. Belongs to one event loop.

    Raises what FeedReader raises.
    """

    def __init__(self, reader: FeedReader) -> None:
        self._reader = reader
        self._readable = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def next_sequence(self) -> int | None:
        """As FeedReader.next_sequence, of what was taken from this reader."""
        return self._reader.next_sequence

    @property
    def is_reading(self) -> bool:
        """As FeedReader.is_reading."""
        return self._reader.is_reading

    @property
    def problem(self) -> str:
        """As FeedReader.problem."""
        return self._reader.problem

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedMessage:
        """The next message; ends once this reader was closed."""
        self._open()
        while not self._is_closed:
            self._readable.clear()
            message = self._reader.take()
            if message is not None:
                return message
            await self._wait()
        raise StopAsyncIteration

    async def _wait(self) -> None:
        seconds = POLL_INTERVAL_S if self._reader.descriptor is None else CYCLE_INTERVAL_S
        try:
            async with asyncio.timeout(seconds):
                await self._readable.wait()
        except TimeoutError:
            pass

    def _open(self) -> None:
        if self._loop is not None or self._is_closed:
            return
        self._loop = asyncio.get_running_loop()
        if self._reader.descriptor is not None:
            self._loop.add_reader(self._reader.descriptor, self._readable.set)
        self._keep()

    def _keep(self) -> None:
        assert self._loop is not None
        self._reader.keep_alive()
        self._timer = self._loop.call_later(KEEP_INTERVAL_S, self._keep)

    def close(self) -> None:
        """Ends the subscription. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and self._reader.descriptor is not None:
            self._loop.remove_reader(self._reader.descriptor)
        self._readable.set()
        self._reader.close()

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

"""A reader for asyncio that never blocks: the event loop runs it while a task waits for its next item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from ordo.runtime.agents.use import Origin
from ordo.runtime.event_loops import demand_own_loop

Item = TypeVar("Item")
ItemOut = TypeVar("ItemOut", covariant=True)
CYCLE_INTERVAL_S = 0.010
KEEP_INTERVAL_S = 0.25
"""How often a reader works while nobody waits for it, so that its node still knows that it is there."""
POLL_INTERVAL_S = 0.001


class PolledReader(Protocol[ItemOut]):
    """The reader that an AsyncReader runs."""

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable when `take` would find something; None with the driver of another process."""

    def take(self) -> ItemOut | None:
        """Return the next item, or None when nothing has come."""

    def close(self) -> None: ...


class AsyncReader(Generic[Item]):
    """A reader to iterate over with `async for item in reader`, or to close with `async with reader`.

    Belongs to one event loop.

    Raises what the reader raises.
    """

    def __init__(self, reader: PolledReader[Item], keep_alive: Callable[[], object]) -> None:
        """Run `reader`; `keep_alive` runs a duty cycle that hands out nothing."""
        self._origin = Origin(type(self).__name__)
        self._polled = reader
        self._keep_alive = keep_alive
        self._readable = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """Return the next item; end the iteration once this reader was closed."""
        self._origin.check()
        self._open()
        while not self._is_closed:
            self._readable.clear()
            item = self._polled.take()
            if item is not None:
                return item
            await self._wait()
        raise StopAsyncIteration

    async def _wait(self) -> None:
        seconds = POLL_INTERVAL_S if self._polled.descriptor is None else CYCLE_INTERVAL_S
        try:
            async with asyncio.timeout(seconds):
                await self._readable.wait()
        except TimeoutError:
            pass

    def _open(self) -> None:
        if self._loop is not None or self._is_closed:
            return
        self._loop = asyncio.get_running_loop()
        if self._polled.descriptor is not None:
            self._loop.add_reader(self._polled.descriptor, self._readable.set)
        self._keep()

    def _keep(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(KEEP_INTERVAL_S, self._keep)
        self._keep_alive()

    def close(self) -> None:
        """End the reader.

        Idempotent. Belongs to the event loop's thread: elsewhere it raises TransportError while the loop runs.
        In a process that was forked from the reader's it does nothing.
        """
        if self._is_closed or self._origin.is_forked:  # whose selector is the parent's, too
            return
        demand_own_loop(self._loop, self._origin.what)
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and self._polled.descriptor is not None:
            self._loop.remove_reader(self._polled.descriptor)
        self._readable.set()
        self._polled.close()

    async def __aenter__(self) -> Self:
        self._origin.check()
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

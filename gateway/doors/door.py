"""A door: it begins, serves until it is told to stop, and ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Self

from ordo.gateway.doors.settings import DoorSettings
from ordo.runtime.agents.use import Origin
from ordo.runtime.garbage import settle_collector
from ordo.runtime.reporting.logging import get_logger


class Door:
    """`async with Door(settings) as door`; belongs to one event loop.

    A door has `open`, which serves from then on, and `close`, which also ends what `open` left half begun.
    """

    name = "door"
    """What its log's events are called by."""

    def __init__(self, settings: DoorSettings) -> None:
        self._origin = Origin(self.name)
        self._common = settings
        self.address = settings.listen
        """host:port that it listens on."""

    async def open(self) -> None:
        """Listen, and connect to the cluster. Raises ConfigurationError."""
        raise NotImplementedError

    async def close(self) -> None:
        """End what is under way, and the sessions with the cluster. Idempotent."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to serve.

        Raises ConfigurationError for an address that cannot be listened on, and for files that are wrong, that of the
        door's own token among them.
        """
        self._origin.check()
        self._common.client.read_credentials()
        await self.open()

    async def stop(self) -> None:
        """End. Idempotent; in a process that was forked from the door's it does nothing."""
        if not self._origin.is_forked:
            await self.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run_until_signal(self, on_started: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGTERM or SIGINT; `on_started` is called when it does."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        log = get_logger()
        async with self:
            settle_collector()
            log.info(f"{self.name}.started", address=self.address, endpoints=list(self._common.endpoints))
            on_started()
            await stopped.wait()
            log.info(f"{self.name}.stopping")
        log.info(f"{self.name}.ended", address=self.address)

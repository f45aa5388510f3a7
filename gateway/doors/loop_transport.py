"""A door's way to the cluster: one transport with its own driver, run by the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ordo.gateway.doors.settings import DoorSettings
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption

CYCLE_INTERVAL_S = 0.010
BUSY_INTERVAL_S = 0.001


class LoopTransport:
    """Calls `work` when there is something to receive, when it is asked to, and after the seconds that it returns."""

    def __init__(self, name: str, users_max: int, settings: DoorSettings, work: Callable[[], float]) -> None:
        """`users_max`: how many sessions or readers may use it at a time."""
        self._loop = asyncio.get_running_loop()
        self._work = work
        encryption = Encryption.chosen(settings.client.key_file, settings.client.trusted_file)
        self.transport = ClientTransport.embedded(name, users_max, encryption)
        self._timer: asyncio.TimerHandle | None = None
        self._will_run = self.is_closed = False
        assert self.transport.descriptor is not None, "an embedded driver says when there is something to receive"
        self._descriptor = self.transport.descriptor
        self._loop.add_reader(self._descriptor, self._cycle)

    def run_soon(self) -> None:
        """Have `work` called at the end of this turn of the loop."""
        if not self._will_run and not self.is_closed:
            self._will_run = True
            self._loop.call_soon(self._cycle)

    def _cycle(self) -> None:
        self._will_run = False
        if self.is_closed:
            return
        pause_s = self._work()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(pause_s, self._cycle)

    def close(self, before: Callable[[], object]) -> None:
        """Call `before`, which closes what uses the transport, and close it. Idempotent.

        In a process that was forked from the door's it does nothing: the loop's selector is the parent's, too.
        """
        if self.is_closed or self.transport.use.is_forked:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._descriptor)
        before()
        self.transport.close()

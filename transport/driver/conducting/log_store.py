"""Creates the logs of a driver's streams, and lets go of them."""

from __future__ import annotations

from typing import Any

from ordo.runtime.errors import StorageFullError
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.driver.conducting.disposal import LogDisposal
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.streams.logbuffer import LogBuffers, create_log, log_length_bytes

BYTES_MAPPED = 35


class LogStore:
    """The logs of one driver, in files of one page size whose pages are allocated before they are used, or are not."""

    def __init__(
        self, memory: MemoryProvider, disposal: LogDisposal, system: SystemCounters, page_size: int, reserves: bool
    ) -> None:
        self._memory = memory
        self.disposal = disposal
        self._system = system
        self._page_size = page_size
        self._reserves = reserves

    def create(self, path: str, start_position: int | None = None, **fields: Any) -> LogBuffers:
        """Create a log, and allocate its first pages from a position on; from its tail on without one.

        Where there is no room, the logs that wait to be freed make some; raises StorageFullError if there were none.
        """
        try:
            return self._create(path, start_position, fields)
        except StorageFullError:
            if not self.disposal.flush():
                raise
        return self._create(path, start_position, fields)

    def _create(self, path: str, start_position: int | None, fields: dict[str, Any]) -> LogBuffers:
        log = create_log(self._memory, path, page_size=self._page_size, **fields)
        self._system.add(BYTES_MAPPED, log_length_bytes(log.term_length, self._page_size))
        if self._reserves:
            try:
                log.start_reserving(log.tail_position if start_position is None else start_position)
            except StorageFullError:
                self.free(log)
                raise
        return log

    def free(self, log: LogBuffers) -> None:
        """Let go of a log; its memory and file are freed off the duty cycle."""
        self._system.add(BYTES_MAPPED, -log_length_bytes(log.term_length, self._page_size))
        self.disposal.discard(log.detach())

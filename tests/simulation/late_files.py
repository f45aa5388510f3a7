"""Files of logs that are there some duty cycles after they were asked for, as those of a real driver's thread are."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordo.transport.driver.conducting.log_files import FileRequest, LogFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from ordo.runtime.native.memory import MemoryProvider
    from ordo.transport.driver.media_driver import MediaDriver

CYCLES = (0, 0, 1, 3, 10, 60)
"""How many duty cycles of the driver a file may take; those behind it wait as well."""


class LateFiles(LogFiles):
    """Makes files in order, in the driver's duty cycles. `count_fault` hears of those not there at once."""

    def __init__(
        self, driver: MediaDriver, memory: MemoryProvider, random: Random, count_fault: Callable[[str], object]
    ) -> None:
        super().__init__(memory, is_threaded=False)
        self._driver = driver
        self._random = random
        self._count_fault = count_fault
        self._asked_for: deque[FileRequest] = deque()
        self._cycles_left = 0
        self._resume = driver.conductor.resume
        driver.conductor.resume = self._turn  # type: ignore[method-assign]
        driver.context.logs.files = self

    def make(self, request: FileRequest) -> None:
        if not self._asked_for:
            self._cycles_left = self._random.choice(CYCLES)
            if not self._cycles_left:
                super().make(request)
                return
        self._count_fault("a log's file is late")
        self._asked_for.append(request)
        self._driver.on_logs_made()

    def _turn(self) -> int:
        """Make what is due, then have the conductor go on; it looks again as long as a file is not there."""
        if self._asked_for:
            self._cycles_left -= 1
            while self._asked_for and self._cycles_left <= 0:
                super().make(self._asked_for.popleft())
                self._cycles_left = self._random.choice(CYCLES)
            self._driver.on_logs_made()
        return int(self._resume())

    def flush(self) -> None:
        while self._asked_for:
            super().make(self._asked_for.popleft())

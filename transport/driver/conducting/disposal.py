"""Gives the memory and files of ended streams back, on a thread of its own.

A log of three terms that was written takes the kernel milliseconds to free, and a client that ends leaves all of its
streams at once. The duty cycle only says which; their number is bounded, and beyond it, or without a thread, the caller
frees them itself.
"""

from __future__ import annotations

import threading
from collections import deque

from ordo.runtime.agents.at_exit import end_at_exit
from ordo.runtime.native.memory import Memory, MemoryProvider

WAITING_MAX = 1024
"""Logs that wait for the thread."""


class LogDisposal:
    """The logs of one driver that are to be freed. Without a thread, as in simulations, each is freed at once."""

    def __init__(self, memory: MemoryProvider, *, is_threaded: bool) -> None:
        self._memory = memory
        self._is_threaded = is_threaded
        self._waiting: deque[Memory] = deque()
        self._failed: deque[BaseException] = deque(maxlen=WAITING_MAX)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._is_closed = False

    def discard(self, log: Memory) -> None:
        """Free a log's memory and its file, soon. Raises only where this is done at once."""
        if not self._is_threaded or self._is_closed or len(self._waiting) >= WAITING_MAX:
            self._free(log)
            return
        with self._changed:
            self._waiting.append(log)
            if self._thread is None:
                self._forget_exit = end_at_exit(self.close)
                self._thread = threading.Thread(target=self._run, name="log disposal", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> bool:
        """Wait until everything is freed; return whether there was anything."""
        with self._changed:
            had_any = bool(self._waiting) or self._is_busy
            self._changed.wait_for(lambda: not self._waiting and not self._is_busy)
        return had_any

    def take_errors(self) -> list[BaseException]:
        """Return what went wrong on the thread since the last call."""
        return [self._failed.popleft() for _ in range(len(self._failed))]

    def close(self) -> None:
        """Free what is left, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._forget_exit()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
                if not self._waiting:
                    return
                log = self._waiting.popleft()
                self._is_busy = True
            try:
                self._free(log)
            except Exception as error:  # the driver records it; what follows is freed all the same
                self._failed.append(error)

    def _free(self, log: Memory) -> None:
        path = log.path
        log.close()
        self._memory.remove(path)

"""How a program without a duty cycle waits until it is told to end."""

from __future__ import annotations

import signal
import threading
import time

LOOK_INTERVAL_S = 0.1
"""The kernel may give a signal to any thread, and Python calls its handler on the main thread, once that runs: one that
slept without an end would never learn of the signal."""


class EndSignals:
    """SIGTERM and SIGINT, or a call of `set`, tell this process to end. To be made on the main thread."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ended.set())

    def set(self) -> None:
        """End the wait, from any thread."""
        self._ended.set()

    @property
    def is_set(self) -> bool:
        """Whether the process was told to end."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the process is told to end, or for so long; return whether it was told."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ended.is_set():
            left_s = LOOK_INTERVAL_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                break
            self._ended.wait(min(left_s, LOOK_INTERVAL_S))
        return self._ended.is_set()

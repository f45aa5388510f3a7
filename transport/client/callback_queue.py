"""The callbacks that a client owes its user: called from the duty cycle, never from within another callback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

CALLBACKS_PER_CYCLE_MAX: Final = 256


class CallbackQueue:
    """Callbacks in the order in which they came up."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, handler: Callable[..., object], *arguments: object) -> None:
        """Have a handler called later."""
        self._waiting.append((handler, arguments))

    def run(self) -> int:
        """Call handlers, a bounded number, and return how many; none from within a handler."""
        if self._is_running:
            return 0
        self._is_running = True
        count = 0
        try:
            while self._waiting and count < CALLBACKS_PER_CYCLE_MAX:
                handler, arguments = self._waiting.popleft()
                count += 1
                handler(*arguments)
        finally:
            self._is_running = False
        return count

    def clear(self) -> None:
        self._waiting.clear()

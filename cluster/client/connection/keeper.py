"""Keeps a client's session alive on a thread of its own, while the application does something else."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable


class SessionKeeper:
    """Calls `keep`, a method of the client, at intervals, until it is closed or the client is deleted."""

    def __init__(self, keep: Callable[[], None], interval_s: float) -> None:
        self._stopped = threading.Event()
        arguments = weakref.WeakMethod(keep), self._stopped, interval_s
        self._thread = threading.Thread(target=_keep, args=arguments, name="ordo-session-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _keep(method: weakref.WeakMethod[Callable[[], None]], stopped: threading.Event, interval_s: float) -> None:
    while not stopped.wait(interval_s):
        keep = method()
        if keep is None:
            return
        keep()
        del keep

"""A media driver as a separate process: serves every client that finds its folder, until it is told to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from ordo.runtime.native.file_access import choose_file_access
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads


def run_driver(config: MediaDriverSettings, events: Callable[..., object]) -> None:
    """Run until SIGTERM, SIGINT, or a client's command to end. `events` takes one canonical line for start and end.

    Raises DriverInUseError when a driver lives in the folder.
    """
    choose_file_access(config.file_access)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    driver = MediaDriver(config, on_termination=ended.set)
    driver.on_start()
    try:
        DriverThreads(driver).start()
        events("driver.started", directory=config.directory, threading_mode=config.threading_mode)
        ended.wait()
        events("driver.ended", directory=config.directory, by="command" if driver.terminated else "signal")
    finally:
        driver.on_close()

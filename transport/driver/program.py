"""A media driver as a separate process: serves every client that finds its folder, until it is told to end."""

from __future__ import annotations

from collections.abc import Callable

from ordo.runtime.end_signals import EndSignals
from ordo.runtime.native.file_access import choose_file_access
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads


def run_driver(config: MediaDriverSettings, events: Callable[..., object]) -> None:
    """Run until SIGTERM, SIGINT, or a client's command to end. `events` takes one canonical line for start and end.

    Raises DriverInUseError when a driver lives in the folder.
    """
    choose_file_access(config.file_access)
    end = EndSignals()
    driver = MediaDriver(config, on_termination=end.set)
    driver.on_start()
    try:
        DriverThreads(driver).start()
        events("driver.started", directory=config.directory, threading_mode=config.threading_mode)
        end.wait()
        events("driver.ended", directory=config.directory, by="command" if driver.terminated else "signal")
    finally:
        driver.on_close()

"""The driver's folder: only one live driver, nothing left from a dead one (cnc-and-driver-protocol.md §1, §7.1)."""

from __future__ import annotations

from ordo.runtime.errors import DriverInUseError, OrdoError
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.error_log import read_errors
from ordo.runtime.native.memory import MemoryProvider
from ordo.runtime.processes import is_process_alive
from ordo.transport.control.cnc import FILE_NAME, map_cnc, try_open_cnc
from ordo.transport.driver.channels.settings import MediaDriverSettings

WAKE_SOCKET_NAME = "wake.sock"


def claim(config: MediaDriverSettings, memory: MemoryProvider, clock: Clock) -> list[str]:
    """Create the folder again. Raises DriverInUseError if a live driver has it.

    Returns the errors that a dead driver left in its error log, so that the new one can report them.
    """
    left: list[str] = []
    path = f"{config.directory}/{FILE_NAME}"
    if not config.delete_directory_on_start:
        _refuse_if_active(config, memory, clock, path)
        left = _errors_of(memory, path)
    memory.remove_directory(config.directory)
    for folder in ("", "/publications", "/images"):
        memory.make_directory(config.directory + folder)
    return left


def _refuse_if_active(config: MediaDriverSettings, memory: MemoryProvider, clock: Clock, path: str) -> None:
    active = try_open_cnc(memory, path, clock.epoch_ms(), config.driver_timeout_ns // 1_000_000)
    if active is None:
        return
    pid = active.pid
    active.close()
    if config.pid_is_local and not is_process_alive(pid):
        return
    raise DriverInUseError(
        f"a media driver is running in {config.directory} (pid {pid}): stop it, choose another folder, or wait "
        f"{config.driver_timeout_ns // 1_000_000_000} s if it has just died"
    )


def _errors_of(memory: MemoryProvider, path: str) -> list[str]:
    try:
        dead = map_cnc(memory, path)
    except OrdoError:
        return []
    if dead is None:
        return []
    try:
        return [observation.text for observation in read_errors(dead.error_log)]
    finally:
        dead.close()

"""Access to a driver's folder, and orders to its driver: Ordo's or Aeron's, running or dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ordo.runtime.errors import StorageMissingError, TransportError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.driver_link import DriverLink
from ordo.transport.control.cnc import FILE_NAME, CncFile, map_cnc
from ordo.transport.control.commands import TerminateDriver
from ordo.transport.driver.flow.loss_report import FILE_NAME as LOSS_FILE_NAME
from ordo.transport.driver.flow.loss_report import LossEntry, read_losses
from ordo.transport.inspection.stream_positions import StreamCounter, stream_counters

_LINK_TIMEOUT_NS = 2_000_000_000
_HEARTBEAT_TIMEOUT_MS = 10_000


@contextmanager
def open_folder(directory: Path) -> Iterator[CncFile]:
    """Map the `cnc.dat` of a driver, read only. Raises StorageMissingError when there is none, or not yet."""
    cnc = map_cnc(FileMemoryProvider(), str(directory / FILE_NAME), writable=False)
    if cnc is None and (directory / FILE_NAME).exists():
        raise StorageMissingError(
            f"no driver in {directory}: {FILE_NAME} is not whole: its driver is about to start, or it was cut"
        )
    if cnc is None:
        raise StorageMissingError(f"no driver in {directory}: {FILE_NAME} is not there; give a driver's folder")
    try:
        yield cnc
    finally:
        cnc.close()


def is_alive(cnc: CncFile, now_ms: int) -> bool:
    """Return whether the driver of the folder has shown signs of life lately; `now_ms` since 1970."""
    heartbeat_ms = cnc.to_driver.consumer_heartbeat_ms
    return bool(heartbeat_ms >= now_ms - _HEARTBEAT_TIMEOUT_MS)


def read_streams(directory: Path) -> list[StreamCounter]:
    """Return the stream counters of a driver, by stream and session."""
    with open_folder(directory) as cnc:
        return stream_counters(CountersReader(cnc.counters_metadata, cnc.counters_values))


def read_loss_report(directory: Path) -> list[LossEntry]:
    """Return what each image of a driver has lost, in the order of first losses.

    Raises StorageMissingError without a file.
    """
    memory = FileMemoryProvider().open(str(directory / LOSS_FILE_NAME), False)
    try:
        return read_losses(memory)
    finally:
        memory.close()


def driver_pid(directory: Path) -> int:
    """Return the id of the process that made the folder, whether or not it lives."""
    with open_folder(directory) as cnc:
        return cnc.pid


def terminate_driver(directory: Path, token: bytes, timeout_s: float) -> None:
    """Ask the driver to end, and return when it has.

    Raises DriverTimeoutError when no driver lives there, TransportError when it does not end: it may refuse.
    """
    clock = SystemClock()
    link = DriverLink(
        str(directory), clock=clock, memory=FileMemoryProvider(), invoker=None, timeout_ns=_LINK_TIMEOUT_NS
    )
    try:
        waker = link.open_waker()
        command = TerminateDriver(link.ring.next_correlation_id(), link.ring.next_correlation_id(), token)
        link.send(command, (lambda: None) if waker is None else waker.wake_parked)
        deadline_ns = clock.now() + int(timeout_s * 1_000_000_000)
        while link.silence() is None:
            if clock.now() > deadline_ns:
                raise TransportError(
                    f"the driver in {directory} lives {timeout_s:g} s after it was asked to end: it refuses such "
                    "commands, or this token (`ordo errors --dir` says which)"
                )
            link.idle()
    finally:
        link.close()

"""A client's way to its driver: the counters-and-control file, the command ring, waiting, and waking it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from ordo.runtime.agents.idle import BackoffIdle
from ordo.runtime.agents.wake import ParkFlag, Waker
from ordo.runtime.errors import DriverTimeoutError
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import CountersReader
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.control import commands
from ordo.transport.control.cnc import FILE_NAME, CncFile, try_open_cnc

INVOCATIONS_MAX: Final = 1_000
POLL_INTERVAL_NS: Final = 1_000_000
DRIVER_PARK_FLAG_TYPE_ID: Final = 1004
WAKE_SOCKET_NAME: Final = "wake.sock"
NULL_COUNTER_ID: Final = -1
STAND_STILL_NS: Final = 2_500_000_000
"""How old a live driver's heartbeat may be; drivers set it once a second."""


class DriverLink:
    """A connection to a driver, made by the constructor.

    Raises DriverTimeoutError when no live driver shows up within `timeout_ns`.

    `invoker()` is one duty cycle of a driver in this thread; without one the driver is elsewhere, and may park.
    """

    def __init__(
        self,
        directory: str,
        *,
        clock: Clock,
        memory: MemoryProvider,
        invoker: Callable[[], object] | None,
        timeout_ns: int,
    ) -> None:
        self.directory = directory
        self.clock = clock
        self.invoker = invoker
        self.timeout_ns = timeout_ns
        self._idle = BackoffIdle(park_ns_max=POLL_INTERVAL_NS)
        self._heartbeat_ms = 0
        self._heartbeat_seen_ns = 0
        self._wake_socket: socket.socket | None = None
        self.cnc = self._connect(memory)
        self.ring = self.cnc.to_driver
        self.receiver = self.cnc.receiver()
        self.counters = CountersReader(self.cnc.counters_metadata, self.cnc.counters_values)

    def _connect(self, memory: MemoryProvider) -> CncFile:
        """Wait for a live driver (cnc-and-driver-protocol.md §2.2)."""
        path = os.path.join(self.directory, FILE_NAME)
        timeout_ms = self.timeout_ns // 1_000_000
        for _ in self.attempts(self.clock.now() + self.timeout_ns):
            found = try_open_cnc(memory, path, self.clock.epoch_ms(), timeout_ms)
            if found is not None:
                return found
        raise DriverTimeoutError(
            f"no live driver in {self.directory!r} within {timeout_ms} ms; start one, or correct the folder"
        )

    def open_waker(self) -> Waker | None:
        """Return the waker of a driver elsewhere that parks.

        None while it has no flag, and for one in this thread.
        """
        if self.invoker is not None:
            return None
        counter_id = self.counters.find(DRIVER_PARK_FLAG_TYPE_ID)
        path = os.path.join(self.directory, WAKE_SOCKET_NAME)
        if counter_id == NULL_COUNTER_ID or not os.path.exists(path):
            return None
        self._wake_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._wake_socket.connect(path)
        return Waker(ParkFlag(self.counters.counter(counter_id)), self._wake_socket.fileno())

    def idle(self) -> None:
        """Let the driver work: run it when it is in this thread, otherwise yield the core for a moment."""
        if self.invoker is not None:
            self.invoker()
        else:
            self._idle.after(0)

    def attempts(self, deadline_ns: int) -> Iterator[int]:
        """Yield until the deadline, letting the driver work in between.

        Where time stands still while the driver works in this thread (simulation), INVOCATIONS_MAX is the end.
        """
        started_ns = self.clock.now()
        self._idle.after(1)
        yield 0
        for attempt in count(1):
            now_ns = self.clock.now()
            stands_still = now_ns == started_ns and self.invoker is not None and attempt > INVOCATIONS_MAX
            if now_ns >= deadline_ns or stands_still:
                return
            self.idle()
            yield attempt

    def send(self, command: commands.Command, wake: Callable[[], object]) -> None:
        """Write a command. Raises DriverTimeoutError when the ring stays full."""
        payload = commands.encode(command)
        for _ in self.attempts(self.clock.now() + self.timeout_ns):
            if self.ring.write(commands.type_id_of(command), payload):
                wake()
                return
        raise DriverTimeoutError(f"the driver in {self.directory!r} takes no commands: its ring is full")

    def silence(self) -> str | None:
        """Return what is wrong with the driver's heartbeat, or None when it is alive.

        A driver in this thread is never late.
        """
        heartbeat_ms = self.ring.consumer_heartbeat_ms
        if heartbeat_ms == commands.NULL_ID:
            return "was closed"
        now_ns = self.clock.now()
        if heartbeat_ms != self._heartbeat_ms:
            self._heartbeat_ms, self._heartbeat_seen_ns = heartbeat_ms, now_ns
        age_ms = self.clock.epoch_ms() - heartbeat_ms
        stands_still = now_ns - self._heartbeat_seen_ns > STAND_STILL_NS  # else it may be the clock that was stepped
        is_late = self.invoker is None and stands_still and age_ms > self.timeout_ns // 1_000_000
        return f"has been silent for {age_ms} ms" if is_late else None

    def fault(self) -> DriverTimeoutError | None:
        """Return the error of a driver that has ended or is silent, or None while it is alive."""
        silence = self.silence()
        if silence is None:
            return None
        return DriverTimeoutError(f"the driver in {self.directory!r} {silence}; start it again")

    def close(self) -> None:
        """Close the socket. The mapping goes with the last counter, publication or image that refers to it."""
        if self._wake_socket is not None:
            self._wake_socket.close()
            self._wake_socket = None

"""The transport under a client of a cluster or an archive: a media driver of its own, or the one of another process."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.runtime.agents.use import Use
from ordo.runtime.native.clock import Clock, SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_folders import ClientFolder
from ordo.transport.client.shared_ports import SharedPorts
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from ordo.transport.driver.media_driver import MediaDriver

RECEIVER_WINDOW_BYTES = 1 << 20
SOCKET_BUFFER_BYTES = 2 << 20
COUNTERS_VALUES_BYTES = 64 << 10
COUNTERS_BYTES_OF_CLIENT = 64 * 128
BUFFER_BYTES = 128 << 10
TERM_LENGTH_BYTES = 1 << 20
IMAGE_TERM_LENGTH_MAX = 1 << 30
"""As long as a term may be: what can be published can be recorded, and what was recorded can be replayed."""
IMAGE_MEMORY_PER_SOURCE_MAX = 4 << 30
"""One image of the longest terms."""
IMAGE_LIVENESS_TIMEOUT_NS = 5_000_000_000
CLIENT_LIVENESS_TIMEOUT_NS = 24 * 3600 * 1_000_000_000
"""The liveness timeout of a private driver: it lives and dies with its one client, which may be quiet for any time."""
POLL_INTERVAL_S = 0.0002
KEEP_INTERVAL_NS = 100_000_000
REST_NS = 1_000_000
LONG_REST_NS = 10_000_000
LONG_REST_AFTER_NS = 100_000_000


class ClientTransport:
    """A transport client and, when it has one, its driver; everything runs on the caller's thread.

    It belongs to the process that made it, and has one thread at a time: see `use`.
    """

    def __init__(
        self,
        client: TransportClient,
        clock: Clock,
        driver: MediaDriver | None = None,
        descriptor: int | None = None,
        random: RandomSource | None = None,
        socket_buffer_bytes: int = 0,
    ) -> None:
        """Take over a client.

        `driver` runs on this thread and ends with `close`; without one, the driver is another process.

        `descriptor` becomes readable when there is something to receive; None when nothing can say so. The driver's
        sockets have room for `socket_buffer_bytes`; 0: nobody knows.
        """
        self.client = client
        self.clock = clock
        self.descriptor = descriptor
        self.random = random or RandomSource()
        self.ports = SharedPorts(client, socket_buffer_bytes)
        self.use = Use(client.name or "transport")
        """Entered by every call of whatever runs on this transport; ForkedError and TransportError come from it."""
        self._driver = driver
        self._folder: ClientFolder | None = None
        self._keepers: list[weakref.WeakMethod[Callable[[int], object]]] = []
        self._next_keep_ns = 0

    def add_keeper(self, keep: Callable[[int], object]) -> None:
        """Register a method that `keep_sessions` calls, for as long as its object lives."""
        self._keepers.append(weakref.WeakMethod(keep))

    def keep_sessions(self, now_ns: int) -> None:
        """Let every client that shares this transport say that it is still there, however long it is not called."""
        if now_ns < self._next_keep_ns:
            return
        self._next_keep_ns = now_ns + KEEP_INTERVAL_NS
        keepers = [(reference, reference()) for reference in self._keepers]
        self._keepers = [reference for reference, keep in keepers if keep is not None]
        for _, keep in keepers:
            if keep is not None:
                keep(now_ns)

    @classmethod
    def connect(cls, aeron_dir: str, name: str = "cluster-client") -> ClientTransport:
        """Connect to the driver of another process. Raises DriverTimeoutError when there is none in the folder."""
        clock = SystemClock()
        client = TransportClient(aeron_dir, clock=clock, memory=FileMemoryProvider(), name=name)
        return cls(client, clock)

    @classmethod
    def embedded(
        cls,
        name: str = "cluster-client",
        clients_max: int = 1,
        encryption: Encryption | None = None,
        clock: Clock | None = None,
    ) -> ClientTransport:
        """Start a driver of its own in a new folder below /dev/shm, which is removed when it is closed.

        `clients_max` clients may share it: each needs some of its counters. Without `encryption` it goes by the
        environment (`Encryption.chosen`). `clock` is the machine's by default.
        """
        from ordo.transport.driver.channels.settings import MediaDriverSettings
        from ordo.transport.driver.media_driver import MediaDriver
        from ordo.transport.udp import UdpNetwork, granted_receive_buffer_bytes

        clock = clock or SystemClock()
        memory = FileMemoryProvider()
        folder = ClientFolder()
        config = MediaDriverSettings(
            directory=folder.path,
            delete_directory_on_start=True,
            to_driver_capacity=BUFFER_BYTES,
            to_clients_capacity=BUFFER_BYTES,
            counters_values_length=max(COUNTERS_VALUES_BYTES, clients_max * COUNTERS_BYTES_OF_CLIENT),
            error_log_length=BUFFER_BYTES,
            loss_report_length=BUFFER_BYTES,
            term_length=TERM_LENGTH_BYTES,
            ipc_term_length=TERM_LENGTH_BYTES,
            receiver_window=RECEIVER_WINDOW_BYTES,
            image_term_length_max=IMAGE_TERM_LENGTH_MAX,
            image_memory_per_source_max=IMAGE_MEMORY_PER_SOURCE_MAX,
            socket_rcvbuf=SOCKET_BUFFER_BYTES,
            socket_sndbuf=SOCKET_BUFFER_BYTES,
            image_liveness_timeout_ns=IMAGE_LIVENESS_TIMEOUT_NS,
            client_liveness_timeout_ns=CLIENT_LIVENESS_TIMEOUT_NS,
            publication_unblock_timeout_ns=CLIENT_LIVENESS_TIMEOUT_NS + 1_000_000_000,
            **(encryption or Encryption.chosen()).driver_settings(),
        )
        random = RandomSource()
        network = UdpNetwork()
        driver = MediaDriver(config, clock=clock, network=network, memory=memory, random=random)
        try:
            driver.on_start()
            client = TransportClient(
                config.directory, clock=clock, memory=memory, invoker=lambda: driver.do_work(clock.now()), name=name
            )
        except BaseException:
            driver.on_close()
            folder.close()
            raise
        buffer_bytes = granted_receive_buffer_bytes(SOCKET_BUFFER_BYTES)
        transport = cls(client, clock, driver, network.fileno(), socket_buffer_bytes=buffer_bytes)
        transport._folder = folder
        return transport

    @property
    def driver(self) -> MediaDriver | None:
        """The driver that runs on this thread, or None if another process runs it."""
        return self._driver

    def drive(self) -> int:
        """Run one duty cycle; return the time at which it began (monotonic ns)."""
        with self.use:
            now_ns = self.clock.now()
            self.client.do_work(now_ns)  # before its driver, which looks at the client's heartbeat
            if self._driver is not None:
                self._driver.do_work(now_ns)
            else:
                self.client.wake_driver()
            self.keep_sessions(now_ns)
        return int(now_ns)

    def park(self, timeout_ns: int) -> None:
        """Wait until something comes in or the timeout passes.

        The wait is short when the driver is another process.
        """
        with self.use:
            if self._driver is not None:
                self._driver.park(self.clock.now(), timeout_ns)
                return
        time.sleep(min(POLL_INTERVAL_S, timeout_ns / 1e9))

    def rest(self, quiet_since_ns: int) -> None:
        """Wait between two duty cycles: 1 ms at most, and 10 ms after 100 ms without work.

        Incoming data ends the wait early; what is due by time may be late by as much.
        """
        is_quiet = self.clock.now() - quiet_since_ns >= LONG_REST_AFTER_NS
        self.park(LONG_REST_NS if is_quiet else REST_NS)

    @property
    def is_closed(self) -> bool:
        return self.use.is_closed

    def close(self, before: Callable[[], object] | None = None) -> None:
        """Give up the client and, when it has one, the driver, after `before`: the end of what runs on them.

        Idempotent. Any thread may call it, and the handler of a signal: a call that is under way ends first, and the
        next one raises TransportError. In a process that was forked from this transport's it does nothing.
        """
        if not self.use.is_closed:
            self.use.mark_closed()
            self.use.end(lambda: self._release(before))

    def _release(self, before: Callable[[], object] | None) -> None:
        try:
            if before is not None:
                before()
        finally:
            self._release_client()

    def _release_client(self) -> None:
        try:
            self.client.close()
        finally:
            if self._driver is not None:
                self._driver.on_close()
                self._driver = None
            if self._folder is not None:
                self._folder.close()
                self._folder = None

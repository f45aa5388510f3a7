"""An archive as a process of its own: its media driver, archive and control conductor on one thread."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ordo.archive.archive import LOW_SPACE_BYTES_DEFAULT, Archive
from ordo.archive.control.access import full_access
from ordo.archive.control.conductor import ControlConductor
from ordo.archive.control.settings import ControlSettings
from ordo.archive.inspection.counters import ArchiveCounters
from ordo.archive.inspection.mark_file import MarkFile
from ordo.archive.inspection.recording_events import RecordingEvents
from ordo.archive.protocol.codes import EVENTS_STREAM_ID_DEFAULT
from ordo.archive.segments.segments import SEGMENT_LENGTH_DEFAULT
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.agents.idle import BackoffIdle
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.io.storage import FileStorage, SyncQueue
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.random import RandomSource
from ordo.runtime.security.authentication import Authenticator
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import IMAGE_MEMORY_PER_SOURCE_MAX, IMAGE_TERM_LENGTH_MAX
from ordo.transport.driver.channels.directory import WAKE_SOCKET_NAME
from ordo.transport.driver.channels.settings import MediaDriverSettings, default_directory
from ordo.transport.driver.conducting.context import TYPE_PARK_FLAG
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.secure.settings import Encryption
from ordo.transport.udp import UdpNetwork

SPINS_MAX = 100
PARK_NS_MAX = 1_000_000
"""How long a parked server waits before it polls a foreign client on the same driver, which does not wake it."""


@dataclass(frozen=True)
class ArchiveServerSettings:
    """The settings of an archive server: its folder, and how it serves clients. Lengths in bytes."""

    directory: str
    control: ControlSettings
    aeron_dir: str = field(default_factory=default_directory)
    """The folder of the media driver; programs on this machine use it for streams over IPC."""
    own_driver: bool = True
    """False: uses the driver, Ordo's or Aeron's, that runs in `aeron_dir` instead of its own."""
    archive_id: int | None = None
    """Given to clients; None: drawn at each start."""
    sync: str = "commit"
    segment_length_bytes: int = SEGMENT_LENGTH_DEFAULT
    low_space_bytes: int = LOW_SPACE_BYTES_DEFAULT
    events_channel: str = ""
    """Where it tells of its recordings; empty: nowhere."""
    events_stream_id: int = EVENTS_STREAM_ID_DEFAULT
    encryption: Encryption = field(default_factory=Encryption)
    """What its own driver encrypts with."""
    authenticator: Authenticator | None = None
    """Who is let in, and what they may do; None: everybody, everything."""


class ArchiveServer:
    """An archive and its control conductor on the caller's thread, and a media driver unless another process has one.

    Raises OrdoError subclasses with one clear line when a folder is in use or a port is taken; nothing is left over
    then. `on_error` hears of what clients did wrong, and of what failed in the background.
    """

    def __init__(self, config: ArchiveServerSettings, on_error: Callable[[Exception], object]) -> None:
        self.config = config
        self._on_error = on_error
        self._clock = SystemClock()
        self._closers: list[Callable[[], Any]] = []
        self._is_ending = False
        self._random = RandomSource()
        self.mark_file: MarkFile | None = None
        self.counters: ArchiveCounters | None = None
        self.events: RecordingEvents | None = None
        self.driver: MediaDriver | None = None
        self._backoff = BackoffIdle(park_ns_max=PARK_NS_MAX)
        """Between cycles beside a driver elsewhere, whose sockets are not this thread's to park on."""
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        if self.config.own_driver:
            self.driver = self._start_driver()
            self._closers.append(self.driver.on_close)
        self._connect(self.driver)
        self._build_archive()
        self._show()

    def _start_driver(self) -> MediaDriver:
        config = self.config
        driver = MediaDriver(
            MediaDriverSettings(
                directory=config.aeron_dir,
                pid_is_local=True,
                image_term_length_max=IMAGE_TERM_LENGTH_MAX,
                image_memory_per_source_max=IMAGE_MEMORY_PER_SOURCE_MAX,
                **config.encryption.driver_settings(),
            ),
            clock=self._clock,
            network=UdpNetwork(),
            memory=FileMemoryProvider(),
            random=self._random.child("driver"),
        )
        driver.on_start()
        return driver

    def _connect(self, driver: MediaDriver | None) -> None:
        self.client = TransportClient(
            self.config.aeron_dir,
            clock=self._clock,
            memory=FileMemoryProvider(),
            invoker=None if driver is None else lambda: driver.do_work(self._clock.now()),
            name="archive",
            error_handler=self._on_error,
        )
        self._closers.append(self.client.close)

    def _build_archive(self) -> None:
        config = self.config
        queue = self._make_sync_queue()
        self._closers.append(queue.close)
        self.archive = Archive(
            config.directory,
            storage=FileStorage(open_lmdb),
            clock=self._clock,
            client=self.client,
            sync=config.sync,
            segment_length_bytes=config.segment_length_bytes,
            sync_queue=queue,
            archive_id=config.archive_id,
            low_space_bytes=config.low_space_bytes,
            counts_padding=True,
        )
        self._closers.append(self.archive.close)
        self.conductor = ControlConductor(
            self.archive,
            self.client,
            self._random.secret("control"),
            config.control,
            access=full_access(config.authenticator),
            on_error=self._count_error,
        )
        self.conductor.on_start()

    def _show(self) -> None:
        """Show the archive's activity to tools and listeners."""
        config = self.config
        control = config.control
        self.mark_file = MarkFile(
            config.directory,
            self._clock,
            archive_id=self.archive.archive_id,
            control=(control.control_channel or "", control.control_stream_id),
            local_control=(control.local_control_channel or "", control.local_control_stream_id),
            events=(config.events_channel, config.events_stream_id),
            aeron_dir=config.aeron_dir,
        )
        self._closers.append(self.mark_file.close)
        self.counters = ArchiveCounters(self.client, self.archive)
        self._closers.append(self.counters.close)
        if config.events_channel:
            self.events = RecordingEvents(self.client, self.archive, config.events_channel, config.events_stream_id)
            self._closers.append(self.events.close)
        self._closers.append(self.conductor.on_close)

    def _make_sync_queue(self) -> SyncQueue:
        """Make the sync queue, in which a completed sync wakes the parked driver of this thread."""
        storage = FileStorage(open_lmdb)
        if self.driver is None:
            return storage.sync_queue()
        park_flag = ParkFlag(self.client.counters.counter(self.client.counters.find(TYPE_PARK_FLAG)))
        path = os.path.join(self.config.aeron_dir, WAKE_SOCKET_NAME)
        waker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._closers.append(waker.close)
        waker.connect(path)
        return storage.sync_queue(park_flag, waker.fileno())

    def do_work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done.

        Raises TransportError when the driver, in another process, has ended.
        """
        work_count = self.client.do_work(now_ns)
        self.client.check_open()
        if self.driver is not None:
            work_count += self.driver.do_work(now_ns)
        work_count += self.conductor.do_work(now_ns)
        work_count += self.archive.do_work(now_ns)
        if self.counters is not None:
            work_count += self.counters.work(self.conductor, now_ns)
        if self.mark_file is not None:
            self.mark_file.work()
        if self.counters is not None:
            self.counters.on_cycle(self._clock.now() - now_ns)
        if self.events is not None:
            work_count += self.events.work()
        return work_count

    def _count_error(self, error: Exception) -> None:
        if self.counters is not None:
            self.counters.on_error()
        if self.mark_file is not None:
            self.mark_file.on_error(error)
        self._on_error(error)

    def run(self) -> None:
        """Run duty cycles until `end` is called; idle by spinning a little, then parked on the driver's sockets."""
        spins = 0
        while not self._is_ending:
            now_ns = self._clock.now()
            work_count = self.do_work(now_ns)
            if self.driver is None:
                self._backoff.after(work_count)
                continue
            spins = 0 if work_count else spins + 1
            if spins > SPINS_MAX:
                self.driver.park(now_ns, PARK_NS_MAX)

    def end(self) -> None:
        """Make `run` return; may be called from a signal handler."""
        self._is_ending = True

    def close(self) -> None:
        """Close everything in reverse order of building; raise the first error when all is closed."""
        failures: list[Exception] = []
        while self._closers:
            try:
                self._closers.pop()()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

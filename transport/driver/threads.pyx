"""The threads of a driver: each runs one or more of its parts, idles and stays on a core as the configuration says."""

import os
import threading

from libc.stdint cimport int32_t, int64_t

from ordo.runtime.native.atomics cimport ordo_load_acquire_i32, ordo_store_release_i32
from ordo.runtime.io.datagram cimport DatagramNetwork
from ordo.runtime.agents.idle cimport IdleStrategy, Parker
from ordo.runtime.agents.wake cimport PARK_SOCKETS
from ordo.transport.driver.media_driver cimport PART_CONDUCTOR, PART_RECEIVER, PART_SENDER, PARTS_ALL, MediaDriver

from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.agents.at_exit import end_at_exit
from ordo.runtime.agents.idle import make_idle

_STOP_TIMEOUT_S = 10.0
_PARTS = {
    "shared": (("driver", PARTS_ALL),),
    "shared-network": (("conductor", PART_CONDUCTOR), ("network", PART_SENDER | PART_RECEIVER)),
    "dedicated": (("conductor", PART_CONDUCTOR), ("sender", PART_SENDER), ("receiver", PART_RECEIVER)),
}


cdef class PartParker(Parker):
    """Rests until a socket of the part has something, a writer rings, or something is due without being told."""
    cdef MediaDriver driver
    cdef DatagramNetwork network
    cdef int parts

    def __init__(self, MediaDriver driver not None, int parts):
        self.driver = driver
        self.network = driver.part_network(parts)
        self.parts = parts
        self.wakes = True

    cdef void prepare(self) noexcept nogil:
        if self.parts & PART_SENDER:
            self.driver.park_flag.announce(PARK_SOCKETS)

    cdef void park(self, int64_t timeout_ns) noexcept nogil:
        cdef int64_t now_ns = self.driver.clock.nano_time()
        cdef int64_t left_ns = self.driver.part_deadline(self.parts, now_ns) - now_ns
        if left_ns > timeout_ns:
            left_ns = timeout_ns
        if left_ns > 0 and not self.driver.part_is_busy(self.parts):
            self.network.wait(left_ns)
        self.cancel()

    cdef void cancel(self) noexcept nogil:
        if self.parts & PART_SENDER:
            self.driver.park_flag.awake()


cdef class DriverThread:
    """One thread over `parts` of a driver."""
    cdef MediaDriver driver
    cdef IdleStrategy idle
    cdef int parts
    cdef int32_t is_stopped
    cdef object cpu
    cdef object thread

    def __init__(self, MediaDriver driver not None, str name, int parts):
        config = driver.config
        leader = "conductor" if parts & PART_CONDUCTOR else "sender" if parts & PART_SENDER else "receiver"
        self.driver = driver
        self.parts = parts
        self.idle = make_idle(getattr(config, f"{leader}_idle"), PartParker(driver, parts), config.idle_park_max_ns)
        self.cpu = config.core(leader)
        self.thread = threading.Thread(target=self._run, name=f"ordo-{name}", daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        ordo_store_release_i32(&self.is_stopped, 1)

    def join(self, double timeout_s):
        """Wait for the thread to end; return whether it has in time."""
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def _run(self):
        if self.cpu is not None:
            os.sched_setaffinity(0, {self.cpu})
        with nogil:
            self._loop()

    cdef void _loop(self) noexcept nogil:
        while not ordo_load_acquire_i32(&self.is_stopped):
            self.idle.idle(self.driver.turn(self.parts, self.driver.clock.nano_time()), -1)


class DriverThreads:
    """The threads of a driver that has been started (`on_start`): `start` lets them run, its `on_close` ends them.

    While they run nobody else may work the driver. They end with the interpreter, where they would meet what it has
    taken down already.
    """

    def __init__(self, MediaDriver driver not None):
        mode = driver.config.threading_mode
        if mode not in _PARTS:
            raise ConfigurationError(f"threading_mode={mode!r} has no threads, must be one of {', '.join(_PARTS)}")
        self._driver = driver
        self._forget_exit = lambda: None
        self._threads = [DriverThread(driver, name, parts) for name, parts in _PARTS[mode]]

    def start(self):
        self._driver.threads = self
        self._forget_exit = end_at_exit(self._end)
        for thread in self._threads:
            thread.start()

    def close(self):
        """End the threads. Raises TransportError when one does not end."""
        self._forget_exit()
        if not self._end():
            raise TransportError(f"a thread of the driver does not end within {_STOP_TIMEOUT_S:g} s")

    def _end(self):
        """End the threads; return whether all have ended in time."""
        for thread in self._threads:
            thread.stop()
        return all([thread.join(_STOP_TIMEOUT_S) for thread in self._threads])

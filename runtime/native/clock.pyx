"""Injected clocks: nothing outside this module asks the operating system for the time.

Native code calls `nano_time` and `epoch_time_ns`; Python calls `now()`, `epoch_ns()` and `epoch_ms()`.
"""

from ordo.runtime.native.atomics cimport ordo_epoch_ns, ordo_monotonic_ns


cdef class Clock:
    cdef int64_t nano_time(self) noexcept nogil:
        return 0

    cdef int64_t epoch_time_ns(self) noexcept nogil:
        return 0

    def now(self):
        """Return the monotonic time in ns; only differences mean something."""
        return self.nano_time()

    def epoch_ns(self):
        """Return the wall clock in ns since 1970."""
        return self.epoch_time_ns()

    def epoch_ms(self):
        """Return the wall clock in ms since 1970."""
        return self.epoch_time_ns() // 1_000_000

    def quality(self):
        """Return how well the wall clock is known, as a ClockQuality, or None where nothing tells."""
        return None


cdef class SystemClock(Clock):
    """The operating system's CLOCK_MONOTONIC and CLOCK_REALTIME."""

    cdef int64_t nano_time(self) noexcept nogil:
        return ordo_monotonic_ns()

    cdef int64_t epoch_time_ns(self) noexcept nogil:
        return ordo_epoch_ns()

    def quality(self):
        from ordo.runtime.native.kernel_clock import read_clock_quality    # ctypes, which a command has no use for
        return read_clock_quality()


cdef class VirtualClock(Clock):
    """A clock that moves only by `advance`. `epoch_offset_ns` is wall clock minus monotonic time."""

    def __init__(self, int64_t now_ns=0, int64_t epoch_offset_ns=1_700_000_000_000_000_000):
        self.now_ns = now_ns
        self.epoch_offset_ns = epoch_offset_ns

    cdef int64_t nano_time(self) noexcept nogil:
        return self.now_ns

    cdef int64_t epoch_time_ns(self) noexcept nogil:
        return self.now_ns + self.epoch_offset_ns

    def advance(self, int64_t delta_ns):
        """Move both times forward; `delta_ns` is at least 0."""
        if delta_ns < 0:
            raise ValueError(f"delta_ns={delta_ns}, at least 0: monotonic time never goes back")
        self.now_ns += delta_ns

    def step_epoch(self, int64_t delta_ns):
        """Step the wall clock alone, forwards or backwards, as an administrator or NTP would."""
        self.epoch_offset_ns += delta_ns

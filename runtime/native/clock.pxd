"""Injected clocks: nothing outside this module asks the operating system for the time."""

from libc.stdint cimport int64_t

cdef class Clock:
    cdef int64_t nano_time(self) noexcept nogil      # monotonic, ns
    cdef int64_t epoch_time_ns(self) noexcept nogil  # wall clock, ns since 1970

cdef class SystemClock(Clock):
    pass

cdef class VirtualClock(Clock):
    """A clock that only its owner advances; epoch time may be skewed against the monotonic time."""
    cdef int64_t now_ns
    cdef int64_t epoch_offset_ns

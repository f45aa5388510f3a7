"""The broadcast buffer of responses, driver to clients (cnc-and-driver-protocol.md §4)."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.native.memory cimport Memory

cdef enum:
    BROADCAST_TRAILER_LENGTH = 128
    BROADCAST_TAIL_INTENT = 0
    BROADCAST_TAIL = 8
    BROADCAST_LATEST = 16

@cython.final
cdef class BroadcastTransmitter:
    """The one writer. Never waits for a reader."""
    cdef Memory _memory
    cdef uint8_t* buffer
    cdef uint8_t* trailer
    cdef int64_t mask
    cdef readonly int64_t capacity
    cdef readonly int32_t max_message_length
    cdef void _announce(self, int64_t tail_intent) noexcept nogil

@cython.final
cdef class BroadcastReceiver:
    """One reader; it joins at the latest message and counts every time the writer lapped it."""
    cdef Memory _memory
    cdef uint8_t* buffer
    cdef uint8_t* trailer
    cdef int64_t mask
    cdef int64_t cursor
    cdef readonly int64_t capacity
    cdef readonly int64_t lapped_count
    cpdef bint has_message(self) noexcept nogil
    cdef bint _lapped(self) noexcept nogil
    cdef bint _validate(self) noexcept nogil
    cdef void _resync(self) noexcept nogil

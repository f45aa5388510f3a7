"""Counters in Aeron's layout (cnc-and-driver-protocol.md §5): metadata records of 512 bytes, values of 128."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from runtime.memory cimport Memory

cdef class CountersReader:
    """Read access to the counters of one counters file."""
    cdef uint8_t* metadata
    cdef uint8_t* values
    cdef readonly int32_t max_counter_id
    cdef object _owner                                  # keeps the memory alive
    cdef int64_t* address(self, int32_t counter_id) noexcept nogil   # of the value
    cdef int64_t value(self, int32_t counter_id) noexcept nogil      # acquire

cdef class Counter:
    """One counter as an owner or reader: `value` loads with acquire, `set` stores with release."""
    cdef int64_t* address
    cdef readonly int32_t counter_id
    cdef object _owner
    cdef int64_t get(self) noexcept nogil
    cdef void set_release(self, int64_t value) noexcept nogil
    cdef int64_t add(self, int64_t delta) noexcept nogil             # single writer, release; returns the new value
    cdef bint propose_max(self, int64_t value) noexcept nogil
    cpdef bint compare_and_set(self, int64_t expected, int64_t desired)

"""Counters in Aeron's layout (cnc-and-driver-protocol.md §5): metadata records of 512 bytes, values of 128."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.memory cimport Memory

cdef enum:
    COUNTER_METADATA_LENGTH = 512
    COUNTER_VALUE_LENGTH = 128
    COUNTER_KEY_LENGTH_MAX = 112
    COUNTER_LABEL_LENGTH_MAX = 380
    # words of a value, after the value itself
    COUNTER_REGISTRATION_WORD = 1
    COUNTER_OWNER_WORD = 2
    COUNTER_REFERENCE_WORD = 3
    COUNTER_UNUSED = 0
    COUNTER_ALLOCATED = 1
    COUNTER_RECLAIMED = -1

cdef class CountersReader:
    """Read access to the counters of one counters file."""
    cdef uint8_t* metadata
    cdef uint8_t* values
    cdef readonly int32_t max_counter_id
    cdef object _owner                                  # keeps the memory alive
    cdef int64_t* address(self, int32_t counter_id) noexcept nogil   # of the value; NULL outside 0..max_counter_id
    cdef int64_t value(self, int32_t counter_id) noexcept nogil      # acquire; 0 outside
    cdef int32_t state(self, int32_t counter_id) noexcept nogil      # acquire; COUNTER_UNUSED outside
    cdef int64_t registration(self, int32_t counter_id) noexcept nogil  # acquire; 0 outside
    cpdef Counter counter(self, int32_t counter_id)

cdef class CountersManager(CountersReader):
    """The one writer of the metadata, which allocates and frees counters."""
    cdef Clock clock
    cdef readonly int64_t reuse_timeout_ms
    cdef readonly int32_t high_water_mark
    cdef list _freed
    cdef int32_t _next_id(self) except -1
    cdef int32_t _reserved_id                           # up to it, counters have memory
    cdef bint _reserve(self, int32_t counter_id) noexcept
    cdef bint _reserve_range(self, Memory memory, int32_t first_id, int32_t last_id, int32_t record_length) noexcept
    cdef void _write_label(self, uint8_t* record, str label)

cdef class Counter:
    """One counter as an owner or reader: `get` loads with acquire, `set_release` stores with release."""
    cdef int64_t* address
    cdef readonly int32_t counter_id
    cdef object _owner
    cdef int64_t get(self) noexcept nogil
    cdef void set_release(self, int64_t value) noexcept nogil
    cdef int64_t add(self, int64_t delta) noexcept nogil             # single writer, release; returns the new value
    cdef bint propose_max(self, int64_t value) noexcept nogil
    cpdef bint compare_and_set(self, int64_t expected, int64_t desired)

cpdef Counter local_counter(int64_t value=*)

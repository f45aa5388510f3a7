"""Finding a gap in a received stream and deciding when to ask for it (transport-wire.md §6.1)."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from ordo.transport.driver.flow.claims cimport Claims

cdef struct Gap:
    int64_t position
    int64_t length                     # 0: none
    int64_t deadline_ns

cdef class LossDetector:
    cdef Gap active
    cdef readonly bint is_multicast
    cdef readonly bint is_reliable
    cdef int64_t initial_delay_ns
    cdef int64_t retry_delay_ns
    cdef int64_t retry_delay_max_ns
    cdef int64_t next_retry_delay_ns   # of the active gap: doubled with each request
    cdef double backoff_max_ns
    cdef double group_size
    cdef uint64_t random_state
    cdef bint found                    # the last scan found a new or longer gap
    # the gap at `claims.whole`, up to the next span, the high water mark or the end of its term
    cdef void scan(self, Claims claims, int32_t term_length, int64_t high_water, int64_t now_ns) noexcept nogil
    cdef bint due(self, int64_t now_ns) noexcept nogil
    cdef int64_t _delay(self, bint initial) noexcept nogil

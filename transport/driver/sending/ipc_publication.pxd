"""A publication through shared memory only (log-buffer.md §6)."""

from libc.stdint cimport int32_t, int64_t
from ordo.transport.driver.frames.pointers cimport PointerArray
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.streams.logbuffer cimport LogBuffers

cdef class IpcPublication:
    cdef readonly LogBuffers log
    cdef SystemCounters system
    cdef readonly int32_t session_id
    cdef readonly int32_t stream_id
    cdef readonly int64_t registration_id
    cdef readonly int64_t client_id
    cdef readonly bint is_exclusive
    cdef readonly object parameters
    cdef readonly dict counters
    cdef readonly int state
    cdef public int reference_count
    cdef int64_t* position_cell
    cdef int64_t* limit_cell
    cdef readonly int64_t window
    cdef int64_t trip_limit
    cdef int64_t clean_position
    cdef int64_t consumer_position             # of the fastest subscriber; kept when all are gone
    cdef PointerArray subscribers              # their sub-pos cells
    cdef int64_t rejected_until_ns          # 0: subscribers may join
    cdef int64_t state_changed_ns
    cdef int64_t linger_timeout_ns
    cdef int64_t unblock_position
    cdef int64_t unblock_changed_ns
    cdef int64_t unblock_timeout_ns
    cdef int conduct(self, int64_t now_ns) noexcept nogil
    cdef void _consumed(self, int64_t position) noexcept nogil
    cdef bint has_unread(self) noexcept nogil
    cdef bint has_moved(self) noexcept nogil

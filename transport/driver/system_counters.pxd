"""The driver's system counters, by index (frames.pxd), for native code."""

from libc.stdint cimport int64_t
from runtime.atomics cimport ordo_store_release_i64
from transport.driver.frames cimport SYSTEM_COUNTERS

cdef class SystemCounters:
    cdef int64_t* at[SYSTEM_COUNTERS]
    cdef readonly list counters

cdef inline void count_event(SystemCounters system, int index, int64_t delta) noexcept nogil:
    ordo_store_release_i64(system.at[index], system.at[index][0] + delta)

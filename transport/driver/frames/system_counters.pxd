"""The driver's system counters, by index (frames.pxd), for native code."""

from libc.stdint cimport int64_t
from ordo.runtime.native.atomics cimport ordo_fetch_add_i64
from ordo.transport.driver.frames.frames cimport ALL_COUNTERS

cdef enum:
    CYCLE_THRESHOLD_NS = 100000000

cdef class SystemCounters:
    cdef int64_t* at[ALL_COUNTERS]
    cdef readonly list counters

cdef inline void count_event(SystemCounters system, int index, int64_t delta) noexcept nogil:
    ordo_fetch_add_i64(system.at[index], delta)        # sender and receiver may have threads of their own

cdef inline void note_longest(SystemCounters system, int index, int64_t took_ns, int64_t threshold_ns) noexcept nogil:
    """Record how long something took; `index` is the counter of the maximum, followed by the count of those above the
    threshold."""
    if took_ns > system.at[index][0]:
        system.at[index][0] = took_ns
    if took_ns > threshold_ns:
        ordo_fetch_add_i64(system.at[index + 1], 1)

cdef inline void note_cycle(SystemCounters system, int index, int64_t cycle_ns) noexcept nogil:
    """Record how long one duty cycle of a part took."""
    note_longest(system, index, cycle_ns, CYCLE_THRESHOLD_NS)

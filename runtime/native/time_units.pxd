"""The units of time, in nanoseconds: durations and deadlines are int64 nanoseconds everywhere.

The timestamps of a log are in the unit of its cluster (runtime/native/cluster_time.py), which their size tells.
"""

from libc.stdint cimport int64_t

cpdef enum:
    MICROSECOND_NS = 1000
    MILLISECOND_NS = 1000000
    SECOND_NS = 1000000000

cdef inline int64_t cluster_time_ms(int64_t timestamp) noexcept nogil:
    """Return a timestamp of a log, of whichever unit, in milliseconds, rounded down. The bounds are MICROS_MIN and NANOS_MIN
    of cluster_time.py."""
    if timestamp < 100000000000000LL:
        return timestamp
    return timestamp // MICROSECOND_NS if timestamp < 100000000000000000LL else timestamp // MILLISECOND_NS

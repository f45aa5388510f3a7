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

cdef inline int cluster_time_unit(int64_t timestamp) noexcept nogil:
    """Return the unit of a timestamp of a log as a TimeUnit: 0 ms, 1 us, 2 ns."""
    return 0 if timestamp < 100000000000000LL else 1 if timestamp < 100000000000000000LL else 2

cdef inline int64_t cluster_time_us(int64_t timestamp, int unit) noexcept nogil:
    """Return a timestamp of a log in microseconds, rounded down, where the log had this unit (0 ms, 1 us, 2 ns) at its
    beginning. It may have gone over to a finer one since, which the size tells."""
    cdef int64_t micros
    if unit < 2 and timestamp >= 100000000000000000LL:
        unit = 2
    elif unit < 1 and timestamp >= 100000000000000LL:
        unit = 1
    if unit == 0:
        return timestamp * MICROSECOND_NS
    if unit == 1:
        return timestamp
    micros = timestamp / MICROSECOND_NS             # C division: towards zero
    return micros - 1 if micros * MICROSECOND_NS > timestamp else micros

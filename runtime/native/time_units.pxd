"""The units of time, in nanoseconds: durations and deadlines are int64 nanoseconds everywhere."""

cpdef enum:
    MICROSECOND_NS = 1000
    MILLISECOND_NS = 1000000
    SECOND_NS = 1000000000

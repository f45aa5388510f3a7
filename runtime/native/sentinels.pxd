"""The values that stand for none: of ids, positions and times on the wire, on disk and in counters."""

from libc.stdint cimport int64_t

cpdef enum:
    NULL_VALUE = -1                # of an id, a time or a length that is not there
    NULL_POSITION = -1             # of a position in a log or recording that is not there

cdef extern from "<stdint.h>" nogil:
    const int64_t NEVER "INT64_MAX"    # a deadline that is never reached

"""Where the log has the newest requests of a client that were answered."""

from libc.stdint cimport int64_t

from ordo.runtime.native.native_vector cimport NativeVector


cdef struct AnsweredRow:
    int64_t number
    int64_t log_position                   # where the request was executed, as its answer says


cdef class AnsweredRequests:
    cdef NativeVector _rows
    cpdef int note(self, int64_t number, int64_t log_position) except -1

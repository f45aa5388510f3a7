"""Where the log has the newest requests of a client that were answered."""

from libc.stdint cimport int64_t

from ordo.runtime.native.native_vector cimport NativeVector


cdef struct AnsweredRow:
    int64_t number
    int64_t log_position                   # where the request was executed, as its answer says


cdef class AnsweredRequests:
    cdef NativeVector _rows
    cdef readonly int64_t newest           # the greatest number that was answered; 0: none
    cdef public int64_t begins_after       # numbers up to this one are of another client, which had the identity before
    cpdef int note(self, int64_t number, int64_t log_position) except -1

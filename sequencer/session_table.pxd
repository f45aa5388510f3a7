"""The open sessions, natively: who each belongs to, and when it was active last."""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    UNCLAIMED = -1                        # the first message of a session says which image is its client's
    MUTE = -2                             # no message of the session is taken

cdef class SessionTable:
    """Open sessions by id with their last activity (cluster time) and the image that they are bound to.

    Open addressing, capacities are powers of two.
    """
    cdef int64_t* ids
    cdef int64_t* activity
    cdef int64_t* owners                  # correlation id of the image that a session's messages come from
    cdef int32_t* accounts                # of its quota (sequencer/quotas.pxd); UNASKED until its first message
    cdef int64_t mask
    cdef readonly int64_t count
    cdef int64_t used                     # slots that are not empty, removed ones included
    cdef int64_t find(self, int64_t session_id) noexcept nogil       # slot, or -1
    cpdef void put(self, int64_t session_id, int64_t activity)
    cpdef void remove(self, int64_t session_id)

"""Traces of sampled requests: which are sampled, and the ring in which a node and its service tell of them.

Whether a request is traced follows from where its identity is open and from its number, which the client, the leader
and its service know anyway: so all decide alike, and nothing about it travels with the request. The points in time go
through a ring in shared memory to a process that makes spans of them (ordo.cluster.monitoring.trace_export).

    LOG_POINTS       i64 open position, number, and when (monotonic, ns) the duty cycle began that took the request, it
                     was in the log buffer, it was on its way to the followers, the leader's own log had it, and a quorum
                     had it
    FOLLOWER_POINTS  i64 open position, number, and when the duty cycle began that recorded the request, the follower
                     had it on disk (`sync = "commit"`) or written, and its acknowledgement was on its way
    SERVICE_POINTS   i64 open position, number, and when the service got it, had executed it, and its answer was on its
                     way; 16 bytes of identity, from which the exporter has the trace's id, on every member
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from ordo.runtime.native.clock cimport Clock
from ordo.transport.control.ring cimport ManyToOneRing

cdef enum:
    PENDING_MAX = 256

cdef struct Points:
    int64_t position
    int64_t fields[7]                      # as they go into the ring

cdef bint is_sampled(int64_t open_position, int64_t number, uint64_t threshold) noexcept nogil

cdef class TracePoints:
    """Points in time of sampled requests under way. What the ring has no room for is left out."""
    cdef ManyToOneRing _ring
    cdef Clock _clock
    cdef uint64_t _threshold
    cdef Points _points[PENDING_MAX]
    cdef int64_t _count

cdef class LogTraces(TracePoints):
    """The leader's half. Requests beyond PENDING_MAX under way are left out."""
    cdef int64_t _sent
    cdef int64_t _appended
    cdef int64_t _committed
    cdef public int64_t cycle_ns           # when the present duty cycle began
    cdef readonly bint is_under_way
    cpdef int take(self, int64_t open_position, int64_t number, int64_t position) except -1
    cpdef int send(self) except -1
    cpdef int look(self, int64_t append_position, int64_t commit_position, bint is_leading, int64_t now_ns) except -1

cdef class CycleTraces(TracePoints):
    """What a duty cycle has noted: it is handed on once the driver has sent what came of it."""
    cdef readonly bint has_unsent
    cdef int _send(self, int32_t kind, int32_t length) except -1

cdef class FollowerTraces(CycleTraces):
    """A follower's half. What it recorded, and when, is kept for the last PENDING_MAX duty cycles that recorded
    something; a request that was recorded before counts as recorded in the cycle that finds it durable."""
    cdef int64_t _positions[PENDING_MAX]   # recorded up to there
    cdef int64_t _times[PENDING_MAX]       # by the duty cycle that began then
    cdef int64_t _noted
    cdef public int64_t cycle_ns           # when the present duty cycle began
    cdef int64_t _recorded_ns(self, int64_t position) noexcept nogil
    cpdef int note(self, int64_t recorded_position) except -1
    cpdef int take(self, int64_t open_position, int64_t number, int64_t position) except -1
    cpdef int send(self) except -1

cdef class ServiceTraces(CycleTraces):
    """The service container's half, on every member."""
    cdef bint _is_begun
    cpdef int begin(self, int64_t open_position, int64_t number, bytes identity) except -1
    cpdef int end(self) except -1
    cpdef int send(self) except -1

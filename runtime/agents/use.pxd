"""Ownership of an object: the process that made it, and the thread that is using it."""

from libc.stdint cimport int64_t

cdef class Origin:
    """The process that made an object; a copy in a forked child may not be used."""
    cdef readonly str what
    cdef readonly int pid
    cdef int64_t _forks
    cdef bint is_elsewhere(self) noexcept nogil
    cpdef int check(self) except -1

cdef class Use(Origin):
    """A lock that admits one thread at a time to an object, which another thread may close meanwhile."""
    cdef readonly bint is_closed
    cdef readonly int depth                # calls of the thread that is in it, one inside the other
    cdef unsigned long _thread
    cdef int _waiting                      # threads that want it for its end, before anybody else
    cdef bint _ending                      # the thread that is in it does the work of `end`
    cdef list _left                        # ends that are due when the thread leaves
    cpdef int enter(self) except -1
    cpdef int leave(self) except -1
    cpdef bint try_enter(self)
    cdef int _await_turn(self) except -1

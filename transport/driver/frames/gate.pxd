"""The door to one part of a driver: its own thread goes through once a duty cycle, the conductor now and then."""

from libc.stdint cimport int32_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass

cdef class Gate:
    """Whoever is inside owns the part's structures. Never enter it while holding the GIL: whoever is inside may need it.

    A mutex alone would starve the conductor: a busy thread that leaves and enters again wins every race for it. So the
    conductor says that it wants in, and the part's thread waits until it is.
    """
    cdef pthread_mutex_t _mutex
    cdef int32_t _wanted
    cdef void enter(self) noexcept nogil            # the part's own thread
    cdef void enter_first(self) noexcept nogil      # the conductor, ahead of the part's next duty cycle
    cdef void leave(self) noexcept nogil

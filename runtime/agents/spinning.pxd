"""Whether a thread looks for more before it parks."""

cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Spinning:
    """Turns without work that follow on one that moved something, each of which gives the core away: to be woken costs
    the sender of a datagram and its receiver more than a few looks do, as long as something comes soon. So the last
    steps decide: behind steps that came fast one after the other there are `turns_max` such turns, else none."""
    cdef readonly int64_t turns_max
    cdef readonly int64_t turns_left
    cdef int64_t _moved
    cdef int64_t _moved_ns
    cdef int64_t _score                    # above 0: of the last steps enough came fast
    cpdef void note(self, int64_t moved, int64_t now_ns) noexcept nogil
    cpdef bint take(self) noexcept nogil

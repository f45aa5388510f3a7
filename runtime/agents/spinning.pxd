"""The decision whether a thread polls again before it parks."""

cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Spinning:
    """A count of idle turns to take before parking, each of which yields the core: to be woken costs the sender of a
    datagram and its receiver more than a few polls do, as long as something comes soon. So the last steps decide: after
    steps in quick succession there are `turns_max` such turns, otherwise none."""
    cdef readonly int64_t turns_max
    cdef readonly int64_t turns_left
    cdef int64_t _moved
    cdef int64_t _moved_ns
    cdef int64_t _score                    # above 0: of the last steps enough came fast
    cpdef void note(self, int64_t moved, int64_t now_ns) noexcept nogil
    cpdef bint take(self) noexcept nogil

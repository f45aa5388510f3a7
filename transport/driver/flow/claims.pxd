"""Which bytes of a received stream belong to a frame already."""

from libc.stdint cimport int64_t

from ordo.runtime.native.native_vector cimport NativeVector

cdef struct Span:
    int64_t start
    int64_t end

cdef class Claims:
    """Everything below `whole`, and disjoint spans beyond it, in order, none of which touches the next.

    It lives in the driver's own memory. What a log buffer holds says nothing about what was received: a payload may
    look like a header or like nothing, and other processes can write into the file.
    """
    cdef readonly int64_t whole
    cdef NativeVector spans                    # of Span
    cdef bint is_free(self, int64_t start, int64_t end) noexcept nogil     # no byte of it is claimed
    cdef bint holds(self, int64_t start, int64_t end) noexcept nogil       # every byte of it is claimed
    cdef bint add(self, int64_t start, int64_t end) noexcept nogil         # a free, non-empty range; False: no room
    cdef int64_t gap_end(self) noexcept nogil                              # of the gap at `whole`; or no span: NEVER
    cdef int64_t _after(self, int64_t position) noexcept nogil
    cdef bint _insert(self, int64_t at, int64_t start, int64_t end) noexcept nogil
    cdef void _settle(self) noexcept nogil

"""The end of a recording that is still in memory, for readers on the recorder's thread."""

from libc.stdint cimport int64_t, uint8_t

cdef enum:
    TAIL_LENGTH = 1048576
    TAIL_OVERHANG = 65536      # the longest frame

cdef class RecordedTail:
    """The last bytes that one recording wrote, checksums included, at least up to TAIL_LENGTH of them.

    The bytes of stream position p stand at p modulo TAIL_LENGTH. Each frame is in one piece: one that begins below the
    end of the ring and is longer than what is left of it goes on behind it, and the next frame begins at its start, or
    rather as far behind it as that one was too long. So a block that is placed may hold such a frame only as its last.
    """
    cdef uint8_t* _ring
    cdef int64_t begin         # frames that begin in [begin, end) are here
    cdef int64_t end
    cdef int64_t rest(self, int64_t position) noexcept nogil           # bytes from a position to the end of the ring
    cdef uint8_t* place(self, int64_t position, int64_t length_bytes) noexcept nogil # where a block is to be put
    cdef void note(self, int64_t position, int64_t length_bytes) noexcept nogil      # it was put there
    cdef inline const uint8_t* at(self, int64_t position) noexcept nogil:
        """Return the frame that begins there; NULL: it is not here."""
        if position < self.begin or position >= self.end:
            return NULL
        return self._ring + (position & (TAIL_LENGTH - 1))
    cpdef void forget(self)

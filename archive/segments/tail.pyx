"""The end of a recording that is still in memory. See tail.pxd."""

from libc.stdlib cimport free, malloc

cdef int64_t _MASK = TAIL_LENGTH - 1
cdef int64_t _NOWHERE = -1


cdef class RecordedTail:
    def __cinit__(self):
        self.begin = self.end = _NOWHERE

    def __dealloc__(self):
        free(self._ring)

    def prepare(self):
        """Allocate the memory if that was not done yet, before the first block is placed."""
        if self._ring == NULL:
            self._ring = <uint8_t*> malloc(TAIL_LENGTH + TAIL_OVERHANG)
            if self._ring == NULL:
                raise MemoryError("no memory for the tail of a recording, 1 MiB")

    cdef int64_t rest(self, int64_t position) noexcept nogil:
        return TAIL_LENGTH - (position & _MASK)

    cdef uint8_t* place(self, int64_t position, int64_t length_bytes) noexcept nogil:
        """Return where to put a block; what it overwrites is not here any more, whatever becomes of the block."""
        self.begin = max(self.begin, position + length_bytes - TAIL_LENGTH)
        return self._ring + (position & _MASK)

    cdef void note(self, int64_t position, int64_t length_bytes) noexcept nogil:
        if position != self.end:
            self.begin = position
        self.end = position + length_bytes
        if self.begin < self.end - TAIL_LENGTH:
            self.begin = self.end - TAIL_LENGTH

    cpdef void forget(self):
        """Forget everything: what is written next need not follow on what was."""
        self.begin = self.end = _NOWHERE

    @property
    def span(self):
        """The pair (begin, end): frames that begin at these positions are here."""
        return self.begin, self.end

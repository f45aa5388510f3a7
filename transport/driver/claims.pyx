"""Which bytes of a received stream belong to a frame already (transport-wire.md §6.1).

Frames come in order nearly always, so nearly always there is no span, or the last one grows. A gap costs one span.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memmove

cdef enum:
    SPANS_MAX = 4096                   # gaps at a time; what would make one more has to be sent again

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF

SPANS_LIMIT = SPANS_MAX


cdef class Claims:
    def __init__(self, int64_t whole):
        self.whole = whole

    def __dealloc__(self):
        free(self.spans)

    cdef int _after(self, int64_t position) noexcept nogil:
        """Index of the first span that ends beyond a position."""
        cdef int low = 0, high = self.count, middle
        if high > 0 and self.spans[high - 1].end <= position:
            return high
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle].end <= position:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint is_free(self, int64_t start, int64_t end) noexcept nogil:
        cdef int at
        if start < self.whole:
            return False
        at = self._after(start)
        return at == self.count or self.spans[at].start >= end

    cdef bint holds(self, int64_t start, int64_t end) noexcept nogil:
        cdef int at
        if end <= self.whole:
            return True
        at = self._after(start)
        return at < self.count and self.spans[at].start <= start and end <= self.spans[at].end

    cdef bint add(self, int64_t start, int64_t end) noexcept nogil:
        cdef int at
        if start == self.whole:
            self.whole = end
            if self.count > 0:
                self._settle()
            return True
        at = self._after(start)
        if at > 0 and self.spans[at - 1].end == start:
            self.spans[at - 1].end = end
            if at < self.count and self.spans[at].start == end:
                self.spans[at - 1].end = self.spans[at].end
                self.count -= 1
                memmove(&self.spans[at], &self.spans[at + 1], (self.count - at) * sizeof(Span))
            return True
        if at < self.count and self.spans[at].start == end:
            self.spans[at].start = start
            return True
        return self._insert(at, start, end)

    cdef bint _insert(self, int at, int64_t start, int64_t end) noexcept nogil:
        cdef Span* grown
        cdef int capacity
        if self.count == SPANS_MAX:
            return False
        if self.count == self.capacity:
            capacity = 2 * self.capacity if self.capacity else 16
            grown = <Span*> realloc(self.spans, capacity * sizeof(Span))
            if grown == NULL:
                return False
            self.spans = grown
            self.capacity = capacity
        memmove(&self.spans[at + 1], &self.spans[at], (self.count - at) * sizeof(Span))
        self.spans[at].start = start
        self.spans[at].end = end
        self.count += 1
        return True

    cdef void _settle(self) noexcept nogil:
        """`whole` has moved and may have reached the first span. Spans do not touch, so it reaches one at most."""
        if self.spans[0].start == self.whole:
            self.whole = self.spans[0].end
            self.count -= 1
            memmove(self.spans, &self.spans[1], self.count * sizeof(Span))

    cdef int64_t gap_end(self) noexcept nogil:
        return self.spans[0].start if self.count > 0 else NEVER

    # --- for tests ------------------------------------------------------------------------------------------------

    def claim(self, int64_t start, int64_t end):
        """Claims a range if all of it is free and there is room; True when it did."""
        return self.is_free(start, end) and self.add(start, end)

    def claimed(self, int64_t start, int64_t end):
        """Whether every byte of a range is claimed."""
        return self.holds(start, end)

    def spans_list(self):
        return [(self.spans[i].start, self.spans[i].end) for i in range(self.count)]

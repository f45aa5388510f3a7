"""Which bytes of a received stream belong to a frame already (transport-wire.md §6.1).

Frames come in order nearly always, so nearly always there is no span, or the last one grows. A gap costs one span.
"""

from ordo.runtime.native.sentinels cimport NEVER

cdef enum:
    SPANS_MAX = 4096                   # gaps at a time; what would make one more has to be sent again


SPANS_LIMIT = SPANS_MAX


cdef class Claims:
    def __init__(self, int64_t whole):
        self.whole = whole
        self.spans = NativeVector(sizeof(Span), SPANS_MAX)

    @property
    def count(self):
        """How many spans there are beyond `whole`."""
        return self.spans.count

    cdef int64_t _after(self, int64_t position) noexcept nogil:
        """Return the index of the first span that ends beyond a position."""
        cdef Span* spans = <Span*> self.spans.items
        cdef int64_t low = 0, high = self.spans.count, middle
        if high > 0 and spans[high - 1].end <= position:
            return high
        while low < high:
            middle = (low + high) // 2
            if spans[middle].end <= position:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint is_free(self, int64_t start, int64_t end) noexcept nogil:
        cdef int64_t at
        if start < self.whole:
            return False
        at = self._after(start)
        return at == self.spans.count or (<Span*> self.spans.items)[at].start >= end

    cdef bint holds(self, int64_t start, int64_t end) noexcept nogil:
        cdef Span* spans = <Span*> self.spans.items
        cdef int64_t at
        if end <= self.whole:
            return True
        at = self._after(start)
        return at < self.spans.count and spans[at].start <= start and end <= spans[at].end

    cdef bint add(self, int64_t start, int64_t end) noexcept nogil:
        cdef Span* spans = <Span*> self.spans.items
        cdef int64_t at
        if start == self.whole:
            self.whole = end
            if self.spans.count > 0:
                self._settle()
            return True
        at = self._after(start)
        if at > 0 and spans[at - 1].end == start:
            spans[at - 1].end = end
            if at < self.spans.count and spans[at].start == end:
                spans[at - 1].end = spans[at].end
                self.spans.remove_at(at)
            return True
        if at < self.spans.count and spans[at].start == end:
            spans[at].start = start
            return True
        return self._insert(at, start, end)

    cdef bint _insert(self, int64_t at, int64_t start, int64_t end) noexcept nogil:
        cdef Span* added = <Span*> self.spans.try_insert(at)
        if added == NULL:
            return False
        added.start = start
        added.end = end
        return True

    cdef void _settle(self) noexcept nogil:
        """Merge the first span into `whole` if that has reached it. Spans do not touch, so at most one is reached."""
        cdef Span* first = <Span*> self.spans.items
        if first.start == self.whole:
            self.whole = first.end
            self.spans.remove_at(0)

    cdef int64_t gap_end(self) noexcept nogil:
        return (<Span*> self.spans.items).start if self.spans.count > 0 else NEVER

    # --- for tests ------------------------------------------------------------------------------------------------

    def claim(self, int64_t start, int64_t end):
        """Claim a range if all of it is free and there is room; return whether it was claimed."""
        return self.is_free(start, end) and self.add(start, end)

    def claimed(self, int64_t start, int64_t end):
        """Return whether every byte of a range is claimed."""
        return self.holds(start, end)

    def spans_list(self):
        cdef Span* spans = <Span*> self.spans.items
        return [(spans[i].start, spans[i].end) for i in range(self.spans.count)]

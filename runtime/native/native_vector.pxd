"""The one array that grows under native code; `realloc` is called nowhere else, and `tools.verify vectors` holds that."""

from libc.stdint cimport int64_t

cdef class NativeVector:
    """Items of one C type, back to back in memory that the vector owns.

    Cast `items` to the type where a loop begins: `cdef Span* spans = <Span*> self.spans.items`. What grows the vector
    may move the items, so read the pointer again afterwards. Items are bytes to the vector: pointers in them are
    borrowed, and whoever puts them in keeps what they point to alive.

    What can fail comes twice. The plain form raises MemoryError; the form with try_ in its name says so by its result, for code that
    must go on without the item. Both refuse to hold more than `count_max` items.
    """
    cdef void* items
    cdef readonly int64_t count
    cdef readonly int64_t capacity
    cdef readonly int64_t count_max
    cdef readonly int64_t item_bytes
    cdef bint try_reserve(self, int64_t capacity) noexcept nogil           # room for this many; `count` stays
    cdef int reserve(self, int64_t capacity) except -1 nogil
    cdef void* try_insert(self, int64_t index) noexcept nogil              # a new item of zeros there, or NULL
    cdef void* try_append(self) noexcept nogil                             # a new item of zeros at the end, or NULL
    cdef void* append(self) except NULL nogil
    cdef void remove_at(self, int64_t index) noexcept nogil                # order is kept
    cdef void swap_remove_at(self, int64_t index) noexcept nogil           # the last item takes its place
    cdef void truncate(self, int64_t count) noexcept nogil                 # forgets the items from there on

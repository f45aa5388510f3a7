"""An array of C items that grows, with every size checked before memory is asked for."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove, memset

cdef enum:
    CAPACITY_FIRST = 4

cdef int64_t BYTES_MAX = 0x7FFFFFFFFFFFFFFFLL


cdef class NativeVector:
    """An array of C items. `item_bytes` is the size of one item, a pointer's if not given; `count_max` is the most
    items there may be."""

    def __cinit__(self, int64_t item_bytes=sizeof(void*), count_max=None):
        if item_bytes < 1:
            raise ValueError(f"item_bytes={item_bytes}, at least 1")
        self.item_bytes = item_bytes
        self.count_max = BYTES_MAX // item_bytes
        if count_max is not None:
            if not 0 <= count_max <= self.count_max:
                raise ValueError(f"count_max={count_max}, from 0 to {self.count_max}")
            self.count_max = count_max

    def __dealloc__(self):
        free(self.items)

    cdef bint try_reserve(self, int64_t capacity) noexcept nogil:
        cdef int64_t doubled, grown_capacity
        cdef void* grown
        if capacity <= self.capacity:
            return True
        if capacity > self.count_max:
            return False
        doubled = 2 * self.capacity if self.capacity <= self.count_max // 2 else self.count_max
        grown_capacity = min(self.count_max, max(capacity, doubled, <int64_t> CAPACITY_FIRST))
        grown = realloc(self.items, <size_t> (grown_capacity * self.item_bytes))
        if grown == NULL:
            return False
        self.items = grown
        self.capacity = grown_capacity
        return True

    cdef int reserve(self, int64_t capacity) except -1 nogil:
        if not self.try_reserve(capacity):
            with gil:
                raise MemoryError(f"no room for {capacity} items of {self.item_bytes} bytes: capacity={self.capacity} "
                                  f"count_max={self.count_max}")
        return 0

    cdef void* try_insert(self, int64_t index) noexcept nogil:
        cdef char* place
        if not self.try_reserve(self.count + 1):
            return NULL
        place = <char*> self.items + index * self.item_bytes
        if index < self.count:
            memmove(place + self.item_bytes, place, <size_t> ((self.count - index) * self.item_bytes))
        memset(place, 0, <size_t> self.item_bytes)
        self.count += 1
        return place

    cdef void* try_append(self) noexcept nogil:
        return self.try_insert(self.count)

    cdef void* append(self) except NULL nogil:
        self.reserve(self.count + 1)
        return self.try_insert(self.count)

    cdef void remove_at(self, int64_t index) noexcept nogil:
        cdef char* place = <char*> self.items + index * self.item_bytes
        self.count -= 1
        memmove(place, place + self.item_bytes, <size_t> ((self.count - index) * self.item_bytes))

    cdef void swap_remove_at(self, int64_t index) noexcept nogil:
        cdef char* items = <char*> self.items
        self.count -= 1
        if index != self.count:
            memmove(items + index * self.item_bytes, items + self.count * self.item_bytes, <size_t> self.item_bytes)

    cdef void truncate(self, int64_t count) noexcept nogil:
        if count < self.count:
            self.count = count

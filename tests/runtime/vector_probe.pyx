"""A NativeVector of 64-bit integers, with its native functions callable from tests."""

from libc.stdint cimport int64_t

from ordo.runtime.native.native_vector cimport NativeVector


cdef class VectorProbe:
    cdef NativeVector vector

    def __init__(self, count_max=None):
        self.vector = NativeVector(sizeof(int64_t), count_max)

    @property
    def capacity(self):
        return self.vector.capacity

    def values(self):
        cdef int64_t* items = <int64_t*> self.vector.items
        return [items[i] for i in range(self.vector.count)]

    def append(self, int64_t value):
        """What the new item held before the value was put into it."""
        cdef int64_t* item = <int64_t*> self.vector.append()
        before = item[0]
        item[0] = value
        return before

    def try_append(self, int64_t value):
        cdef int64_t* item = <int64_t*> self.vector.try_append()
        if item == NULL:
            return False
        item[0] = value
        return True

    def try_insert(self, int64_t index, int64_t value):
        """What the new item held before the value was put into it, or None when there was no room for it."""
        cdef int64_t* item = <int64_t*> self.vector.try_insert(index)
        if item == NULL:
            return None
        before = item[0]
        item[0] = value
        return before

    def reserve(self, int64_t capacity):
        self.vector.reserve(capacity)

    def try_reserve(self, int64_t capacity):
        return bool(self.vector.try_reserve(capacity))

    def remove_at(self, int64_t index):
        self.vector.remove_at(index)

    def swap_remove_at(self, int64_t index):
        self.vector.swap_remove_at(index)

    def truncate(self, int64_t count):
        self.vector.truncate(count)

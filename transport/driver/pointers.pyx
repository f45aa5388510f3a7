"""Containers for native loops."""

from libc.stdlib cimport calloc, free, realloc


cdef class PointerArray:
    def __dealloc__(self):
        free(self.items)

    cdef int add(self, void* item) except -1:
        cdef void** grown
        if self.count == self.capacity:
            grown = <void**> realloc(self.items, max(8, 2 * self.capacity) * sizeof(void*))
            if grown == NULL:
                raise MemoryError
            self.items = grown
            self.capacity = max(8, 2 * self.capacity)
        self.items[self.count] = item
        self.count += 1
        return 0

    cdef void remove(self, void* item) noexcept:
        cdef int i, kept = 0
        for i in range(self.count):
            if self.items[i] != item:
                self.items[kept] = self.items[i]
                kept += 1
        self.count = kept


cdef class PointerMap:
    def __cinit__(self):
        self.mask = 15
        self.keys = <int64_t*> calloc(16, sizeof(int64_t))
        self.values = <void**> calloc(16, sizeof(void*))
        if self.keys == NULL or self.values == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.keys)
        free(self.values)

    cdef void* get(self, int64_t key) noexcept nogil:
        cdef uint32_t slot = slot_of(key, self.mask)
        while self.values[slot] != NULL:             # never full: at most half is used
            if self.keys[slot] == key:
                return self.values[slot]
            slot = (slot + 1) & self.mask
        return NULL

    cdef int put(self, int64_t key, void* value) except -1:
        cdef uint32_t slot
        if 2 * (self.count + 1) > <int> self.mask:
            self.grow()
        slot = slot_of(key, self.mask)
        while self.values[slot] != NULL and self.keys[slot] != key:
            slot = (slot + 1) & self.mask
        if self.values[slot] == NULL:
            self.count += 1
        self.keys[slot] = key
        self.values[slot] = value
        return 0

    cdef int grow(self) except -1:
        cdef int64_t* keys = self.keys
        cdef void** values = self.values
        cdef uint32_t old = self.mask + 1, slot
        cdef int64_t* new_keys = <int64_t*> calloc(2 * old, sizeof(int64_t))
        cdef void** new_values = <void**> calloc(2 * old, sizeof(void*))
        if new_keys == NULL or new_values == NULL:
            free(new_keys)
            free(new_values)
            raise MemoryError
        self.keys, self.values, self.mask, self.count = new_keys, new_values, 2 * old - 1, 0
        for slot in range(old):
            if values[slot] != NULL:
                self.put(keys[slot], values[slot])
        free(keys)
        free(values)
        return 0

    cdef void remove(self, int64_t key) noexcept:
        cdef uint32_t slot = slot_of(key, self.mask), after, home
        while self.values[slot] != NULL and self.keys[slot] != key:
            slot = (slot + 1) & self.mask
        if self.values[slot] == NULL:
            return
        self.count -= 1
        after = slot
        while True:
            after = (after + 1) & self.mask
            if self.values[after] == NULL:
                break
            home = slot_of(self.keys[after], self.mask)
            # an entry moves back when its home does not lie between the hole and itself
            if ((after - home) & self.mask) >= ((after - slot) & self.mask):
                self.keys[slot] = self.keys[after]
                self.values[slot] = self.values[after]
                slot = after
        self.values[slot] = NULL


def exercise_map(operations):
    """Runs ("put", key, value), ("remove", key) and ("get", key) steps; answers what the gets found. For tests."""
    cdef PointerMap subject = PointerMap()
    found = []
    for operation in operations:
        if operation[0] == "put":
            subject.put(operation[1], <void*> <size_t> operation[2])
        elif operation[0] == "remove":
            subject.remove(operation[1])
        else:
            found.append(<size_t> subject.get(operation[1]))
    return found

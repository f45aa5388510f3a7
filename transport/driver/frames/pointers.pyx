"""Containers for native loops."""

from libc.stdlib cimport calloc, free
from ordo.runtime.native.sentinels cimport NEVER



cdef class PointerArray(NativeVector):
    cdef int add(self, void* item) except -1:
        (<void**> self.append())[0] = item
        return 0

    cdef void remove(self, void* item) noexcept:
        cdef int64_t i
        for i in range(self.count - 1, -1, -1):
            if pointer_at(self, i) == item:
                self.remove_at(i)


cdef class Worked:
    pass


cdef WorkSet new_work_set(int settle_count, int slice_min, int64_t sweep_ns):
    cdef WorkSet made = WorkSet()
    made.settle_count = settle_count
    made.slice_min = slice_min
    made.sweep_ns = sweep_ns
    return made


cdef class WorkSet(NativeVector):
    cdef int add(self, Worked item, int64_t now_ns) except -1:
        item.slot = <int> self.count
        (<void**> self.append())[0] = <void*> item
        self.wake(item, now_ns)
        return 0

    cdef void remove(self, Worked item) noexcept:
        if item.slot < self.busy:
            self._swap(item.slot, self.busy - 1)
            self.busy -= 1
        self._swap(item.slot, <int> self.count - 1)
        self.truncate(self.count - 1)

    cdef void _swap(self, int a, int b) noexcept nogil:
        cdef void** items = <void**> self.items
        cdef void* moved = items[a]
        items[a] = items[b]
        items[b] = moved
        (<Worked> items[a]).slot = a
        (<Worked> items[b]).slot = b

    cdef void wake(self, Worked item, int64_t now_ns) noexcept nogil:
        item.active_ns = now_ns
        if item.slot >= self.busy:
            self._swap(item.slot, self.busy)
            self.busy += 1

    cdef void settle(self, int index) noexcept nogil:
        self._swap(index, self.busy - 1)
        self.busy -= 1

    cdef int next_quiet(self, int cursor) noexcept nogil:
        if self.busy >= self.count:
            return -1
        return self.busy if cursor < self.busy or cursor + 1 >= self.count else cursor + 1

    cdef int slice(self, int64_t elapsed_ns) noexcept nogil:
        cdef int64_t quiet = self.count - self.busy
        cdef int64_t share = quiet if elapsed_ns >= self.sweep_ns else quiet * elapsed_ns // self.sweep_ns
        return <int> min(quiet, max(share, <int64_t> self.slice_min))

    cdef int64_t sweep_deadline_ns(self, int64_t now_ns) noexcept nogil:
        """Return when to sweep next (ns), without looking at each entry: among thousands there is always one that is
        due."""
        cdef int64_t quiet = self.count - self.busy
        if quiet == 0:
            return NEVER
        return now_ns + max(<int64_t> SWEEP_TURN_NS_MIN, self.sweep_ns * self.slice_min // max(quiet, <int64_t> self.slice_min))


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
    """Run ("put", key, value), ("remove", key) and ("get", key) steps and return what the gets found. For tests."""
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

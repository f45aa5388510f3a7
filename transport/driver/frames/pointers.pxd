"""Containers for native loops: an array of borrowed object pointers, and a map from a 64-bit key to a pointer.

Borrowed: whoever fills them keeps the objects alive elsewhere until they are removed.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from ordo.runtime.native.native_vector cimport NativeVector

cdef class PointerArray(NativeVector):
    """Pointers in the order in which they were added."""
    cdef int add(self, void* item) except -1
    cdef void remove(self, void* item) noexcept          # wherever it is; order is kept

cdef enum:
    SETTLE_NS = 5000000                # quiet for this long: no longer visited every turn
    SWEEP_TURN_NS_MIN = 1000000        # between turns for nothing but quiet ones

cdef class Worked:
    """Base of what a WorkSet holds."""
    cdef int slot
    cdef int64_t active_ns

cdef class WorkSet(NativeVector):
    """Objects with something to do every turn in front, quiet ones behind, of which each turn visits a slice.

    Thousands of streams that rest then cost a turn no more than a few.
    """
    cdef readonly int busy             # items[0:busy] are visited every turn
    cdef int settle_count              # up to this many, all are
    cdef int slice_min                 # quiet ones visited a turn, at least
    cdef int64_t sweep_ns              # so long it takes to visit all quiet ones, or one turn
    cdef int add(self, Worked item, int64_t now_ns) except -1
    cdef void remove(self, Worked item) noexcept
    cdef void wake(self, Worked item, int64_t now_ns) noexcept nogil       # to the busy ones
    cdef inline bint may_settle(self, int index, int64_t now_ns) noexcept nogil:   # whether it was quiet long, of many
        return self.count > self.settle_count and now_ns - (<Worked> (<void**> self.items)[index]).active_ns > SETTLE_NS
    cdef void settle(self, int index) noexcept nogil                       # to the quiet ones
    cdef int next_quiet(self, int cursor) noexcept nogil                   # index behind cursor, -1: there is none
    cdef int slice(self, int64_t elapsed_ns) noexcept nogil                # quiet ones that a turn visits, so long after another
    cdef int64_t sweep_deadline_ns(self, int64_t now_ns) noexcept nogil    # of the next turn, for the quiet ones
    cdef void _swap(self, int a, int b) noexcept nogil

cdef WorkSet new_work_set(int settle_count, int slice_min, int64_t sweep_ns)

cdef class PointerMap:
    """Open addressing, linear probing, backward-shift deletion. NULL means absent and cannot be stored."""
    cdef int64_t* keys
    cdef void** values
    cdef uint32_t mask
    cdef int count
    cdef void* get(self, int64_t key) noexcept nogil
    cdef int put(self, int64_t key, void* value) except -1
    cdef void remove(self, int64_t key) noexcept
    cdef int grow(self) except -1

cdef inline void* pointer_at(NativeVector pointers, int64_t index) noexcept nogil:
    return (<void**> pointers.items)[index]

cdef inline int64_t pair_key(int32_t session_id, int32_t stream_id) noexcept nogil:
    return <int64_t> ((<uint64_t> <uint32_t> session_id << 32) | <uint64_t> <uint32_t> stream_id)

cdef inline uint32_t slot_of(int64_t key, uint32_t mask) noexcept nogil:
    cdef uint64_t mixed = <uint64_t> key * <uint64_t> 0x9E3779B97F4A7C15ULL
    return <uint32_t> (mixed >> 32) & mask

"""The helpers of runtime/atomics.h, callable from tests."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from runtime.atomics cimport (
    ordo_cas_i32, ordo_cas_i64, ordo_crc32c, ordo_epoch_ns, ordo_fetch_add_i32, ordo_fetch_add_i64, ordo_futex_wait,
    ordo_futex_wake, ordo_get_i16, ordo_get_i32, ordo_get_i64, ordo_get_u16, ordo_monotonic_ns, ordo_put_i32,
    ordo_put_i64, ordo_put_u16)
from runtime.memory cimport Memory


def crc32c(const uint8_t[::1] data, start=0):
    return ordo_crc32c(start, &data[0] if data.shape[0] else NULL, data.shape[0])


def put_fields(Memory memory, u16, i32, i64):
    ordo_put_u16(memory.data + 1, u16)
    ordo_put_i32(memory.data + 3, i32)
    ordo_put_i64(memory.data + 7, i64)


def get_fields(Memory memory):
    return (ordo_get_u16(memory.data + 1), ordo_get_i16(memory.data + 1), ordo_get_i32(memory.data + 3),
            ordo_get_i64(memory.data + 7))


def add_many(Memory memory, int count):
    """`count` atomic additions to an int64 at 0 and an int32 at 8, without the GIL; by compare-and-set every other."""
    cdef int64_t* wide = <int64_t*> memory.data
    cdef int32_t* narrow = <int32_t*> (memory.data + 8)
    cdef int i
    cdef int64_t seen
    cdef int32_t seen_narrow
    with nogil:
        for i in range(count):
            if i & 1:
                ordo_fetch_add_i64(wide, 1)
                ordo_fetch_add_i32(narrow, 1)
                continue
            seen = wide[0]
            while not ordo_cas_i64(wide, seen, seen + 1):
                seen = wide[0]
            seen_narrow = narrow[0]
            while not ordo_cas_i32(narrow, seen_narrow, seen_narrow + 1):
                seen_narrow = narrow[0]


def futex_wait(Memory memory, int expected, int64_t timeout_ns):
    with nogil:
        ordo_futex_wait(memory.data, expected, timeout_ns)


def futex_wake(Memory memory):
    return ordo_futex_wake(memory.data, 1)


def clocks():
    return ordo_monotonic_ns(), ordo_epoch_ns()

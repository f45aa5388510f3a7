"""The helpers of runtime/atomics.h, callable from tests."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.runtime.native.atomics cimport (
    ORDO_CRC32C_HARDWARE, ordo_cas_i32, ordo_cas_i64, ordo_crc32c, ordo_crc32c_has_instruction,
    ordo_crc32c_instruction, ordo_crc32c_plain, ordo_epoch_ns, ordo_fetch_add_i32, ordo_fetch_add_i64,
    ordo_futex_wait, ordo_futex_wake, ordo_get_i16, ordo_get_i32, ordo_get_i64, ordo_get_u16, ordo_monotonic_ns,
    ordo_put_i32, ordo_put_i64, ordo_put_u16)
from ordo.runtime.native.memory cimport Memory

cdef extern from *:
    """
    #ifdef ORDO_DEBUG
    #define ORDO_IS_DEBUG 1
    #else
    #define ORDO_IS_DEBUG 0
    #endif
    """
    bint ORDO_IS_DEBUG


def is_debug():
    """Whether this is the build with checks (`make debug`)."""
    return bool(ORDO_IS_DEBUG)


def add(int32_t a, int32_t b):
    """A sum that may overflow, which the debug build must notice."""
    return a + b


def item(const uint8_t[::1] data, Py_ssize_t index):
    """One byte, which may be outside, which the debug build must notice."""
    return data[index]


def crc32c(const uint8_t[::1] data, start=0):
    return ordo_crc32c(start, &data[0] if data.shape[0] else NULL, data.shape[0])


def crc32c_plain(const uint8_t[::1] data, start=0):
    return ordo_crc32c_plain(start, &data[0] if data.shape[0] else NULL, data.shape[0])


def crc32c_instruction(const uint8_t[::1] data, start=0):
    """By the processor's instruction. Raises NotImplementedError where the processor has none."""
    if not ordo_crc32c_has_instruction():
        raise NotImplementedError("this processor has no instruction for CRC32C")
    return ordo_crc32c_instruction(start, &data[0] if data.shape[0] else NULL, data.shape[0])


def crc32c_hardware():
    """The kind of instruction that this build knows ("none" where it knows none), and whether this processor has it."""
    return ORDO_CRC32C_HARDWARE.decode(), bool(ordo_crc32c_has_instruction())


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

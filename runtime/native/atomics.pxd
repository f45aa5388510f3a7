"""Atomics on shared memory, unaligned wire fields, clocks, futex, sched_yield and CRC32C: see atomics.h and crc32c.h."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

cdef extern from "atomics.h" nogil:
    int32_t ordo_load_acquire_i32(const void* p)
    int64_t ordo_load_acquire_i64(const void* p)
    void ordo_store_release_i32(void* p, int32_t v)
    void ordo_store_release_i64(void* p, int64_t v)
    int64_t ordo_fetch_add_i64(void* p, int64_t v)
    int32_t ordo_fetch_add_i32(void* p, int32_t v)
    bint ordo_cas_i64(void* p, int64_t expected, int64_t desired)
    bint ordo_cas_i32(void* p, int32_t expected, int32_t desired)
    void ordo_fence_acquire()
    void ordo_fence_release()
    void ordo_fence_full()
    void ordo_pause()
    int16_t ordo_get_i16(const void* p)
    uint16_t ordo_get_u16(const void* p)
    int32_t ordo_get_i32(const void* p)
    int64_t ordo_get_i64(const void* p)
    void ordo_put_u16(void* p, uint16_t v)
    void ordo_put_i32(void* p, int32_t v)
    void ordo_put_i64(void* p, int64_t v)
    int64_t ordo_monotonic_ns()
    int64_t ordo_epoch_ns()
    int ordo_futex_wait(void* word, int32_t expected, int64_t timeout_ns)
    int ordo_futex_wake(void* word, int count)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "crc32c.h" nogil:
    const char* ORDO_CRC32C_HARDWARE
    bint ordo_crc32c_has_instruction()
    uint32_t ordo_crc32c_instruction(uint32_t crc, const void* data, size_t length_bytes)
    uint32_t ordo_crc32c_plain(uint32_t crc, const void* data, size_t length_bytes)
    uint32_t ordo_crc32c(uint32_t crc, const void* data, size_t length_bytes)

/* Atomic loads and stores on shared memory, fences, futex and clocks, for every processor that Linux runs on. */
#ifndef ORDO_ATOMICS_H
#define ORDO_ATOMICS_H

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Ordo's formats are little-endian and read in place: a big-endian processor cannot run it"
#endif

static inline int32_t ordo_load_acquire_i32(const void *p) { return __atomic_load_n((const int32_t *)p, __ATOMIC_ACQUIRE); }
static inline int64_t ordo_load_acquire_i64(const void *p) { return __atomic_load_n((const int64_t *)p, __ATOMIC_ACQUIRE); }
static inline void ordo_store_release_i32(void *p, int32_t v) { __atomic_store_n((int32_t *)p, v, __ATOMIC_RELEASE); }
static inline void ordo_store_release_i64(void *p, int64_t v) { __atomic_store_n((int64_t *)p, v, __ATOMIC_RELEASE); }
static inline int64_t ordo_fetch_add_i64(void *p, int64_t v) { return __atomic_fetch_add((int64_t *)p, v, __ATOMIC_SEQ_CST); }
static inline int32_t ordo_fetch_add_i32(void *p, int32_t v) { return __atomic_fetch_add((int32_t *)p, v, __ATOMIC_SEQ_CST); }
static inline int ordo_cas_i64(void *p, int64_t expected, int64_t desired) {
    return __atomic_compare_exchange_n((int64_t *)p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline int ordo_cas_i32(void *p, int32_t expected, int32_t desired) {
    return __atomic_compare_exchange_n((int32_t *)p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline void ordo_fence_acquire(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
static inline void ordo_fence_release(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
static inline void ordo_fence_full(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* In a loop that spins: lets the other hardware thread of this core run. */
static inline void ordo_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores; a pipeline flush takes about as long */
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Unaligned little-endian fields of wire formats. */
static inline int16_t ordo_get_i16(const void *p) { int16_t v; memcpy(&v, p, 2); return v; }
static inline uint16_t ordo_get_u16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline int32_t ordo_get_i32(const void *p) { int32_t v; memcpy(&v, p, 4); return v; }
static inline int64_t ordo_get_i64(const void *p) { int64_t v; memcpy(&v, p, 8); return v; }
static inline void ordo_put_u16(void *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void ordo_put_i32(void *p, int32_t v) { memcpy(p, &v, 4); }
static inline void ordo_put_i64(void *p, int64_t v) { memcpy(p, &v, 8); }

static inline int64_t ordo_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}
static inline int64_t ordo_epoch_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Waits while *word == expected, at most timeout_ns; returns at once when it differs. Shared between processes. */
static inline int ordo_futex_wait(void *word, int32_t expected, int64_t timeout_ns) {
    struct timespec t = {timeout_ns / 1000000000LL, timeout_ns % 1000000000LL};
    return (int)syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &t, NULL, 0);
}
static inline int ordo_futex_wake(void *word, int count) {
    return (int)syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}
#endif

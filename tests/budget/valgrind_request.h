/* Tells Callgrind what to count. Outside of Valgrind the instructions do nothing: a register is rotated by 128 bits in
   all, and another is exchanged with itself, or set to itself. */

#ifndef ORDO_VALGRIND_REQUEST_H
#define ORDO_VALGRIND_REQUEST_H

#include <stdint.h>

#define CALLGRIND_TOOL 0x43540000u /* "CT" */

enum {
    CALLGRIND_ZERO = CALLGRIND_TOOL + 1,
    CALLGRIND_DUMP_AT = CALLGRIND_TOOL + 3,
    CALLGRIND_START = CALLGRIND_TOOL + 4,
    CALLGRIND_STOP = CALLGRIND_TOOL + 5,
};

static inline void valgrind_request(uint64_t request, const char *text) {
    volatile uint64_t arguments[6] = {request, (uint64_t)(uintptr_t)text, 0, 0, 0, 0};
    volatile uint64_t *first = arguments;
    uint64_t result = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "=d"(result)
                     : "a"(first), "0"(result)
                     : "cc", "memory");
#elif defined(__aarch64__)
    register volatile uint64_t *where __asm__("x4") = first;
    register uint64_t value __asm__("x3") = result;
    __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10"
                     : "+r"(value)
                     : "r"(where)
                     : "cc", "memory");
#endif
    (void)first;
    (void)result;
}

#endif

/* CRC32C (Castagnoli): the processor's instruction where there is one, a table where there is none.
 *
 * No compiler flag is needed: the functions that use the instruction carry it as their own target attribute, and
 * ordo_crc32c() asks the processor it runs on. One binary thus runs on every x86-64 (SSE4.2 is not part of its baseline)
 * and on every arm64 (the CRC extension is optional before ARMv8.1). All functions take 0 to start and the earlier result
 * to go on.
 */
#ifndef ORDO_CRC32C_H
#define ORDO_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define ORDO_CRC32C_HARDWARE "sse4.2"
#define ORDO_CRC32C_TARGET __attribute__((target("sse4.2")))
#define ORDO_CRC32C_BYTE(c, byte) _mm_crc32_u8((uint32_t)(c), (byte))
#define ORDO_CRC32C_WORD(c, word) _mm_crc32_u64((c), (word))
#elif defined(__aarch64__)
#include <sys/auxv.h>
#define ORDO_CRC32C_HARDWARE "armv8-crc"
#ifdef __clang__
#define ORDO_CRC32C_TARGET __attribute__((target("crc")))
#define ORDO_CRC32C_BYTE(c, byte) __builtin_arm_crc32cb((uint32_t)(c), (byte))
#define ORDO_CRC32C_WORD(c, word) __builtin_arm_crc32cd((uint32_t)(c), (word))
#else
#define ORDO_CRC32C_TARGET __attribute__((target("+crc")))
#define ORDO_CRC32C_BYTE(c, byte) __builtin_aarch64_crc32cb((uint32_t)(c), (byte))
#define ORDO_CRC32C_WORD(c, word) __builtin_aarch64_crc32cx((uint32_t)(c), (word))
#endif
#define ORDO_HWCAP_CRC32 (1UL << 7) /* Linux, arch/arm64: HWCAP_CRC32 */
#endif

#ifdef ORDO_CRC32C_HARDWARE
ORDO_CRC32C_TARGET static inline uint32_t ordo_crc32c_instruction(uint32_t crc, const void *data, size_t length_bytes) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t c = ~crc & 0xFFFFFFFFu;
    while (length_bytes >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = ORDO_CRC32C_WORD(c, word);
        p += 8;
        length_bytes -= 8;
    }
    while (length_bytes--) c = ORDO_CRC32C_BYTE(c, *p++);
    return ~(uint32_t)c;
}

static inline int ordo_crc32c_has_instruction(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") != 0;
#else
    static int known; /* 0: not asked, 1: no, 2: yes; two threads that ask at once store the same */
    int seen = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (seen == 0) {
        seen = getauxval(AT_HWCAP) & ORDO_HWCAP_CRC32 ? 2 : 1;
        __atomic_store_n(&known, seen, __ATOMIC_RELAXED);
    }
    return seen == 2;
#endif
}
#else
#define ORDO_CRC32C_HARDWARE "none"
static inline int ordo_crc32c_has_instruction(void) { return 0; }
static inline uint32_t ordo_crc32c_instruction(uint32_t crc, const void *data, size_t length_bytes) {
    (void)data;
    (void)length_bytes;
    return crc;
}
#endif

/* Slicing by eight: table[k][b] is the CRC of byte b followed by k zero bytes. Filled when it is first needed, which on a
 * processor with the instruction is never. Two threads that fill it at once write the same values. */
static inline const uint32_t (*ordo_crc32c_tables(void))[256] {
    static uint32_t table[8][256];
    static int filled;
    if (!__atomic_load_n(&filled, __ATOMIC_ACQUIRE)) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t c = byte;
            for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
            __atomic_store_n(&table[0][byte], c, __ATOMIC_RELAXED);
        }
        for (int k = 1; k < 8; k++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t before = table[k - 1][byte];
                __atomic_store_n(&table[k][byte], before >> 8 ^ table[0][before & 0xFF], __ATOMIC_RELAXED);
            }
        __atomic_store_n(&filled, 1, __ATOMIC_RELEASE);
    }
    return (const uint32_t (*)[256])table;
}

static inline uint32_t ordo_crc32c_plain(uint32_t crc, const void *data, size_t length_bytes) {
    const uint32_t(*table)[256] = ordo_crc32c_tables();
    const uint8_t *p = (const uint8_t *)data;
    uint32_t c = ~crc;
    while (length_bytes >= 8) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= c;
        c = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^ table[4][low >> 24] ^
            table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^ table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
        p += 8;
        length_bytes -= 8;
    }
    while (length_bytes--) c = c >> 8 ^ table[0][(c ^ *p++) & 0xFF];
    return ~c;
}

static inline uint32_t ordo_crc32c(uint32_t crc, const void *data, size_t length_bytes) {
    return ordo_crc32c_has_instruction() ? ordo_crc32c_instruction(crc, data, length_bytes)
                                         : ordo_crc32c_plain(crc, data, length_bytes);
}
#endif

"""AEAD, X25519 and a short MAC from OpenSSL's libcrypto."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    SUITE_AES = 1                      # AES-256-GCM
    SUITE_CHACHA = 2                   # ChaCha20-Poly1305
    KEY_LENGTH = 32
    TAG_LENGTH = 16

cdef class Aead:
    """One key in one direction. Nonces are numbers, written as Noise has them; none may come twice in sealing."""
    cdef void* _context
    cdef bint _is_big_endian
    cdef readonly bint is_sealing
    cdef bint seal(self, uint64_t number, const uint8_t* ad, int ad_length, const uint8_t* plain, int length,
                   uint8_t* out) noexcept nogil      # length + TAG_LENGTH bytes
    cdef bint open(self, uint64_t number, const uint8_t* ad, int ad_length, const uint8_t* sealed, int length,
                   uint8_t* out) noexcept nogil      # length: without the tag; False: not what was sealed

cdef bint mac16(const uint8_t* key, int key_length, const uint8_t* data, size_t length, uint8_t* out) noexcept nogil
cdef bint equal16(const uint8_t* a, const uint8_t* b) noexcept nogil

"""What all encrypted sockets of one network share. One thread at a time works with it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.transport.driver.frames.system_counters cimport SystemCounters

cdef enum:
    RECEIVE_ITEMS = 16
    RECEIVED_LENGTH_MAX = RECEIVE_ITEMS * 65536
    SEALED_LENGTH_MAX = 16 * 65536
    BUCKETS = 1024

cdef struct Bucket:
    int64_t tokens
    int64_t filled_ns

cdef class SecureContext:
    cdef Clock clock
    cdef int64_t now_ns
    cdef uint8_t* opened                       # what the last receive gave
    cdef uint8_t* sealed
    cdef uint8_t cookie_keys[64]               # the present one, and the one before
    cdef uint8_t own_public[32]
    cdef uint8_t preferred_suite
    cdef uint64_t salt
    cdef Bucket* buckets                       # handshakes, by host
    cdef int64_t notices_left
    cdef readonly object keyring
    cdef readonly int64_t rekey_ns
    cdef readonly uint64_t rekey_count
    cdef SystemCounters system
    cdef object entropy
    cdef object on_report
    cdef dict reported
    cdef void count(self, int index) noexcept nogil
    cdef bint make_cookie(self, const SocketAddress* source, const uint8_t* head, int key, uint8_t* out) noexcept nogil
    cdef bint is_cookie(self, const SocketAddress* source, const uint8_t* head, const uint8_t* cookie) noexcept nogil
    cdef bint admit(self, const SocketAddress* source) noexcept nogil
    cdef int64_t key_of(self, const SocketAddress* address) noexcept nogil

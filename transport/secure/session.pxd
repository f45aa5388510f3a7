"""The keys that two sockets agreed on, and what a socket knows of another one."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.transport.secure.crypto cimport Aead

cdef enum:
    HEAD_LENGTH = 16                   # kind and mark, index of the receiver's session, number
    HEAD_INDEX = 4                     # u32
    HEAD_NUMBER = 8                    # u64
    OVERHEAD_LENGTH = 32               # and the tag behind
    WINDOW_WORDS = 64                  # numbers that may arrive late: 63 * 64
    KIND_HELLO = 1
    KIND_COOKIE = 2
    KIND_INIT = 3
    KIND_RESPONSE = 4
    KIND_DATA = 5
    KIND_UNKNOWN = 6                   # answers a DATA of a session that is not known
    KIND_REFUSED = 7                   # answers an INIT of a key that is not trusted
    KIND_PLAIN = 8                     # answers a datagram that is not encrypted
    KIND_DISTRUSTED = 9                # the initiator's, about the key in the COOKIE
    OPENED_REPLAYED = -1
    OPENED_FORGED = -2

cdef class SecureSession:
    """Seals in one direction and opens in the other. A number is sealed once and opened once."""
    cdef Aead sealing
    cdef Aead opening
    cdef readonly uint32_t local_index         # by which the other side addresses it
    cdef readonly uint32_t remote_index
    cdef readonly bytes identity               # the other side's static key
    cdef readonly uint64_t sent_count
    cdef uint64_t highest                      # number received
    cdef uint64_t window[WINDOW_WORDS]
    cdef public int64_t renew_ns               # a new handshake is due from then on
    cdef public int64_t expire_ns              # worth nothing from then on
    cdef public bint is_confirmed              # the other side has shown that it has the keys
    cdef void* peer                            # SecurePeer, which keeps this session alive
    cdef bint seal(self, const uint8_t* plain, uint32_t length, uint8_t* out) noexcept nogil
    cdef int open(self, const uint8_t* datagram, uint32_t length, uint8_t* out) noexcept nogil
    cdef bint is_new(self, uint64_t number) noexcept nogil
    cdef void note(self, uint64_t number) noexcept nogil

cdef class SecurePeer:
    """A socket at another address: its sessions, and the handshake under way."""
    cdef SocketAddress address
    cdef readonly bytes packed
    cdef readonly tuple name                   # (host, port)
    cdef readonly SecureSession current        # what is sealed with
    cdef readonly SecureSession previous       # may still arrive
    cdef readonly SecureSession next           # answered, but not confirmed yet
    cdef public object calling                 # Calling, or None
    cdef bint is_calling
    cdef uint32_t calling_index
    cdef uint64_t calling_nonce
    cdef public int64_t attend_ns              # no other handshake before
    cdef public int64_t used_ns                # when something was sent or received
    cdef public int64_t heard_ns               # when something was received
    cdef public int attempt_count
    cdef public bytes answered_ephemeral       # of the INIT that made `next`, and the RESPONSE to it
    cdef public bytes answer
    cdef public list held                      # datagrams that wait for a session
    cdef public int held_bytes

cdef inline uint32_t get_u32(const uint8_t* p) noexcept nogil:
    return <uint32_t> p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24

cdef inline uint64_t get_u64(const uint8_t* p) noexcept nogil:
    return <uint64_t> get_u32(p) | <uint64_t> get_u32(p + sizeof(uint32_t)) << 32

cdef inline void put_head(uint8_t* p, uint8_t kind, uint32_t index, uint64_t number) noexcept nogil:
    cdef int i
    p[0] = kind
    p[1] = 0x4F
    p[2] = 0x53
    p[3] = 0xF1
    for i in range(4):
        p[HEAD_INDEX + i] = <uint8_t> (index >> (8 * i))
    for i in range(8):
        p[HEAD_NUMBER + i] = <uint8_t> (number >> (8 * i))

cdef inline bint has_mark(const uint8_t* p, uint32_t length) noexcept nogil:
    return length >= HEAD_LENGTH and p[1] == 0x4F and p[2] == 0x53 and p[3] == 0xF1

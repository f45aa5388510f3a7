"""A socket whose datagrams are encrypted."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from ordo.runtime.io.datagram cimport DatagramChannel, ReceiveItem, SendItem, SocketAddress
from ordo.transport.driver.frames.pointers cimport PointerMap
from ordo.transport.secure.context cimport SecureContext
from ordo.transport.secure.session cimport SecurePeer, SecureSession

cdef enum:
    SEND_ITEMS = 64

cdef class SecureChannel(DatagramChannel):
    """Seals what is sent and opens what is received; frames inside are as they were, in batches as they were."""
    cdef readonly DatagramChannel inner
    cdef SecureContext context
    cdef object on_close
    cdef readonly dict peers                   # address key -> SecurePeer
    cdef PointerMap by_address                 # the same, for native code
    cdef PointerMap by_index                   # local index -> SecureSession, which its peer keeps alive
    cdef SecurePeer connected                  # of a connected socket
    cdef SendItem queue[SEND_ITEMS]
    cdef int ends[SEND_ITEMS]                  # items whole when this one of the queue is sent
    cdef int queued
    cdef uint32_t queued_bytes
    cdef void* _peer_of(self, const SocketAddress* to) noexcept nogil
    cdef bint _is_ready(self, void* peer) noexcept nogil
    cdef int _flush(self, int done) noexcept nogil
    cdef int _queue_sealed(self, void* peer, SendItem* item, int index) noexcept nogil
    cdef int _take(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source,
                   uint8_t* out) noexcept nogil
    cdef int _open(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source,
                   uint8_t* out) noexcept nogil
    cdef void _refuse_plain(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil
    cdef void _answer_hello(self, const uint8_t* hello, const SocketAddress* source) noexcept nogil
    cdef void _answer(self, uint8_t kind, const uint8_t* datagram, uint32_t length,
                      const SocketAddress* source) noexcept nogil
    cdef void _send_one(self, const uint8_t* datagram, uint32_t length, const SocketAddress* to) noexcept nogil
    cdef void _handshake(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil
    cdef bint _is_expected(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil
    cdef void _attend(self, const SocketAddress* to, SendItem* item) noexcept nogil
    cdef _want_keys(self, const SocketAddress* to, SendItem* item)
    cdef _on_handshake(self, bytes datagram, bytes packed, const SocketAddress* source)
    cdef bint _confirm(self, void* session) noexcept nogil

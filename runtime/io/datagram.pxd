"""The datagram seam: UDP sockets in production, a simulated network in tests.

Batches only. A `SendItem` may hold several datagrams of equal length (the last may be shorter) back to back:
`segment_length_bytes` is the length of one. The same holds for a `ReceiveItem`.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

cdef enum:
    # offsets in a sockaddr_in or sockaddr_in6, after the family
    ADDRESS_PORT = 2                   # u16, in network order
    ADDRESS_IPV4 = 4                   # 4 bytes
    ADDRESS_IPV6 = 8                   # 16 bytes
    ADDRESS_LENGTH_IPV4 = 16           # of the whole; that of IPv6 is longer

cdef struct SocketAddress:
    uint8_t storage[28]                # a sockaddr_in or sockaddr_in6 as the kernel has it
    uint32_t length_bytes              # 0: none

cdef struct SendItem:
    const uint8_t* data
    uint32_t length_bytes
    uint32_t segment_length_bytes
    const SocketAddress* to            # NULL on a connected channel

cdef struct ReceiveItem:
    uint8_t* data                      # owned by the channel, valid until its next receive
    uint32_t length_bytes
    uint32_t segment_length_bytes
    SocketAddress source
    int64_t time_ns                    # when it arrived, since 1970, where the channel notes times; else 0

cdef class DatagramChannel:
    """One socket. `ready` is set by `DatagramNetwork.select` when a receive would find something."""
    cdef public bint ready
    cdef int send(self, SendItem* items, int count) noexcept nogil          # items sent whole, or -errno
    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil # items filled, or -errno

cdef class DatagramNetwork:
    """A network that opens channels and waits for all of them together."""
    cdef bint is_asked_at_once        # a receive that finds nothing costs no more than a select
    cdef int select(self, int64_t timeout_ns) noexcept nogil  # marks ready channels; 0 = look only; count, or -errno
    cdef int wait(self, int64_t timeout_ns) noexcept nogil    # until a select would find something; marks nothing

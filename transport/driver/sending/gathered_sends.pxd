"""Datagrams of several streams that leave the same socket: they go out together, with one system call."""

from libc.stdint cimport int64_t
from ordo.runtime.io.datagram cimport SendItem, SocketAddress
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.driver.sending.send_endpoint cimport SendEndpoint
from ordo.transport.driver.sending.sent_stream cimport SentStream

cdef enum:
    GATHERED_MAX = 64

cdef struct GatheredSend:
    void* stream                       # SentStream
    SendItem item
    int64_t position_after
    int next                           # of the same endpoint, or -1

cdef class GatheredSends:
    cdef SystemCounters _system
    cdef GatheredSend _sends[GATHERED_MAX]
    cdef void* _endpoints[GATHERED_MAX]        # SendEndpoint: those with something to send
    cdef int _count
    cdef int _endpoint_count
    cdef int64_t _unsent_bytes
    cdef bint has_room(self) noexcept nogil
    cdef void add(self, SentStream stream, const SendItem* item, int64_t position_after,
                  const SocketAddress* to) noexcept nogil
    cdef void flush(self, int64_t now_ns) noexcept nogil
    cdef void flush_endpoint(self, SendEndpoint endpoint, int64_t now_ns) noexcept nogil
    cdef int64_t take_unsent(self) noexcept nogil              # bytes that could not be sent

"""All network publications and the sockets they send from."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.transport.driver.frames.event_log cimport EventLog
from ordo.transport.driver.sending.gathered_sends cimport GatheredSends
from ordo.transport.driver.sending.network_publication cimport NetworkPublication
from ordo.transport.driver.frames.pointers cimport PointerArray, WorkSet
from ordo.transport.driver.sending.send_endpoint cimport SendEndpoint
from ordo.transport.driver.frames.system_counters cimport SystemCounters

cdef class Sender:
    cdef SystemCounters system
    cdef public EventLog events
    cdef WorkSet publications
    cdef int send_cursor
    cdef int conduct_cursor
    cdef int64_t sent_ns                       # when quiet publications were visited last
    cdef int64_t conducted_ns
    cdef int64_t received_ns                   # when sockets were asked last
    cdef PointerArray endpoints
    cdef GatheredSends _gathered
    cdef readonly list errors                  # ERR frames for the conductor
    cdef readonly list response_setups         # (publication, session of its response) for the conductor
    cdef int64_t errors_since_ns               # clients were told of `errors_told` ERR frames since then
    cdef int errors_told
    cdef int waiting_count                     # entries of both, for native code
    cdef int next_start
    cdef SocketAddress encrypted_source        # of an encrypted datagram, which this driver cannot read
    cdef int receive(self, int64_t now_ns) noexcept nogil      # control frames
    cdef int send(self, int64_t now_ns) noexcept nogil         # bytes
    cdef int conduct(self, int64_t now_ns) noexcept nogil
    cdef bint has_work(self) noexcept nogil
    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil
    cdef int _poll(self, SendEndpoint endpoint, int* spare, int64_t now_ns) noexcept nogil
    cdef void _dispatch(self, SendEndpoint endpoint, const uint8_t* datagram, uint32_t length,
                        const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef void _on_response_setup(self, NetworkPublication publication, const uint8_t* frame) noexcept nogil
    cdef void _on_error(self, NetworkPublication publication, SendEndpoint endpoint, const uint8_t* frame,
                        uint32_t length, const SocketAddress* source, int64_t now_ns) noexcept nogil

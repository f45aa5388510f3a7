"""All sockets that receive, and the images their datagrams belong to."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.transport.driver.flow.admission cimport Admission
from ordo.transport.driver.frames.event_log cimport EventLog
from ordo.transport.driver.frames.pointers cimport PointerArray, WorkSet
from ordo.transport.driver.receiving.publication_image cimport PublicationImage
from ordo.transport.driver.receiving.receive_endpoint cimport ReceiveTransport
from ordo.transport.driver.frames.system_counters cimport SystemCounters

cdef class Receiver:
    cdef SystemCounters system
    cdef public EventLog events
    cdef PointerArray transports
    cdef WorkSet images
    cdef int cursor
    cdef int64_t swept_ns                      # when quiet images were visited last
    cdef int64_t received_ns                   # when sockets were asked last
    cdef readonly list setups                  # for the conductor: images to build
    cdef readonly dict pending_endpoints       # for the conductor: those with PENDING_SETUP markers, as keys
    cdef readonly Admission admission
    cdef int pending_max
    cdef int setup_count
    cdef SocketAddress encrypted_source        # of an encrypted datagram, which this driver cannot read
    cdef void expect(self) noexcept nogil
    cdef int receive(self, int64_t now_ns) noexcept nogil      # datagrams
    cdef int conduct(self, int64_t now_ns) noexcept nogil
    cdef bint has_unread(self) noexcept nogil
    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil
    cdef int _poll(self, ReceiveTransport transport, int* spare, int64_t now_ns) noexcept nogil
    cdef int _dispatch(self, ReceiveTransport transport, const uint8_t* datagram, uint32_t length,
                       const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef void _on_data(self, ReceiveTransport transport, PublicationImage image, const uint8_t* datagram,
                       uint32_t length, const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef void _on_invalid(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil
    cdef void _on_unknown_data(self, ReceiveTransport transport, const uint8_t* datagram, const SocketAddress* source,
                               int64_t now_ns) noexcept nogil
    cdef void _on_setup(self, ReceiveTransport transport, const uint8_t* frame, const SocketAddress* source,
                        int64_t now_ns) noexcept nogil
    cdef void _on_rttm(self, ReceiveTransport transport, const uint8_t* frame,
                       const SocketAddress* source, int64_t now_ns) noexcept nogil

"""Where datagrams of subscriptions arrive: endpoints, their sockets, and who is interested in what."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport DatagramChannel, SocketAddress
from ordo.transport.driver.frames.event_log cimport EventLog
from ordo.transport.driver.frames.pointers cimport PointerMap
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.driver.frames.timestamps cimport FrameStamper

cdef enum:
    # what the map of sessions holds for a session that has no image; pointers are above these
    SESSION_PENDING_SETUP = 1
    SESSION_INIT_IN_PROGRESS = 2
    SESSION_COOL_DOWN = 3
    SESSION_NO_INTEREST = 4
    SESSION_MARKERS = 5
    # what the map of streams holds
    SOME_SESSIONS = 1
    ANY_SESSION = 2

cdef class ReceiveTransport:
    """One socket of an endpoint. A multi-destination subscription has several, any other one."""
    cdef readonly DatagramChannel channel
    cdef readonly object spec                  # UdpChannelSpec
    cdef readonly ReceiveEndpoint endpoint
    cdef readonly int64_t registration_id      # of the destination; of the endpoint's creator otherwise
    cdef readonly bint is_multicast
    cdef readonly bint has_explicit_control    # asks a publisher's control address for SETUP
    cdef SocketAddress control                 # multicast control group, or the explicit control address
    cdef int64_t last_setup_request_ns
    cdef public object local_address_counter
    cdef bint send_frame(self, const uint8_t* frame, uint32_t length, const SocketAddress* to) noexcept nogil

cdef class ReceiveEndpoint:
    cdef readonly object spec
    cdef readonly list transports
    cdef readonly int64_t receiver_id
    cdef readonly bint has_tag
    cdef readonly int64_t tag
    cdef readonly FrameStamper stamper         # of frames that arrive, or None
    cdef readonly FrameStamper media_stamper   # of the same, with the time that the kernel noted; or None
    cdef int64_t arrival_time_ns               # of the datagram that is dispatched, where the kernel notes it; else 0
    cdef EventLog events
    cdef SystemCounters system
    cdef PointerMap sessions                   # (session, stream) -> PublicationImage or a SESSION_ marker
    cdef PointerMap streams                    # stream -> whether any session of it is wanted, or some only
    cdef readonly dict images                  # the same images, kept alive
    cdef readonly dict interests               # stream -> list of session ids (None: any), one a subscription
    cdef int pending_count                     # len(pending), for native code
    cdef readonly dict pending                 # (session, stream) -> deadline of its PENDING_SETUP marker, ns
    cdef readonly int reference_count
    cdef public object status
    cdef void request_setup(self, ReceiveTransport transport, const SocketAddress* to, int32_t session_id,
                            int32_t stream_id) noexcept nogil

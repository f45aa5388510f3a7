"""The driver's side of an image: takes datagrams in, rebuilds, asks for what is missing, tells what was consumed."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.transport.driver.flow.claims cimport Claims
from ordo.transport.driver.flow.congestion cimport ReceiveWindow
from ordo.transport.driver.flow.loss cimport LossDetector
from ordo.transport.driver.frames.pointers cimport PointerArray, Worked
from ordo.transport.driver.receiving.receive_endpoint cimport ReceiveEndpoint, ReceiveTransport
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.streams.logbuffer cimport LogBuffers

cdef enum:
    IMAGE_ACTIVE = 1
    IMAGE_DRAINING = 2
    IMAGE_LINGER = 3
    IMAGE_DONE = 4
    DATAGRAM_REFUSED = 0
    DATAGRAM_HEARD = 1                 # its sender lives; a turn would find nothing new
    DATAGRAM_TAKEN = 2

cdef struct Connection:
    void* transport                    # ReceiveTransport, kept alive by the endpoint
    SocketAddress source               # whose datagrams count: the first that was heard on this transport
    SocketAddress control              # where SM, NAK, ERR go
    int64_t last_heard_ns
    int64_t credit_bytes               # came from the source, less what was sent in return
    bint heard                         # a data frame or heartbeat came on it
    bint is_end_of_stream
    int64_t end_position

cdef class PublicationImage(Worked):
    cdef readonly LogBuffers log
    cdef readonly ReceiveEndpoint endpoint
    cdef readonly LossDetector loss
    cdef SystemCounters system
    cdef readonly int32_t session_id
    cdef readonly int32_t stream_id
    cdef readonly int64_t correlation_id
    cdef readonly str source_identity
    cdef readonly dict counters
    cdef readonly int state
    cdef int32_t term_length
    cdef int32_t shift
    cdef int32_t initial_term_id
    cdef readonly ReceiveWindow window
    cdef int64_t reach                         # frames further ahead of the status message are refused
    cdef readonly bint is_reliable
    cdef readonly bint rejoins
    cdef int64_t* high_water_cell              # rcv-hwm
    cdef int64_t* rebuild_cell                 # rcv-pos
    cdef int64_t* naks_cell                    # rcv-naks-sent
    cdef readonly Claims claims                # what is in the log
    cdef readonly int64_t high_water
    cdef readonly int64_t rebuild_position
    cdef int64_t sm_position                   # scheduled
    cdef int64_t sm_sent_position
    cdef bint sm_due
    cdef int64_t sm_sent_ns
    cdef int64_t sm_timeout_ns
    cdef int64_t last_packet_ns
    cdef int64_t created_ns
    cdef readonly bint is_confirmed            # its sender was heard of again, a while after the SETUP
    cdef SocketAddress setup_source            # where that came from
    cdef int64_t liveness_timeout_ns
    cdef int64_t connection_timeout_ns
    cdef int64_t state_changed_ns
    cdef NativeVector connections              # of Connection
    cdef PointerArray subscribers              # sub-pos cells that hold the window
    cdef readonly bint is_end_of_stream
    cdef readonly bint is_revoked
    cdef public bint asks_response             # its publisher wants a response channel
    cdef readonly bint has_response            # of which its sender is told
    cdef int32_t response_session_id
    cdef readonly bint is_superseded           # a later image of the session speaks now
    cdef readonly bytes rejection              # reason, or None
    cdef bint is_rejected
    cdef public object setup                   # what it was built from
    cdef public str channel                    # of the first subscription
    cdef public object loss_record             # of the loss report, or None

    cdef int on_data(self, const uint8_t* datagram, uint32_t length, ReceiveTransport transport,
                     const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef bint is_of_setup(self, const uint8_t* frame) noexcept nogil
    cdef void on_setup(self, ReceiveTransport transport, const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef inline bint rests(self, int64_t now_ns) noexcept nogil:
        """Return whether a turn would find nothing: all that came is rebuilt, no gap waits, too little came since the
        last status message for the next one, and no timer is due."""
        return (self.rebuild_position <= self.sm_position + self.window.length / 4
                and self.rebuild_position >= self.high_water and self.rebuild_position == self.rebuild_cell[0]
                and self.loss.active.length == 0 and not self.sm_due and not self.window.is_cubic
                and now_ns - self.sm_sent_ns <= self.sm_timeout_ns)
    cdef int conduct(self, int64_t now_ns) noexcept nogil
    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil
    cdef bint has_unread(self) noexcept nogil
    cdef bint is_settled(self) noexcept nogil
    cdef bint _is_foreign(self, ReceiveTransport transport, const SocketAddress* source, uint32_t length) noexcept nogil
    cdef Connection* _track(self, ReceiveTransport transport, const SocketAddress* source, uint32_t length,
                            int64_t now_ns) noexcept nogil
    cdef int _on_heartbeat(self, const uint8_t* datagram, int64_t position, Connection* connection,
                           int64_t now_ns) noexcept nogil
    cdef void _on_end_of_stream(self, const uint8_t* datagram, int64_t position, Connection* connection) noexcept nogil
    cdef bint _claim(self, int64_t start, int64_t end) noexcept nogil
    cdef void _insert(self, const uint8_t* datagram, uint32_t length, int64_t position, int64_t covered) noexcept nogil
    cdef void _insert_frames(self, const uint8_t* datagram, uint32_t length, int64_t position) noexcept nogil
    cdef bint _is_there(self, const uint8_t* frame, int64_t position, int64_t aligned) noexcept nogil
    cdef void _rebuild(self, int64_t now_ns) noexcept nogil
    cdef void _on_gap(self, int64_t now_ns) noexcept nogil
    cdef void _schedule_status(self, int64_t least) noexcept nogil
    cdef void _send_status(self, int64_t now_ns) noexcept nogil
    cdef void _send_response_setup(self, int64_t now_ns) noexcept nogil
    cdef void _send_nak(self, int64_t now_ns) noexcept nogil
    cdef void _send_probe(self, int64_t now_ns) noexcept nogil
    cdef void on_rttm(self, ReceiveTransport transport, const uint8_t* frame, const SocketAddress* source,
                      int64_t now_ns) noexcept nogil
    cdef void _send_error(self, int64_t now_ns) noexcept nogil
    cdef int _send_all(self, const uint8_t* frame, uint32_t length, int64_t now_ns) noexcept nogil
    cdef void _record_loss(self, int64_t length) noexcept nogil

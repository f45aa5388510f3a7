"""A publication that is sent over UDP: sender side, retransmission, publisher limit (transport-wire.md §4)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport SocketAddress
from ordo.runtime.native.atomics cimport ordo_load_acquire_i32
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.transport.driver.flow.flow_control cimport FlowControl
from ordo.transport.driver.frames.pointers cimport PointerArray
from ordo.transport.driver.sending.gathered_sends cimport GatheredSends
from ordo.transport.driver.sending.sent_stream cimport SentStream

cdef enum:
    BATCH_LENGTH_MAX = 262144          # bytes a publication sends in one turn
    RESENDS_MAX = 256
    HEARTBEAT_INTERVAL_NS = 100000000

cdef enum:
    PUBLICATION_ACTIVE = 0
    PUBLICATION_DRAINING = 1
    PUBLICATION_LINGER = 2
    PUBLICATION_DONE = 3

cdef struct Liveness:
    int64_t receiver_id
    int64_t last_heard_ns

cdef struct Repeats:
    int64_t since_ns                   # what a receiver asked for again from then on, for as long as a resend lingers
    int64_t since_position             # of the sender, then
    int64_t length_bytes

cdef struct Resend:
    int64_t position
    int64_t length
    int64_t deadline_ns                # when to send (delayed), or when to forget (lingering)
    int state                          # 0 free, 1 delayed, 2 lingering
    SocketAddress to                   # who asked; length 0: no listed destination has its address
    Repeats repeats                    # of a listed receiver

cdef class NetworkPublication(SentStream):
    cdef readonly FlowControl flow_control
    cdef readonly int64_t registration_id
    cdef readonly int64_t client_id
    cdef readonly bint is_exclusive
    cdef readonly int64_t window
    cdef readonly bint signal_eos
    cdef readonly bint spies_simulate_connection
    cdef readonly object parameters            # PublicationParameters
    cdef readonly dict counters                # name -> Counter
    # counter cells
    cdef int64_t* position_cell                # pub-pos
    cdef int64_t* limit_cell                   # pub-lmt
    cdef int64_t* sender_limit_cell            # snd-lmt
    cdef int64_t* back_pressure_cell           # snd-bpe
    cdef int64_t* naks_cell                    # snd-naks-received
    # sender
    cdef int64_t sender_limit
    cdef bint is_quiet                         # one of thousands that rest: fewer heartbeats are enough
    cdef int64_t last_setup_ns
    cdef int64_t setup_interval_ns
    cdef readonly int setups_left              # before an address has answered; SETUPS_UNBOUND: any number
    cdef int64_t idle_deadline_ns
    cdef bint has_initial_connection
    cdef bint setup_elicited
    cdef bint has_receivers
    cdef bint is_end_of_stream
    cdef bint is_revoked
    cdef bint received_unicast_eos
    cdef readonly bint is_response             # to the one requester whose image it was added for
    cdef readonly bint wants_response          # its SETUP asks the receiver for a response channel
    cdef SocketAddress response_address        # where a response goes; length 0 until the requester is heard
    cdef NativeVector receivers                # of Liveness
    cdef Resend* resends
    cdef int resend_count
    cdef int resends_active
    cdef Repeats repeats                       # of all that are not listed, and of the one receiver that unicast has
    cdef int64_t connection_timeout_ns
    cdef int64_t resend_delay_ns
    cdef int64_t resend_linger_ns
    cdef int64_t linger_timeout_ns
    # conductor
    cdef int64_t clean_position
    cdef PointerArray spies                    # their sub-pos cells
    cdef int64_t publisher_limit
    cdef int64_t limited_position              # of the sender when that limit could not be moved up; -1: look each turn
    cdef readonly int state
    cdef public int reference_count
    cdef int64_t state_changed_ns
    cdef int64_t unblock_position
    cdef int64_t unblock_changed_ns
    cdef int64_t unblock_timeout_ns

    cdef inline bint rests(self, int64_t now_ns) noexcept nogil:
        """Return whether a turn of the sender would find nothing to send, and no timer is due."""
        return (ordo_load_acquire_i32(self.log.at(self.sender_position)) <= 0
                and now_ns - self.last_send_ns <= HEARTBEAT_INTERVAL_NS and now_ns < self.idle_deadline_ns
                and self.has_initial_connection and not self.setup_elicited and self.resends_active == 0
                and not self.spies_simulate_connection)
    cdef int send(self, int64_t now_ns, GatheredSends gathered) noexcept nogil         # bytes
    cdef bint _has_nobody(self) noexcept nogil
    cdef bint has_work(self) noexcept nogil
    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil
    cdef inline bint limit_rests(self) noexcept nogil:
        """Return whether a turn of the conductor would leave the publisher's limit where it is: since it could not be
        moved up, neither the publisher nor the sender has got further, and there is somebody to send to."""
        return (self.sender_position == self.limited_position and self.has_receivers
                and self.log.producer_position() == self.position_cell[0]
                and self.flow_control.has_required_receivers())
    cdef int conduct(self, int64_t now_ns) noexcept nogil
    cdef void on_status_message(self, const uint8_t* frame, uint32_t length, const SocketAddress* source,
                                int64_t now_ns) noexcept nogil
    cdef void on_nak(self, const uint8_t* frame, const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef int _resend_slot(self, const SocketAddress* to, int64_t position) noexcept nogil
    cdef void on_rttm(self, const uint8_t* frame, const SocketAddress* source) noexcept nogil
    cdef void _answer_to(self, SocketAddress* to, const SocketAddress* source) noexcept nogil
    cdef bint on_error(self, int64_t receiver_id) noexcept nogil
    cdef int _send_data(self, int64_t now_ns, GatheredSends gathered) noexcept nogil
    cdef void _send_setup(self, int64_t now_ns) noexcept nogil
    cdef bint _wants_setup(self) noexcept nogil
    cdef void _unbind_setups(self) noexcept nogil
    cdef void _send_heartbeat(self, int64_t now_ns) noexcept nogil
    cdef int64_t _heartbeat_interval_ns(self, int64_t now_ns) noexcept nogil
    cdef void _expire_receivers(self, int64_t now_ns) noexcept nogil
    cdef void _heard(self, int64_t receiver_id, int64_t now_ns) noexcept nogil
    cdef bint _forget(self, int64_t receiver_id) noexcept nogil
    cdef void _update_connected(self) noexcept nogil
    cdef void _back_pressured(self) noexcept nogil
    cdef void _resend(self, const Resend* resend) noexcept nogil
    cdef bint _may_repeat(self, Repeats* repeats, int64_t length, int64_t most, int64_t now_ns) noexcept nogil
    cdef void _run_resends(self, int64_t now_ns) noexcept nogil
    cdef bint _has_subscribers(self) noexcept nogil
    cdef int64_t _min_consumer(self) noexcept nogil
    cdef void _clean_to(self, int64_t position) noexcept nogil
    cdef bint _may_move_limit(self, int64_t limit) noexcept nogil

"""The native half of the cluster client: offers to the ingress, egress to the callback."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.runtime.agents.use cimport Use
from ordo.transport.client.client_core cimport ClientCore
from ordo.transport.driver.media_driver cimport MediaDriver
from ordo.transport.streams.image cimport Assembler, Image
from ordo.transport.streams.publication cimport ExclusivePublication
from ordo.transport.streams.subscription cimport Subscription

cdef class MessageHandler:
    """`on_message` of a ClusterClient in Cython: called without a Python object for each message.

    The payload is valid inside the call only.
    """
    cdef int on_message(self, int64_t session_id, int64_t timestamp, const uint8_t* payload,
                        int64_t length_bytes) except -1

cdef class ClientLoop:
    """What happens once a message; `ordo.cluster.client.session` keeps the states of the session."""
    cdef ExclusivePublication _ingress             # None: no leader to send to
    cdef uint8_t _header[32]
    cdef int64_t _session_id
    cdef Subscription _egress
    cdef tuple _images                             # of the subscription, as `_assemblers` knows them
    cdef list _assemblers
    cdef MediaDriver _driver                       # None: it is another process's
    cdef ClientCore _client
    cdef Clock _clock
    cdef object _drive                             # of a transport that runs itself, else None
    cdef readonly int64_t driven_ns                # when the transport ran last
    cdef int64_t _cycle_seen                       # of the driver, at this client's last call: others may share it
    cdef int64_t _cycle_unsent                     # of the driver, at the last offer
    cdef readonly Use use                          # the transport's: entered by every call
    cdef readonly bint is_ended                    # no call runs the transport any more, but for the end's own
    cdef int64_t _message_bytes_max                # with its header, as far as the log takes it
    cdef MessageHandler _handler                   # None: `_on_message` is called
    cdef object _on_message
    cdef object _on_messages                       # None: one message at a time
    cdef NativeVector _payloads                    # back to back, for `_on_messages`
    cdef NativeVector _lengths                     # int64_t each
    cdef NativeVector _timestamps                  # int64_t each
    cdef object _on_event
    cdef object _on_offered
    cdef object _on_answer                         # None: nothing was requested
    cdef readonly int64_t answered_position        # of the log: up to here answers to requests have come
    cdef object _on_tick
    cdef object _on_poll                           # None: nothing is to be done each time
    cdef public int64_t next_tick_ns               # when `poll` calls `_on_tick`
    cdef readonly int64_t longest_stop_ns          # between two polls
    cdef bint _no_room                             # the leader takes no messages for now
    cdef bint _ingress_lost                        # an offer found it closed or not connected
    cdef bint _polling                             # a callback of poll_egress is running
    cdef int64_t _sent                             # messages since the last keep-alive
    cdef object _kept                              # deque: payloads of `offer` whose fate is not known; None: not kept
    cdef public int64_t kept_bytes                 # of them
    cdef int64_t _kept_bytes_max
    cdef readonly int64_t unsent                   # offers since the transport ran last

    cdef int64_t _offer_kept(self, bytes payload) except? -1
    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil
    cdef int64_t _offer(self, payload) except? -100
    cdef void _note_unsent(self, int count) noexcept nogil
    cpdef int enter(self) except -1
    cpdef int leave(self) except -1
    cpdef int64_t drive(self) except -1
    cpdef int64_t run_transport(self) except -1
    cdef int64_t _drive_unless_driven(self) except -1
    cpdef int flush(self) except -1
    cpdef int poll_egress(self, int limit) except -1
    cdef int _poll_image(self, Image image, Assembler assembler, int limit) except -1
    cdef int _take(self, const uint8_t* message, int64_t length_bytes, Image image) except -1
    cdef int _take_answer(self, const uint8_t* message, int64_t length_bytes) except -1
    cdef int _follow_images(self) except -1
    cdef int _collect(self, int64_t timestamp, const uint8_t* payload, int64_t length_bytes) except -1
    cdef int _hand_out(self) except -1

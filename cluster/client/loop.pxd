"""The native half of the cluster client: offers to the ingress, egress to the callback."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from transport.image cimport Assembler, Image
from transport.publication cimport ExclusivePublication
from transport.subscription cimport Subscription

cdef class ClientLoop:
    """What happens once a message; `cluster.client.session` keeps the states of the session."""
    cdef ExclusivePublication _ingress             # None: no leader to send to
    cdef uint8_t _header[32]
    cdef int64_t _session_id
    cdef Subscription _egress
    cdef tuple _images                             # of the subscription, as `_assemblers` knows them
    cdef list _assemblers
    cdef object _on_message
    cdef object _on_event
    cdef object _on_offered
    cdef object _on_answer                         # None: nothing was requested
    cdef bint _ingress_lost                        # an offer found it closed or not connected
    cdef bint _polling                             # a callback of poll_egress is running
    cdef int64_t _sent                             # messages since the last keep-alive
    cdef readonly int64_t unsent                   # offers since the transport ran last

    cdef int64_t _append(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil
    cdef int _poll_image(self, Image image, Assembler assembler, int limit) except -1
    cdef int _take(self, const uint8_t* message, int64_t length_bytes, Image image) except -1
    cdef int _take_answer(self, const uint8_t* message, int64_t length_bytes) except -1
    cdef int _follow_images(self) except -1

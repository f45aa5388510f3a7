"""What clients do not take: kept beside the service, up to a bound, so that nobody waits for them."""

from libc.stdint cimport int64_t, uint8_t

from ordo.transport.streams.publication cimport Publication

cdef class EgressBuffers:
    """The outboxes of all sessions of a container, and what they may keep in all."""
    cdef readonly int64_t session_bytes_max
    cdef readonly int64_t total_bytes_max
    cdef readonly int64_t kept_bytes
    cdef readonly int64_t messages_dropped     # of sessions that would rather miss the oldest
    cdef dict _waiting                         # session id -> Outbox that keeps something
    cdef list _slow                            # ids of sessions given up since they were taken last
    cdef object _encode_gap
    cdef int drain(self) except -1
    cdef Outbox _find_largest(self)

cdef class Outbox:
    """Sends one session's messages in order; keeps those that its publication does not take now."""
    cdef EgressBuffers _buffers
    cdef readonly int64_t session_id
    cdef readonly bint drops_oldest
    cdef readonly int64_t kept_bytes
    cdef Publication publication               # None: not connected, or given up
    cdef object _messages                      # deque of encoded messages, or None before the first
    cdef bint _keeps                           # there are some
    cdef int64_t _gap                          # messages dropped since the client was told last
    # header and payload of one message: a position, KEPT, or a negative result code
    cdef int64_t send(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                      int64_t length_bytes) noexcept nogil
    cdef int64_t _append(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                         int64_t length_bytes) noexcept nogil
    cdef int64_t _keep(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                       int64_t length_bytes) noexcept
    cdef int64_t _keep_message(self, bytes message) except -100
    cdef int drain(self) except -1
    cdef int _drop_oldest(self) except -1
    cdef int _clear(self) except -1
    cdef int connect(self, Publication publication) except -1
    cdef int _give_up(self) except -1

"""The base for services written in Cython: the message callback works without Python objects."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    MOCKED_OFFER = 1        # accepted and dropped: this member does not lead
    KEPT = 2                # accepted: sent as soon as the client takes it
    NOT_CONNECTED = -1
    BACK_PRESSURED = -2
    ADMIN_ACTION = -3
    CLOSED = -4
    MAX_POSITION_EXCEEDED = -5
    MESSAGE_TOO_LONG = -6   # for the publication: 32 bytes of header + payload > its max_message_length

cdef class NativeSession:
    """A client session as the container sees it; `offer_native` returns a position or a negative result code.

    `reply_native` answers the message being executed, once (ordo.service_api.service.ClientSession.reply).
    """
    cdef readonly int64_t id
    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil
    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1

cdef class SinkSession(NativeSession):
    """A session whose messages go to `sink(session, payload: bytes) -> result`: for harnesses and tests.

    What the sink raises to a native service is kept in `error` and answered as CLOSED.
    """
    cdef readonly object sink
    cdef public object error
    cdef public bytes identity         # of the request being executed
    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1
    cdef int64_t _offer(self, const uint8_t* payload, int64_t length_bytes) noexcept

cdef class Header:
    """The position in the log of the record being executed. One object for all records: valid during the callback
    only."""
    cdef readonly int64_t position              # after the record
    cdef readonly int64_t leadership_term_id    # in which it was appended
    cdef readonly int64_t sequence              # of the message, from 1 on; 0: it has none
    cdef int64_t arrival                        # at the leader, ns since 1970; 0: not known

cdef class MessageSequence:
    """The numbers of the messages that a log gives to its services: dense, and the same for whoever executes it.

    They are counted from the log's beginning. From the protocol level on that has them (`is_kept`) snapshots hold the
    last one. A snapshot of a lower level does not, so from its record on messages have no number, whoever executes
    them, until the level comes: numbers go on after its record's position, which is above all earlier ones.
    """
    cdef readonly int64_t last                  # number; 0: none yet, or messages have none
    cdef readonly bint is_counting
    cdef readonly bint is_kept                  # in snapshots: the log has the protocol level
    cdef inline int64_t take(self) noexcept nogil:
        self.last += self.is_counting
        return self.last

cdef class NativeClusteredService:
    """A service in Cython: subclass and implement `on_message`; the other callbacks stay the Python ones of
    ClusteredService.

    `session` is None for a message from a service. `payload` is valid during the call only.
    """
    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1

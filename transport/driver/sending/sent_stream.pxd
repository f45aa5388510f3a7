"""The part of a network publication that reads its log buffer: datagrams of whole committed frames, and how far they
were sent."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.io.datagram cimport SendItem
from ordo.transport.driver.frames.pointers cimport Worked
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.driver.sending.send_endpoint cimport SendEndpoint
from ordo.transport.streams.logbuffer cimport LogBuffers

cdef enum:
    ITEMS_MAX = 16                     # send items of one batch
    ITEM_LENGTH_MAX = 65000            # bytes of one segmented item
    SEGMENTS_MAX = 64

cdef class SentStream(Worked):
    """Base of NetworkPublication, which fills the attributes."""
    cdef readonly LogBuffers log
    cdef readonly SendEndpoint endpoint
    cdef SystemCounters system
    cdef readonly int32_t session_id
    cdef readonly int32_t stream_id
    cdef readonly int32_t mtu
    cdef int32_t term_length
    cdef int32_t shift
    cdef int32_t initial_term_id
    cdef int64_t* sender_position_cell         # snd-pos
    cdef readonly int64_t sender_position
    cdef int64_t receiver_window               # of the newest status message
    cdef int64_t last_send_ns
    cdef bint track_limits
    cdef bint is_damaged                       # the client wrote what is no frame of the stream

    cdef int32_t _block(self, int64_t position, int64_t limit, int32_t* padding) noexcept nogil
    cdef bint _is_own(self, const uint8_t* frame, int64_t position) noexcept nogil
    cdef int _collect(self, int64_t position, int64_t limit, int64_t max_length, SendItem* items, int64_t* after,
                      int capacity) noexcept nogil
    cdef void advance(self, int64_t position, int length_bytes, int64_t now_ns) noexcept nogil
    cdef void on_idle(self, int64_t now_ns) noexcept nogil     # when a turn has sent nothing of it

"""What a driver does, event by event, for whoever looks on: `events.dat` in its folder."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.datagram cimport SendItem, SocketAddress
from ordo.runtime.native.memory cimport Memory
from ordo.transport.control.ring cimport ManyToOneRing

cdef enum:
    EVENT_FRAME_IN = 1
    EVENT_FRAME_OUT = 2
    EVENT_COMMAND = 4
    EVENT_RESPONSE = 8
    EVENT_STATE = 16

cdef class EventLog:
    cdef Memory memory
    cdef Memory records
    cdef uint8_t* header
    cdef readonly ManyToOneRing ring
    cdef Clock clock
    cdef bint wants(self, int32_t kind) noexcept nogil
    cdef void frame(self, int32_t kind, const uint8_t* datagram, uint32_t length, const SocketAddress* peer) noexcept nogil
    cdef void sent(self, const SendItem* item) noexcept nogil
    cdef int64_t _begin(self, int32_t kind, uint32_t length) noexcept nogil

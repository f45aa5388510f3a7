"""Times that a driver writes into frames as they leave and arrive (transport-wire.md §13)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.native.clock cimport Clock

cdef class FrameStamper:
    cdef readonly int32_t offset               # in the payload, or RESERVED_VALUE
    cdef Clock clock

    cdef void stamp(self, const uint8_t* header, uint8_t* frame, uint32_t room, int64_t time_ns) noexcept nogil
    cdef void stamp_arrivals(self, const uint8_t* datagram, uint8_t* frames, uint32_t length,
                             int64_t time_ns) noexcept nogil
    cdef void stamp_all(self, const uint8_t* datagram, uint8_t* frames, uint32_t length,
                        int64_t time_ns) noexcept nogil

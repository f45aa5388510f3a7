"""Times that a driver writes into frames as they leave and arrive (transport-wire.md §13)."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16
from ordo.transport.driver.frames.frames cimport DATA_LENGTH, FRAME_DATA
from ordo.transport.streams.logbuffer cimport FLAG_BEGIN, FRAME_FLAGS_OFFSET, FRAME_TYPE_OFFSET, align_frame_i64

cdef enum:
    IN_RESERVED_VALUE = -8                     # eight bytes before the payload
    NOT_NOTED = -1                             # in the reserved value: nobody noted when the frame arrived
    STAMP_LENGTH = 8

RESERVED_VALUE = IN_RESERVED_VALUE


cdef class FrameStamper:
    """Writes the time, ns since 1970 in little endian, `offset` bytes into the payload of messages, or into their
    reserved value. A message without room for it there is left as it is; of one in fragments the first is stamped."""

    def __init__(self, int32_t offset, Clock clock not None):
        if offset < 0 and offset != IN_RESERVED_VALUE:
            raise ValueError(f"offset={offset}, must be 0 or more, or {IN_RESERVED_VALUE}")
        self.offset = offset
        self.clock = clock

    cdef void stamp(self, const uint8_t* header, uint8_t* frame, uint32_t room, int64_t time_ns) noexcept nogil:
        """Stamp one frame, of which `room` bytes may be written; its header may be elsewhere. `time_ns` 0 means now."""
        cdef int32_t length = ordo_get_i32(header)
        if (length < DATA_LENGTH or <uint32_t> length > room or ordo_get_u16(header + FRAME_TYPE_OFFSET) != FRAME_DATA
                or header[FRAME_FLAGS_OFFSET] & FLAG_BEGIN == 0
                or <int64_t> DATA_LENGTH + self.offset + STAMP_LENGTH > length):
            return
        if time_ns == 0:
            time_ns = self.clock.epoch_time_ns()
        memcpy(frame + DATA_LENGTH + self.offset, &time_ns, STAMP_LENGTH)

    cdef void stamp_arrivals(self, const uint8_t* datagram, uint8_t* frames, uint32_t length,
                             int64_t time_ns) noexcept nogil:
        """Stamp with the time that was noted of a datagram. Where none was, 0, a reserved value says so, and not what
        its sender wrote there; a payload stays as it is."""
        if time_ns == 0 and self.offset != IN_RESERVED_VALUE:
            return
        self.stamp_all(datagram, frames, length, time_ns if time_ns != 0 else NOT_NOTED)

    cdef void stamp_all(self, const uint8_t* datagram, uint8_t* frames, uint32_t length,
                        int64_t time_ns) noexcept nogil:
        """Stamp the copies of every frame of a datagram, up to the first that cannot be one."""
        cdef int64_t at = 0, frame_length
        while at + DATA_LENGTH <= length:
            frame_length = ordo_get_i32(datagram + at)
            if frame_length < DATA_LENGTH or at + frame_length > length:
                return
            self.stamp(datagram + at, frames + at, <uint32_t> (length - at), time_ns)
            at += align_frame_i64(frame_length)

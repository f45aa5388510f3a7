"""Recorded frames: what a segment file holds (archive.md B3), and the check every frame passes before it is believed.

    segment file, base position B                 one data frame on disk
    +-----------------------------+ B             +-----------------------------------------------+
    | hole up to startPosition    | (first only)  |  0 i32 frame length    4 u8 version, u8 flags  |
    | frame | frame | PAD header  |               |  6 u16 type            8 i32 term offset       |
    | (hole of the PAD) | frame   |               | 12 i32 CRC32C of bytes [32, aligned length)    |
    | zeros                       |               | 16 i32 stream id      20 i32 term id           |
    +-----------------------------+ B + length    | 24 i64 reserved       32 payload, 0..31 bytes  |
                                                  +-----------------------------------------------+

A PAD frame keeps its session id at offset 12; its payload is a hole.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from runtime.atomics cimport ordo_crc32c, ordo_get_i32, ordo_get_u16
from transport.logbuffer cimport FLAG_BEGIN, FLAG_END, HEADER_LENGTH, TYPE_DATA, TYPE_PAD, align_frame

cdef enum:
    CHECKSUM_OFFSET = 12

cdef enum Fault:
    FAULT_NONE = 0
    FAULT_ABSENT = 1               # frame length 0: nothing was written here
    FAULT_LENGTH = 2               # negative, shorter than a header, above the MTU, or past the end of its term
    FAULT_TYPE = 3                 # unknown version or type, or a data frame whose type was damaged to PAD
    FAULT_TERM_OFFSET = 4
    FAULT_TERM_ID = 5
    FAULT_STREAM_ID = 6
    FAULT_CHECKSUM = 7
    FAULT_FLAGS = 8                # begin and end flags of neighbouring fragments contradict each other
    FAULT_TRUNCATED = 9            # the segment file ends inside the frame
    FAULT_MISSING_FILE = 10        # the segment file is not there
    FAULT_READ = 11                # the file cannot be read; where -errno is known, that: it is no damage

cdef struct Layout:
    # The immutable parameters of a recording that its frames are checked against. Lengths in bytes.
    int64_t start_position
    int64_t first_base             # start position rounded down to its term
    int64_t segment_length
    int32_t term_length
    int32_t term_shift             # log2(term_length)
    int32_t initial_term_id
    int32_t mtu
    int32_t stream_id
    int32_t session_id             # of the latest session recorded

cdef inline int64_t segment_base(const Layout* layout, int64_t position) noexcept nogil:
    return position - ((position - layout.first_base) & (layout.segment_length - 1))

cdef inline int check_header(const uint8_t* frame, int64_t position, const Layout* layout) noexcept nogil:
    """The 32 header bytes against the position they were read at: a Fault."""
    cdef int32_t length = ordo_get_i32(frame)
    cdef int32_t term_offset = <int32_t> (position & (layout.term_length - 1))
    cdef uint16_t frame_type = ordo_get_u16(frame + 6)
    if length == 0:
        return FAULT_ABSENT
    if length < HEADER_LENGTH or length > layout.term_length - term_offset:
        return FAULT_LENGTH
    if frame[4] != 0 or frame_type > TYPE_DATA:
        return FAULT_TYPE
    if frame_type == TYPE_DATA and length > layout.mtu:
        return FAULT_LENGTH
    if ordo_get_i32(frame + 8) != term_offset:
        return FAULT_TERM_OFFSET
    if ordo_get_i32(frame + 20) != <int32_t> (layout.initial_term_id + <int32_t> (position >> layout.term_shift)):
        return FAULT_TERM_ID
    if ordo_get_i32(frame + 16) != layout.stream_id:
        return FAULT_STREAM_ID
    return FAULT_NONE

cdef inline int32_t body_checksum(const uint8_t* frame, int32_t aligned_length) noexcept nogil:
    return <int32_t> ordo_crc32c(0, frame + HEADER_LENGTH, aligned_length - HEADER_LENGTH)

cdef inline int32_t body_needed(const uint8_t* frame, const Layout* layout) noexcept nogil:
    """How many bytes of a frame with a good header `check_body` looks at."""
    cdef int32_t aligned = align_frame(ordo_get_i32(frame))
    if ordo_get_u16(frame + 6) == TYPE_PAD and aligned > layout.mtu:
        return HEADER_LENGTH
    return aligned

cdef inline int check_body(const uint8_t* frame, const Layout* layout) noexcept nogil:
    """The payload of a frame with a good header, `body_needed` bytes of which are in memory: a Fault.

    A PAD short enough to have been a data frame must not carry the checksum of what it covers.
    """
    cdef int32_t aligned = align_frame(ordo_get_i32(frame))
    cdef int32_t checksum = ordo_get_i32(frame + CHECKSUM_OFFSET)
    if ordo_get_u16(frame + 6) == TYPE_DATA:
        return FAULT_NONE if body_checksum(frame, aligned) == checksum else FAULT_CHECKSUM
    if aligned == HEADER_LENGTH or aligned > layout.mtu:
        return FAULT_NONE
    return FAULT_TYPE if body_checksum(frame, aligned) == checksum else FAULT_NONE

cdef Layout layout_of(object descriptor) except *
cdef object frame_error(int fault, int64_t recording_id, str path, int64_t position, const uint8_t* frame,
                        const Layout* layout)

"""Recorded frames: what a segment file holds (archive.md B3), and the check every frame passes before it is believed.

    segment file, base position B                 one data frame on disk
    +-----------------------------+ B             +-----------------------------------------------+
    | hole up to startPosition    | (first only)  |  0 i32 frame length    4 u8 version, u8 flags  |
    | frame | frame | PAD header  |               |  6 u16 type            8 i32 term offset       |
    | (hole of the PAD) | frame   |               | 12 i32 checksum                                |
    | zeros                       |               | 16 i32 stream id      20 i32 term id           |
    +-----------------------------+ B + length    | 24 i64 reserved       32 payload, 0..31 bytes  |
                                                  +-----------------------------------------------+

A PAD frame keeps its session id at offset 12; its payload is a hole. Its reserved value, which means nothing, is taken
for PAD_SEAL in the upper half and the CRC32C of the other 24 header bytes in the lower one: a PAD with a longer length
would hide the frames behind it. The PADs of Aeron have no seal and are believed.

The checksum of a data frame is `crc ^ mask`: crc is the CRC32C of the bytes [32, aligned length), which is all that
Aeron's own checksum covers, and mask is made of the CRC32C h of the other 28 header bytes, as h ^ rotl(h, 1). Frames
that Aeron wrote, and Ordo before it had the mask, have mask 0 and are read as well; their headers are checked as far as
their position tells what must stand there. A mask is never 0 and has an even number of one bits, and each single bit
that changes in a payload changes an odd number of bits of its CRC32C, because its polynomial is divisible by x + 1. So
no single bit, in payload, header or checksum, makes one of the two kinds look like the other.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from ordo.runtime.native.atomics cimport ordo_crc32c, ordo_get_i32, ordo_get_i64, ordo_get_u16, ordo_put_i32, ordo_put_i64
from ordo.transport.streams.logbuffer cimport (
    FRAME_TYPE_OFFSET,
    FRAME_VERSION_OFFSET,
    HEADER_LENGTH,
    RESERVED_VALUE_OFFSET,
    STREAM_ID_OFFSET,
    TERM_ID_OFFSET,
    TERM_OFFSET_OFFSET,
    TYPE_DATA,
    TYPE_PAD,
    align_frame,
)

cdef enum:
    CHECKSUM_OFFSET = 12
    CHECKSUM_LENGTH = 4
    MASK_OF_ZERO = 3               # in place of a mask of 0, which is that of Aeron's frames; even, as every mask
    PAD_SEAL = 0x4F726450          # no single changed bit makes a seal of a reserved value that was none

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
    """Check the 32 header bytes against the position they were read at; return a Fault."""
    cdef int32_t length = ordo_get_i32(frame)
    cdef int32_t term_offset = <int32_t> (position & (layout.term_length - 1))
    cdef uint16_t frame_type = ordo_get_u16(frame + FRAME_TYPE_OFFSET)
    if length == 0:
        return FAULT_ABSENT
    if length < HEADER_LENGTH or length > layout.term_length - term_offset:
        return FAULT_LENGTH
    if frame[FRAME_VERSION_OFFSET] != 0 or frame_type > TYPE_DATA:
        return FAULT_TYPE
    if frame_type == TYPE_DATA and length > layout.mtu:
        return FAULT_LENGTH
    if ordo_get_i32(frame + TERM_OFFSET_OFFSET) != term_offset:
        return FAULT_TERM_OFFSET
    if (ordo_get_i32(frame + TERM_ID_OFFSET)
            != <int32_t> (layout.initial_term_id + <int32_t> (position >> layout.term_shift))):
        return FAULT_TERM_ID
    if ordo_get_i32(frame + STREAM_ID_OFFSET) != layout.stream_id:
        return FAULT_STREAM_ID
    return FAULT_NONE

cdef inline int32_t body_checksum(const uint8_t* frame, int32_t aligned_length) noexcept nogil:
    """Return what Aeron's checksum covers: the payload and its padding up to the alignment."""
    return <int32_t> ordo_crc32c(0, frame + HEADER_LENGTH, aligned_length - HEADER_LENGTH)

cdef inline int32_t header_mask(const uint8_t* frame) noexcept nogil:
    """Return what the header of a data frame adds to its checksum. A PAD is taken for the data frame that it may have
    been."""
    cdef uint64_t words[4]
    cdef uint32_t crc
    cdef uint32_t mask
    memcpy(words, frame, HEADER_LENGTH)
    words[0] = (words[0] & 0xFFFFFFFFFFFFULL) | (<uint64_t> TYPE_DATA << 48)
    words[1] &= 0xFFFFFFFFULL                   # the checksum's own place
    crc = ordo_crc32c(0, words, HEADER_LENGTH)
    mask = crc ^ (crc << 1 | crc >> 31)
    return <int32_t> mask if mask else MASK_OF_ZERO

cdef inline int64_t pad_seal(const uint8_t* frame) noexcept nogil:
    """Return the reserved value that a PAD is recorded with. A data frame is taken for the PAD that it may have
    been."""
    cdef uint64_t words[3]
    memcpy(words, frame, sizeof(words))
    words[0] &= 0xFFFFFFFFFFFFULL
    return <int64_t> (<uint64_t> PAD_SEAL << 32 | ordo_crc32c(0, words, sizeof(words)))

cdef inline void seal_frame(uint8_t* frame, int32_t aligned_length) noexcept nogil:
    """Give a frame that is to be recorded its checksum."""
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_DATA:
        ordo_put_i32(frame + CHECKSUM_OFFSET, body_checksum(frame, aligned_length) ^ header_mask(frame))
    else:
        ordo_put_i64(frame + RESERVED_VALUE_OFFSET, pad_seal(frame))

cdef inline int32_t stored_checksum(const uint8_t* frame) noexcept nogil:
    """Return the checksum that stands in a frame with FAULT_CHECKSUM."""
    cdef bint is_data = ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_DATA
    return ordo_get_i32(frame + (CHECKSUM_OFFSET if is_data else RESERVED_VALUE_OFFSET))

cdef inline int32_t actual_checksum(const uint8_t* frame) noexcept nogil:
    """Return the checksum that a frame with FAULT_CHECKSUM should have."""
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_DATA:
        return body_checksum(frame, align_frame(ordo_get_i32(frame))) ^ header_mask(frame)
    return <int32_t> pad_seal(frame)

cdef inline int32_t body_needed(const uint8_t* frame, const Layout* layout) noexcept nogil:
    """Return how many bytes of a frame with a good header `check_body` looks at."""
    cdef int32_t aligned = align_frame(ordo_get_i32(frame))
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD and aligned > layout.mtu:
        return HEADER_LENGTH
    return aligned

cdef inline int check_body(const uint8_t* frame, const Layout* layout) noexcept nogil:
    """Check the payload of a frame with a good header, `body_needed` bytes of which are in memory; return a Fault.

    A PAD short enough to have been a data frame must not carry the checksum of what it covers.
    """
    cdef int32_t aligned = align_frame(ordo_get_i32(frame))
    cdef int64_t reserved = ordo_get_i64(frame + RESERVED_VALUE_OFFSET)
    cdef int32_t mask
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD and reserved >> 32 == PAD_SEAL:
        return FAULT_NONE if reserved == pad_seal(frame) else FAULT_CHECKSUM
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD and aligned > layout.mtu:
        return FAULT_NONE
    mask = ordo_get_i32(frame + CHECKSUM_OFFSET) ^ body_checksum(frame, aligned)
    if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_DATA:
        if mask == header_mask(frame) or (mask == 0 and reserved != pad_seal(frame)):
            return FAULT_NONE
        return FAULT_CHECKSUM
    if mask == header_mask(frame) or (mask == 0 and aligned > HEADER_LENGTH):
        return FAULT_TYPE
    return FAULT_NONE

cdef Layout layout_of(object descriptor) except *
cdef object frame_error(int fault, int64_t recording_id, str path, int64_t position, const uint8_t* frame,
                        const Layout* layout)

"""Frames of a recorded stream and the log records in them (archive.md B3, cluster-consensus.md §11).

A frame, little endian, 32-byte aligned; `position` is the stream position of its first byte:

     0        4   5     6      8            12                     16          20        24         32
    +--------+---+-----+------+------------+----------------------+-----------+---------+----------+---------
    | length | v |flags| type | term offset| session id, or CRC32C| stream id | term id | reserved | payload
    +--------+---+-----+------+------------+----------------------+-----------+---------+----------+---------
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from runtime.atomics cimport ordo_crc32c, ordo_get_i32, ordo_get_i64, ordo_get_u16

cdef enum:
    FRAME_HEADER_LENGTH = 32
    FRAME_TYPE_PADDING = 0
    FRAME_TYPE_DATA = 1
    FRAME_BEGIN = 0x80
    FRAME_END = 0x40
    LOG_STREAM_ID = 100
    CLUSTER_SCHEMA_ID = 111
    RECORD_HEADER_LENGTH = 32       # SBE header and the 24 bytes every log record has at least

cdef enum FrameFault:
    """What is wrong with a frame; `FAULT_NAMES` in cursor.pyx has the words."""
    FAULT_NONE = 0
    FAULT_UNWRITTEN = 1             # zero length where a frame has to be
    FAULT_LENGTH = 2                # shorter than a header, or past the end of its term
    FAULT_VERSION = 3
    FAULT_TYPE = 4
    FAULT_FLAGS = 5
    FAULT_TERM_OFFSET = 6
    FAULT_TERM_ID = 7
    FAULT_STREAM_ID = 8
    FAULT_CHECKSUM = 9
    FAULT_FRAGMENT = 10             # a fragment without its beginning, or a beginning inside a message
    FAULT_FILE_END = 11             # the file is shorter than the frame
    FAULT_READ = 12                 # the operating system refused
    FAULT_MEMORY = 13

cdef enum RecordKind:
    """What a log record is; the order is that of `KIND_NAMES`."""
    KIND_MESSAGE = 0
    KIND_SESSION_OPEN = 1
    KIND_SESSION_CLOSE = 2
    KIND_TIMER = 3
    KIND_NEW_TERM = 4
    KIND_CLUSTER_ACTION = 5
    KIND_MEMBERSHIP = 6
    KIND_OTHER = 7                  # a record of an unknown template, or too short for its template
    KIND_DATA = 8                   # a message of a recording that is not the log
    KIND_COUNT = 9

cdef struct StreamLayout:
    int64_t segment_base            # position of the first byte of the file
    int64_t segment_length_bytes
    int64_t term_length_bytes
    int32_t term_shift
    int32_t initial_term_id
    int32_t stream_id
    bint checksum                   # CRC32C of the payload stands in the session id field of data frames

cdef struct Record:
    # The fields a log record is filtered and listed by; absent ones have their `has_` flag clear.
    int kind
    bint has_term                   # leadership term and time
    bint has_session
    bint has_correlation
    int64_t leadership_term
    int64_t cluster_time
    int64_t session_id
    int64_t correlation_id
    int64_t payload_offset          # in the message: 32 for application messages, 0 for all others

cdef inline int64_t align_frame(int64_t length_bytes) noexcept nogil:
    return (length_bytes + 31) & ~(<int64_t> 31)

cdef inline int check_header(const uint8_t* frame, int64_t position, const StreamLayout* layout) noexcept nogil:
    """First fault of a frame's header at its position, in the order a reader meets the fields."""
    cdef int64_t length = ordo_get_i32(frame)
    cdef int64_t term_offset = position & (layout.term_length_bytes - 1)
    if length == 0:
        return FAULT_UNWRITTEN
    if length < FRAME_HEADER_LENGTH or term_offset + align_frame(length) > layout.term_length_bytes:
        return FAULT_LENGTH
    if frame[4] != 0:
        return FAULT_VERSION
    if ordo_get_u16(frame + 6) > FRAME_TYPE_DATA:
        return FAULT_TYPE
    if frame[5] & 0x0F:
        return FAULT_FLAGS
    if ordo_get_i32(frame + 8) != term_offset:
        return FAULT_TERM_OFFSET
    if ordo_get_i32(frame + 16) != layout.stream_id:
        return FAULT_STREAM_ID
    if <int32_t> (ordo_get_i32(frame + 20) - layout.initial_term_id) != <int32_t> (position >> layout.term_shift):
        return FAULT_TERM_ID
    return FAULT_NONE

cdef inline bint checksum_matches(const uint8_t* frame, int64_t aligned_length) noexcept nogil:
    cdef int64_t payload_length = aligned_length - FRAME_HEADER_LENGTH
    return <int32_t> ordo_crc32c(0, frame + FRAME_HEADER_LENGTH, payload_length) == ordo_get_i32(frame + 12)

cdef inline void classify(const uint8_t* message, int64_t length_bytes, bint is_log, Record* out) noexcept nogil:
    """Kind and key fields of one whole message. All log records of schema 111 begin with their leadership term."""
    cdef uint16_t template_id
    out.has_term = False
    out.has_session = False
    out.has_correlation = False
    out.payload_offset = 0
    if not is_log:
        out.kind = KIND_DATA
        return
    out.kind = KIND_OTHER
    if length_bytes < RECORD_HEADER_LENGTH or ordo_get_u16(message + 4) != CLUSTER_SCHEMA_ID:
        return
    template_id = ordo_get_u16(message + 2)
    if template_id == 1:
        if ordo_get_u16(message) + 8 > length_bytes:
            return
        out.kind = KIND_MESSAGE
        out.payload_offset = 8 + ordo_get_u16(message)
        out.session_id = ordo_get_i64(message + 16)
        out.has_session = True
    elif template_id == 21 and length_bytes >= 44:
        out.kind = KIND_SESSION_OPEN
        out.correlation_id = ordo_get_i64(message + 16)
        out.session_id = ordo_get_i64(message + 24)
        out.has_session = True
        out.has_correlation = True
    elif template_id == 22:
        out.kind = KIND_SESSION_CLOSE
        out.session_id = ordo_get_i64(message + 16)
        out.has_session = True
    elif template_id == 20:
        out.kind = KIND_TIMER
        out.correlation_id = ordo_get_i64(message + 16)
        out.has_correlation = True
    elif template_id == 24:
        out.kind = KIND_NEW_TERM
    elif template_id == 23:
        out.kind = KIND_CLUSTER_ACTION
    elif template_id == 25:
        out.kind = KIND_MEMBERSHIP
    else:
        return
    out.has_term = True
    out.leadership_term = ordo_get_i64(message + 8)
    out.cluster_time = ordo_get_i64(message + (32 if out.kind == KIND_SESSION_OPEN else 24))

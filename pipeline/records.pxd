"""Log records inside recorded frames (cluster-consensus.md §11). The frames themselves are archive/frames.pxd."""

from libc.stdint cimport int64_t, uint8_t, uint16_t
from runtime.atomics cimport ordo_get_i64, ordo_get_u16

cdef enum:
    LOG_STREAM_ID = 100
    CLUSTER_SCHEMA_ID = 111
    RECORD_HEADER_LENGTH = 32       # SBE header and the 24 bytes every log record has at least

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

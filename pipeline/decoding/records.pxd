"""Log records inside recorded frames (cluster-consensus.md §11). The frames themselves are archive/segments/frames.pxd."""

from libc.stdint cimport int64_t, uint8_t, uint16_t

from ordo.cluster.wire.layout cimport (
    ARRIVED_REQUEST_ID,
    CLOCK_EVENT_ID,
    CLUSTER_ACTION_REQUEST_ID,
    CLUSTER_IDENTITY_EVENT_ID,
    CONFIGURATION_EVENT_ID,
    LEVEL_EVENT_ID,
    MEMBERSHIP_CHANGE_EVENT_ID,
    NEW_LEADERSHIP_TERM_EVENT_ID,
    OPEN_IDENTITY_ID,
    ORDO_SCHEMA_ID,
    REQUEST_ID,
    REQUEST_LENGTH,
    REQUEST_NUMBER,
    SBE_HEADER_LENGTH,
    SBE_SCHEMA_ID,
    SBE_TEMPLATE_ID,
    SCHEMA_EVENT_ID,
    SCHEMA_ID,
    SESSION_CLOSE_EVENT_ID,
    SESSION_CLOSE_EVENT_SESSION_ID,
    SESSION_HEADER_LEADERSHIP_TERM_ID,
    SESSION_HEADER_SESSION_ID,
    SESSION_HEADER_TIMESTAMP,
    SESSION_MESSAGE_HEADER_ID,
    SESSION_OPEN_EVENT_BLOCK,
    SESSION_OPEN_EVENT_CORRELATION_ID,
    SESSION_OPEN_EVENT_ID,
    SESSION_OPEN_EVENT_SESSION_ID,
    SESSION_OPEN_EVENT_TIMESTAMP,
    SKIP_EVENT_ID,
    STATE_HASH_EVENT_ID,
    TIMER_EVENT_CORRELATION_ID,
    TIMER_EVENT_ID,
    VERSION_EVENT_ID,
    arrival_of,
    is_logged_request,
)
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_get_u16

cdef enum:
    LOG_STREAM_ID = 100
    RECORD_HEADER_LENGTH = 32       # SBE header and the 24 bytes every log record has at least
    EVENT_TIMESTAMP = 16            # of the records that Ordo's module writes: term, time, and what they say

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
    KIND_REQUEST = 9                # a client's request; sent again, it stands in the log again
    KIND_IDENTITY = 10              # a client opened the identity that its requests belong to
    KIND_CONFIGURATION = 11         # who votes and who learns
    KIND_SKIP = 12                  # a record that services leave out
    KIND_VERSION = 13               # which code of the service executes what follows
    KIND_STATE_HASH = 14
    KIND_LEVEL = 15                 # which releases know what follows
    KIND_CLUSTER_IDENTITY = 16
    KIND_SCHEMA = 17                # of the service's messages
    KIND_CLOCK = 18                 # how well the leader's clock was known
    KIND_COUNT = 19

cdef struct Record:
    # The fields a log record is filtered and listed by; absent ones have their flag has_... clear.
    int kind
    bint has_term                   # leadership term and time
    bint has_session
    bint has_correlation
    bint has_arrival
    int64_t leadership_term
    int64_t cluster_time
    int64_t session_id
    int64_t correlation_id
    int64_t arrival                 # at the leader, ns since 1970
    int64_t payload_offset          # in the message: 32 for application messages, 40 with an arrival, 0 for all others

cdef inline void classify(const uint8_t* message, int64_t length_bytes, bint is_log, Record* out) noexcept nogil:
    """Kind and key fields of one whole message. All log records begin with their leadership term."""
    cdef uint16_t template_id, schema_id
    out.has_term = False
    out.has_session = False
    out.has_correlation = False
    out.has_arrival = False
    out.payload_offset = 0
    if not is_log:
        out.kind = KIND_DATA
        return
    out.kind = KIND_OTHER
    if length_bytes < RECORD_HEADER_LENGTH:
        return
    template_id = ordo_get_u16(message + SBE_TEMPLATE_ID)
    schema_id = ordo_get_u16(message + SBE_SCHEMA_ID)
    if schema_id == ORDO_SCHEMA_ID:
        classify_request(message, length_bytes, template_id, out)
        classify_own_event(template_id, out)
    elif schema_id == SCHEMA_ID:
        classify_event(message, length_bytes, template_id, out)
    if out.kind == KIND_OTHER:
        return
    out.has_term = True
    out.leadership_term = ordo_get_i64(message + SESSION_HEADER_LEADERSHIP_TERM_ID)
    if out.kind == KIND_SESSION_OPEN:
        out.cluster_time = ordo_get_i64(message + SESSION_OPEN_EVENT_TIMESTAMP)
    elif out.kind >= KIND_CONFIGURATION:
        out.cluster_time = ordo_get_i64(message + EVENT_TIMESTAMP)
    else:
        out.cluster_time = ordo_get_i64(message + SESSION_HEADER_TIMESTAMP)

cdef inline void classify_event(
    const uint8_t* message, int64_t length_bytes, uint16_t template_id, Record* out
) noexcept nogil:
    """A record of the cluster's schema."""
    if template_id == SESSION_MESSAGE_HEADER_ID:
        if ordo_get_u16(message) + SBE_HEADER_LENGTH > length_bytes:
            return
        out.kind = KIND_MESSAGE
        out.payload_offset = SBE_HEADER_LENGTH + ordo_get_u16(message)
        out.session_id = ordo_get_i64(message + SESSION_HEADER_SESSION_ID)
        out.has_session = True
        out.arrival = arrival_of(message)
        out.has_arrival = out.arrival > 0
    elif template_id == SESSION_OPEN_EVENT_ID and length_bytes >= SBE_HEADER_LENGTH + SESSION_OPEN_EVENT_BLOCK:
        out.kind = KIND_SESSION_OPEN
        out.correlation_id = ordo_get_i64(message + SESSION_OPEN_EVENT_CORRELATION_ID)
        out.session_id = ordo_get_i64(message + SESSION_OPEN_EVENT_SESSION_ID)
        out.has_session = True
        out.has_correlation = True
    elif template_id == SESSION_CLOSE_EVENT_ID:
        out.kind = KIND_SESSION_CLOSE
        out.session_id = ordo_get_i64(message + SESSION_CLOSE_EVENT_SESSION_ID)
        out.has_session = True
    elif template_id == TIMER_EVENT_ID:
        out.kind = KIND_TIMER
        out.correlation_id = ordo_get_i64(message + TIMER_EVENT_CORRELATION_ID)
        out.has_correlation = True
    elif template_id == NEW_LEADERSHIP_TERM_EVENT_ID:
        out.kind = KIND_NEW_TERM
    elif template_id == CLUSTER_ACTION_REQUEST_ID:
        out.kind = KIND_CLUSTER_ACTION
    elif template_id == MEMBERSHIP_CHANGE_EVENT_ID:
        out.kind = KIND_MEMBERSHIP

cdef inline void classify_request(
    const uint8_t* message, int64_t length_bytes, uint16_t template_id, Record* out
) noexcept nogil:
    """A record of Ordo's own schema; the correlation id of a request is its number."""
    if template_id == REQUEST_ID and length_bytes >= REQUEST_LENGTH:
        out.kind = KIND_REQUEST
        out.correlation_id = ordo_get_i64(message + REQUEST_NUMBER)
        out.has_correlation = True
    elif template_id == ARRIVED_REQUEST_ID and is_logged_request(message, length_bytes):
        out.kind = KIND_REQUEST
        out.correlation_id = ordo_get_i64(message + REQUEST_NUMBER)
        out.has_correlation = True
        out.arrival = arrival_of(message)
        out.has_arrival = out.arrival > 0
    elif template_id == OPEN_IDENTITY_ID:
        out.kind = KIND_IDENTITY
    else:
        return
    out.session_id = ordo_get_i64(message + SESSION_HEADER_SESSION_ID)
    out.has_session = True

cdef inline void classify_own_event(uint16_t template_id, Record* out) noexcept nogil:
    """A record that Ordo's consensus module writes, in Ordo's own schema."""
    if template_id == CONFIGURATION_EVENT_ID:
        out.kind = KIND_CONFIGURATION
    elif template_id == SKIP_EVENT_ID:
        out.kind = KIND_SKIP
    elif template_id == VERSION_EVENT_ID:
        out.kind = KIND_VERSION
    elif template_id == STATE_HASH_EVENT_ID:
        out.kind = KIND_STATE_HASH
    elif template_id == LEVEL_EVENT_ID:
        out.kind = KIND_LEVEL
    elif template_id == CLUSTER_IDENTITY_EVENT_ID:
        out.kind = KIND_CLUSTER_IDENTITY
    elif template_id == SCHEMA_EVENT_ID:
        out.kind = KIND_SCHEMA
    elif template_id == CLOCK_EVENT_ID:
        out.kind = KIND_CLOCK

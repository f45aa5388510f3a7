"""Offsets of the cluster's messages for native readers and writers (cluster-client.md §2, cluster-consensus.md §3, §11).

All offsets count from the message's first byte, so the 8-byte message header is in them:
    0 u16 block length | 2 u16 template id | 4 u16 schema id | 6 u16 version | 8 body
Read with ordo_get_*, write with ordo_put_*: nothing is aligned.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_get_u16, ordo_put_i64

cdef enum:
    SBE_TEMPLATE_ID = 2                # u16, after the block length
    SBE_SCHEMA_ID = 4                  # u16
    SBE_VERSION = 6                    # u16
    SBE_HEADER_LENGTH = 8
    SCHEMA_ID = 111
    SCHEMA_VERSION = 17
    ORDO_SCHEMA_ID = 901               # docs/ARCHITECTURE.md, "Messages and values of Ordo's own"
    ORDO_SCHEMA_VERSION = 1
    QUERY_ID = 10                      # of that schema
    CONFIGURATION_EVENT_ID = 20
    OPEN_IDENTITY_ID = 40
    REQUEST_ID = 41
    ANSWER_ID = 43
    MESSAGE_MARK_ID = 47
    STATE_HASH_EVENT_ID = 68
    OPERATOR_CONNECT_ID = 70
    OPERATOR_REQUEST_ID = 72
    LEVEL_EVENT_ID = 75
    CLUSTER_IDENTITY_EVENT_ID = 84
    SKIP_EVENT_ID = 90
    VERSION_EVENT_ID = 110
    CONSUMER_COMMAND_ID = 120
    APP_REPORT_ID = 124
    APP_DIFFERENCE_ID = 125
    GROUP_QUERY_ID = 126
    GROUP_SERVES_ID = 127
    GROUP_ANSWER_ID = 129
    SCHEMA_EVENT_ID = 140
    CLOCK_EVENT_ID = 150
    ARRIVED_REQUEST_ID = 151

cdef enum:  # template ids
    SESSION_MESSAGE_HEADER_ID = 1
    SESSION_EVENT_ID = 2
    SESSION_CONNECT_REQUEST_ID = 3
    SESSION_CLOSE_REQUEST_ID = 4
    SESSION_KEEP_ALIVE_ID = 5
    NEW_LEADER_EVENT_ID = 6
    CHALLENGE_ID = 7
    CHALLENGE_RESPONSE_ID = 8
    TIMER_EVENT_ID = 20
    SESSION_OPEN_EVENT_ID = 21
    SESSION_CLOSE_EVENT_ID = 22
    CLUSTER_ACTION_REQUEST_ID = 23
    NEW_LEADERSHIP_TERM_EVENT_ID = 24
    MEMBERSHIP_CHANGE_EVENT_ID = 25
    ADMIN_REQUEST_ID = 26
    ADMIN_RESPONSE_ID = 27
    CLOSE_SESSION_ID = 30
    SCHEDULE_TIMER_ID = 31
    CANCEL_TIMER_ID = 32
    SERVICE_ACK_ID = 33
    CLUSTER_MEMBERS_QUERY_ID = 34
    JOIN_LOG_ID = 40
    SERVICE_TERMINATION_POSITION_ID = 42
    CANVASS_POSITION_ID = 50
    REQUEST_VOTE_ID = 51
    VOTE_ID = 52
    NEW_LEADERSHIP_TERM_ID = 53
    APPEND_POSITION_ID = 54
    COMMIT_POSITION_ID = 55
    CATCHUP_POSITION_ID = 56
    STOP_CATCHUP_ID = 57
    TERMINATION_POSITION_ID = 75
    TERMINATION_ACK_ID = 76
    SNAPSHOT_MARKER_ID = 100
    CLIENT_SESSION_ID = 102
    REQUEST_SERVICE_ACK_ID = 108

cdef enum:  # SessionMessageHeader: every application message's prefix
    SESSION_MESSAGE_HEADER_BLOCK = 24
    SESSION_HEADER_LENGTH = 32
    SESSION_HEADER_LEADERSHIP_TERM_ID = 8             # i64
    SESSION_HEADER_SESSION_ID = 16         # i64; negative in the log: a message from a service
    SESSION_HEADER_TIMESTAMP = 24          # i64, cluster time
    SESSION_MESSAGE_ARRIVED_BLOCK = 32     # in the log, where the leader noted when the message arrived
    SESSION_HEADER_ARRIVAL = 32            # i64, ns since 1970
    ARRIVAL_LENGTH = 8

cdef enum:  # OpenIdentity, Request, Answer, MessageMark, ConsumerCommand, AppReport, AppDifference: those of a SessionMessageHeader come first
    OPEN_IDENTITY_BLOCK = 56
    MESSAGE_MARK_BLOCK = 48
    MESSAGE_MARK_NUMBER = 32               # i64
    REQUEST_BLOCK = 48
    REQUEST_LENGTH = 56                    # then the payload
    REQUEST_OPEN_POSITION = 32             # i64
    REQUEST_NUMBER = 40                    # i64
    REQUEST_CONFIRMED = 48                 # i64
    REQUEST_BY_ID_BLOCK = 64               # a Request with an id that its caller chose
    REQUEST_BY_ID_LENGTH = 72              # then the payload
    REQUEST_BY_ID_DIGEST = 56              # 16 bytes
    OUTPUT_BLOCK = 72                      # a Request with a longer block
    OUTPUT_BY_ID_BLOCK = 88                # an Output with an id that its application chose
    OUTPUT_BY_ID_DIGEST = 80               # 16 bytes
    REQUEST_DIGEST_LENGTH = 16
    OUTPUT_TARGET = 64                     # i64; -1: for nobody in particular
    CONSUMER_COMMAND_BLOCK = 104
    CONSUMER_COMMAND_KIND = 88             # i32
    APP_REPORT_BLOCK = 64
    LONG_APP_REPORT_BLOCK = 72             # an AppReport with a count of refused outputs
    APP_DIFFERENCE_BLOCK = 80
    ANSWER_VERSION = 2
    ANSWER_FIRST_BLOCK = 52                # of releases before the sequence number
    ANSWER_BLOCK = 60
    ANSWER_LENGTH = 68                     # then the payload
    ANSWER_OPEN_POSITION = 32              # i64
    ANSWER_NUMBER = 40                     # i64
    ANSWER_LOG_POSITION = 48               # i64
    ANSWER_STATUS = 56                     # i32
    ANSWER_SEQUENCE = 60                   # i64; 0: not known

cdef enum:  # status of an Answer
    ANSWER_OK = 0
    ANSWER_REJECTED = 1
    ANSWER_TOO_LONG = 2
    ANSWER_WAIT = 3
    ANSWER_UNKNOWN = 4
    ANSWER_ID_CONFLICT = 5
    ANSWER_FORGOTTEN = 6

cdef enum:  # SessionKeepAlive and SessionCloseRequest
    SESSION_KEEP_ALIVE_BLOCK = 16
    SESSION_KEEP_ALIVE_LENGTH = 24
    SESSION_KEEP_ALIVE_TERM_ID = 8         # i64
    SESSION_KEEP_ALIVE_SESSION_ID = 16     # i64

cdef enum:  # AppendPosition
    APPEND_POSITION_BLOCK = 21
    APPEND_POSITION_LENGTH = 29
    APPEND_POSITION_LEADERSHIP_TERM_ID = 8            # i64
    APPEND_POSITION_LOG_POSITION = 16      # i64
    APPEND_POSITION_MEMBER_ID = 24         # i32, the follower
    APPEND_POSITION_FLAGS = 28             # u8; 1: catching up; since version 8

cdef enum:  # CommitPosition
    COMMIT_POSITION_BLOCK = 20
    COMMIT_POSITION_LENGTH = 28
    COMMIT_POSITION_LEADERSHIP_TERM_ID = 8            # i64
    COMMIT_POSITION_LOG_POSITION = 16      # i64
    COMMIT_POSITION_MEMBER_ID = 24         # i32, the leader

cdef enum:  # NewLeadershipTermEvent: the first record of a term
    NEW_LEADERSHIP_TERM_EVENT_BLOCK = 48
    NEW_LEADERSHIP_TERM_EVENT_LENGTH = 56
    NEW_LEADERSHIP_TERM_EVENT_TERM_ID = 8  # i64
    NEW_LEADERSHIP_TERM_EVENT_LOG_POSITION = 16    # i64, after the record itself
    NEW_LEADERSHIP_TERM_EVENT_TIMESTAMP = 24       # i64
    NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION = 32   # i64
    NEW_LEADERSHIP_TERM_EVENT_LEADER_ID = 40       # i32
    NEW_LEADERSHIP_TERM_EVENT_LOG_SESSION_ID = 44  # i32
    NEW_LEADERSHIP_TERM_EVENT_TIME_UNIT = 48       # i32
    NEW_LEADERSHIP_TERM_EVENT_APP_VERSION = 52     # i32

cdef enum:  # ClockEvent
    CLOCK_EVENT_LENGTH = 76
    CLOCK_EVENT_OFFSET = 24                # i64, as the next four
    CLOCK_EVENT_ERROR_ESTIMATE = 32
    CLOCK_EVENT_ERROR_BOUND = 40
    CLOCK_EVENT_WALL_CLOCK_AHEAD = 48
    CLOCK_EVENT_INTERVAL = 56
    CLOCK_EVENT_MEMBER_ID = 64             # i32, as the next two
    CLOCK_EVENT_SOURCE = 68
    CLOCK_EVENT_IS_SYNCHRONIZED = 72

cdef enum:  # TimerEvent
    TIMER_EVENT_BLOCK = 24
    TIMER_EVENT_LENGTH = 32
    TIMER_EVENT_TERM_ID = 8                # i64
    TIMER_EVENT_CORRELATION_ID = 16        # i64
    TIMER_EVENT_TIMESTAMP = 24             # i64

cdef enum:  # SessionOpenEvent; then response channel (u32 length, ascii) and encoded principal (u32 length, bytes)
    SESSION_OPEN_EVENT_BLOCK = 36
    SESSION_OPEN_EVENT_TERM_ID = 8         # i64
    SESSION_OPEN_EVENT_CORRELATION_ID = 16 # i64
    SESSION_OPEN_EVENT_SESSION_ID = 24     # i64
    SESSION_OPEN_EVENT_TIMESTAMP = 32      # i64
    SESSION_OPEN_EVENT_STREAM_ID = 40      # i32

cdef enum:  # SessionCloseEvent
    SESSION_CLOSE_EVENT_BLOCK = 28
    SESSION_CLOSE_EVENT_LENGTH = 36
    SESSION_CLOSE_EVENT_TERM_ID = 8        # i64
    SESSION_CLOSE_EVENT_SESSION_ID = 16    # i64
    SESSION_CLOSE_EVENT_TIMESTAMP = 24     # i64
    SESSION_CLOSE_EVENT_REASON = 32        # i32

cdef enum:  # ClusterActionRequest
    CLUSTER_ACTION_REQUEST_BLOCK = 32
    CLUSTER_ACTION_REQUEST_LENGTH = 40
    CLUSTER_ACTION_REQUEST_TERM_ID = 8     # i64
    CLUSTER_ACTION_REQUEST_LOG_POSITION = 16       # i64, after the record itself
    CLUSTER_ACTION_REQUEST_TIMESTAMP = 24  # i64
    CLUSTER_ACTION_REQUEST_ACTION = 32     # i32
    CLUSTER_ACTION_REQUEST_FLAGS = 36      # i32, since version 11

cdef inline int template_id(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """The template id of a message of the cluster's schema whose block is wholly there; -1 for anything else."""
    if length_bytes < SBE_HEADER_LENGTH or ordo_get_u16(message + SBE_SCHEMA_ID) != SCHEMA_ID:
        return -1
    if SBE_HEADER_LENGTH + <int64_t> ordo_get_u16(message) > length_bytes:
        return -1
    return ordo_get_u16(message + SBE_TEMPLATE_ID)

cdef inline bint is_of_queries(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """Whether a message says that it is a Query, a GroupQuery, or what an instance of an application says to answer
    one; no more of it than its header is known to be there."""
    cdef int template
    if length_bytes < SBE_HEADER_LENGTH or ordo_get_u16(message + SBE_SCHEMA_ID) != ORDO_SCHEMA_ID:
        return False
    template = ordo_get_u16(message + SBE_TEMPLATE_ID)
    return (template == QUERY_ID or template == GROUP_QUERY_ID or template == GROUP_SERVES_ID
            or template == GROUP_ANSWER_ID)

cdef inline bint is_of_operator(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """Whether a message says that it is an OperatorConnect or an OperatorRequest; as `is_of_queries`."""
    return (length_bytes >= SBE_HEADER_LENGTH and ordo_get_u16(message + SBE_SCHEMA_ID) == ORDO_SCHEMA_ID
            and (ordo_get_u16(message + SBE_TEMPLATE_ID) == OPERATOR_CONNECT_ID
                 or ordo_get_u16(message + SBE_TEMPLATE_ID) == OPERATOR_REQUEST_ID))

cdef inline int ordo_template_id(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """As `template_id`, for a message of Ordo's own schema."""
    if length_bytes < SBE_HEADER_LENGTH or ordo_get_u16(message + SBE_SCHEMA_ID) != ORDO_SCHEMA_ID:
        return -1
    if SBE_HEADER_LENGTH + <int64_t> ordo_get_u16(message) > length_bytes:
        return -1
    return ordo_get_u16(message + SBE_TEMPLATE_ID)

cdef inline bint is_request(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """Whether a message is a Request with all its fields."""
    return ordo_template_id(message, length_bytes) == REQUEST_ID and ordo_get_u16(message) >= REQUEST_BLOCK

cdef inline bint is_logged_request(const uint8_t* record, int64_t length_bytes) noexcept nogil:
    """Whether a record of the log is a Request with all its fields, or one with the time of its arrival, which only
    leaders write: `is_request` alone is for what clients send."""
    cdef int template = ordo_template_id(record, length_bytes)
    if template == REQUEST_ID:
        return ordo_get_u16(record) >= REQUEST_BLOCK
    return template == ARRIVED_REQUEST_ID and ordo_get_u16(record) >= REQUEST_BLOCK + ARRIVAL_LENGTH

cdef inline bint is_logged_message(const uint8_t* record, int64_t length_bytes) noexcept nogil:
    """Whether a record of the log is a client's or a service's message, or a request."""
    if template_id(record, length_bytes) == SESSION_MESSAGE_HEADER_ID:
        return length_bytes >= SESSION_HEADER_LENGTH
    return is_logged_request(record, length_bytes)

cdef inline int request_block(const uint8_t* request) noexcept nogil:
    """The length that tells which kind of Request it is: of its block, without the time of its arrival."""
    cdef int block_length = ordo_get_u16(request)
    return block_length - ARRIVAL_LENGTH if ordo_get_u16(request + SBE_TEMPLATE_ID) == ARRIVED_REQUEST_ID else block_length

cdef inline int64_t arrival_of(const uint8_t* record) noexcept nogil:
    """When a message or a request of the log arrived at its leader, in ns since 1970; 0: not known."""
    cdef int block_length = ordo_get_u16(record)
    cdef int64_t arrival = 0
    if block_length < SESSION_MESSAGE_ARRIVED_BLOCK:
        return 0
    if ordo_get_u16(record + SBE_TEMPLATE_ID) == ARRIVED_REQUEST_ID:
        arrival = ordo_get_i64(record + block_length)          # the last of the block
    elif ordo_get_u16(record + SBE_TEMPLATE_ID) == SESSION_MESSAGE_HEADER_ID:
        arrival = ordo_get_i64(record + SESSION_HEADER_ARRIVAL)
    return arrival if arrival > 0 else 0

cdef inline int request_digest_offset(const uint8_t* request) noexcept nogil:
    """Where a Request has the digest of the id that its caller chose; 0 without one."""
    cdef int block_length = request_block(request)
    if block_length >= OUTPUT_BY_ID_BLOCK:
        return OUTPUT_BY_ID_DIGEST
    return REQUEST_BY_ID_DIGEST if REQUEST_BY_ID_BLOCK <= block_length < OUTPUT_BLOCK else 0

cdef inline bint is_for_container(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """Whether a message is one that the log carries to the container as a client sent it, but for its stamp."""
    cdef int template = ordo_template_id(message, length_bytes)
    if template == REQUEST_ID:
        return ordo_get_u16(message) >= REQUEST_BLOCK
    if template == MESSAGE_MARK_ID:
        return ordo_get_u16(message) >= MESSAGE_MARK_BLOCK
    if template == CONSUMER_COMMAND_ID:
        return ordo_get_u16(message) >= CONSUMER_COMMAND_BLOCK
    if template == APP_REPORT_ID:
        return ordo_get_u16(message) >= APP_REPORT_BLOCK
    if template == APP_DIFFERENCE_ID:
        return ordo_get_u16(message) >= APP_DIFFERENCE_BLOCK
    return template == OPEN_IDENTITY_ID and ordo_get_u16(message) >= OPEN_IDENTITY_BLOCK

cdef inline void put_ordo_header(uint8_t* message, int block_length, int template,
                                 int version=ORDO_SCHEMA_VERSION) noexcept nogil:
    ordo_put_i64(message, <int64_t> (<uint64_t> block_length | (<uint64_t> template << 16)
                                     | (<uint64_t> ORDO_SCHEMA_ID << 32) | (<uint64_t> version << 48)))

cdef inline void put_stamp(uint8_t* message, int64_t leadership_term_id, int64_t session_id,
                           int64_t timestamp) noexcept nogil:
    """What a leader says of a message: the three fields behind the header."""
    ordo_put_i64(message + SESSION_HEADER_LEADERSHIP_TERM_ID, leadership_term_id)
    ordo_put_i64(message + SESSION_HEADER_SESSION_ID, session_id)
    ordo_put_i64(message + SESSION_HEADER_TIMESTAMP, timestamp)

cdef inline void put_sbe_header(uint8_t* message, int block_length, int template) noexcept nogil:
    ordo_put_i64(message, <int64_t> (<uint64_t> block_length | (<uint64_t> template << 16)
                                     | (<uint64_t> SCHEMA_ID << 32) | (<uint64_t> SCHEMA_VERSION << 48)))

cdef inline void put_session_header(uint8_t* message, int64_t leadership_term_id, int64_t session_id,
                                    int64_t timestamp) noexcept nogil:
    put_sbe_header(message, SESSION_MESSAGE_HEADER_BLOCK, SESSION_MESSAGE_HEADER_ID)
    put_stamp(message, leadership_term_id, session_id, timestamp)

"""The constants of cluster/wire/layout.pxd and its functions, for tests in Python."""

from libc.stdint cimport int64_t, uint8_t
cimport ordo.cluster.wire.layout as layout

BLOCKS = {
    "SessionMessageHeader": (layout.SESSION_MESSAGE_HEADER_ID, layout.SESSION_MESSAGE_HEADER_BLOCK),
    "SessionKeepAlive": (layout.SESSION_KEEP_ALIVE_ID, layout.SESSION_KEEP_ALIVE_BLOCK),
    "AppendPosition": (layout.APPEND_POSITION_ID, layout.APPEND_POSITION_BLOCK),
    "CommitPosition": (layout.COMMIT_POSITION_ID, layout.COMMIT_POSITION_BLOCK),
    "NewLeadershipTermEvent": (layout.NEW_LEADERSHIP_TERM_EVENT_ID, layout.NEW_LEADERSHIP_TERM_EVENT_BLOCK),
    "TimerEvent": (layout.TIMER_EVENT_ID, layout.TIMER_EVENT_BLOCK),
    "SessionOpenEvent": (layout.SESSION_OPEN_EVENT_ID, layout.SESSION_OPEN_EVENT_BLOCK),
    "SessionCloseEvent": (layout.SESSION_CLOSE_EVENT_ID, layout.SESSION_CLOSE_EVENT_BLOCK),
    "ClusterActionRequest": (layout.CLUSTER_ACTION_REQUEST_ID, layout.CLUSTER_ACTION_REQUEST_BLOCK),
}

TEMPLATES = {
    "SessionEvent": layout.SESSION_EVENT_ID,
    "SessionConnectRequest": layout.SESSION_CONNECT_REQUEST_ID,
    "SessionCloseRequest": layout.SESSION_CLOSE_REQUEST_ID,
    "NewLeaderEvent": layout.NEW_LEADER_EVENT_ID,
    "Challenge": layout.CHALLENGE_ID,
    "ChallengeResponse": layout.CHALLENGE_RESPONSE_ID,
    "MembershipChangeEvent": layout.MEMBERSHIP_CHANGE_EVENT_ID,
    "AdminRequest": layout.ADMIN_REQUEST_ID,
    "AdminResponse": layout.ADMIN_RESPONSE_ID,
    "CloseSession": layout.CLOSE_SESSION_ID,
    "ScheduleTimer": layout.SCHEDULE_TIMER_ID,
    "CancelTimer": layout.CANCEL_TIMER_ID,
    "ServiceAck": layout.SERVICE_ACK_ID,
    "ClusterMembersQuery": layout.CLUSTER_MEMBERS_QUERY_ID,
    "JoinLog": layout.JOIN_LOG_ID,
    "ServiceTerminationPosition": layout.SERVICE_TERMINATION_POSITION_ID,
    "CanvassPosition": layout.CANVASS_POSITION_ID,
    "RequestVote": layout.REQUEST_VOTE_ID,
    "Vote": layout.VOTE_ID,
    "NewLeadershipTerm": layout.NEW_LEADERSHIP_TERM_ID,
    "CatchupPosition": layout.CATCHUP_POSITION_ID,
    "StopCatchup": layout.STOP_CATCHUP_ID,
    "TerminationPosition": layout.TERMINATION_POSITION_ID,
    "TerminationAck": layout.TERMINATION_ACK_ID,
    "SnapshotMarker": layout.SNAPSHOT_MARKER_ID,
    "ClientSession": layout.CLIENT_SESSION_ID,
    "RequestServiceAck": layout.REQUEST_SERVICE_ACK_ID,
}

OFFSETS = {
    ("SessionMessageHeader", "leadership_term_id"): layout.SESSION_HEADER_LEADERSHIP_TERM_ID,
    ("SessionMessageHeader", "cluster_session_id"): layout.SESSION_HEADER_SESSION_ID,
    ("SessionMessageHeader", "timestamp"): layout.SESSION_HEADER_TIMESTAMP,
    ("SessionKeepAlive", "leadership_term_id"): layout.SESSION_KEEP_ALIVE_TERM_ID,
    ("SessionKeepAlive", "cluster_session_id"): layout.SESSION_KEEP_ALIVE_SESSION_ID,
    ("AppendPosition", "leadership_term_id"): layout.APPEND_POSITION_LEADERSHIP_TERM_ID,
    ("AppendPosition", "log_position"): layout.APPEND_POSITION_LOG_POSITION,
    ("AppendPosition", "follower_member_id"): layout.APPEND_POSITION_MEMBER_ID,
    ("AppendPosition", "flags"): layout.APPEND_POSITION_FLAGS,
    ("CommitPosition", "leadership_term_id"): layout.COMMIT_POSITION_LEADERSHIP_TERM_ID,
    ("CommitPosition", "log_position"): layout.COMMIT_POSITION_LOG_POSITION,
    ("CommitPosition", "leader_member_id"): layout.COMMIT_POSITION_MEMBER_ID,
    ("NewLeadershipTermEvent", "leadership_term_id"): layout.NEW_LEADERSHIP_TERM_EVENT_TERM_ID,
    ("NewLeadershipTermEvent", "log_position"): layout.NEW_LEADERSHIP_TERM_EVENT_LOG_POSITION,
    ("NewLeadershipTermEvent", "timestamp"): layout.NEW_LEADERSHIP_TERM_EVENT_TIMESTAMP,
    ("NewLeadershipTermEvent", "term_base_log_position"): layout.NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION,
    ("NewLeadershipTermEvent", "leader_member_id"): layout.NEW_LEADERSHIP_TERM_EVENT_LEADER_ID,
    ("NewLeadershipTermEvent", "log_session_id"): layout.NEW_LEADERSHIP_TERM_EVENT_LOG_SESSION_ID,
    ("NewLeadershipTermEvent", "time_unit"): layout.NEW_LEADERSHIP_TERM_EVENT_TIME_UNIT,
    ("NewLeadershipTermEvent", "app_version"): layout.NEW_LEADERSHIP_TERM_EVENT_APP_VERSION,
    ("TimerEvent", "leadership_term_id"): layout.TIMER_EVENT_TERM_ID,
    ("TimerEvent", "correlation_id"): layout.TIMER_EVENT_CORRELATION_ID,
    ("TimerEvent", "timestamp"): layout.TIMER_EVENT_TIMESTAMP,
    ("SessionOpenEvent", "leadership_term_id"): layout.SESSION_OPEN_EVENT_TERM_ID,
    ("SessionOpenEvent", "correlation_id"): layout.SESSION_OPEN_EVENT_CORRELATION_ID,
    ("SessionOpenEvent", "cluster_session_id"): layout.SESSION_OPEN_EVENT_SESSION_ID,
    ("SessionOpenEvent", "timestamp"): layout.SESSION_OPEN_EVENT_TIMESTAMP,
    ("SessionOpenEvent", "response_stream_id"): layout.SESSION_OPEN_EVENT_STREAM_ID,
    ("SessionCloseEvent", "leadership_term_id"): layout.SESSION_CLOSE_EVENT_TERM_ID,
    ("SessionCloseEvent", "cluster_session_id"): layout.SESSION_CLOSE_EVENT_SESSION_ID,
    ("SessionCloseEvent", "timestamp"): layout.SESSION_CLOSE_EVENT_TIMESTAMP,
    ("SessionCloseEvent", "close_reason"): layout.SESSION_CLOSE_EVENT_REASON,
    ("ClusterActionRequest", "leadership_term_id"): layout.CLUSTER_ACTION_REQUEST_TERM_ID,
    ("ClusterActionRequest", "log_position"): layout.CLUSTER_ACTION_REQUEST_LOG_POSITION,
    ("ClusterActionRequest", "timestamp"): layout.CLUSTER_ACTION_REQUEST_TIMESTAMP,
    ("ClusterActionRequest", "action"): layout.CLUSTER_ACTION_REQUEST_ACTION,
    ("ClusterActionRequest", "flags"): layout.CLUSTER_ACTION_REQUEST_FLAGS,
}


def session_header(int64_t leadership_term_id, int64_t session_id, int64_t timestamp):
    cdef uint8_t header[32]
    layout.put_session_header(header, leadership_term_id, session_id, timestamp)
    return (<char*> header)[:layout.SESSION_HEADER_LENGTH]


def template_id(const uint8_t[::1] message):
    return layout.template_id(&message[0], message.shape[0])


def read_arrival(const uint8_t[::1] record):
    """When a message or a request of the log arrived, 0 where it does not say it; None for what is neither."""
    cdef int64_t length_bytes = record.shape[0]
    if length_bytes == 0:
        return None
    is_message = layout.template_id(&record[0], length_bytes) == layout.SESSION_MESSAGE_HEADER_ID
    if not is_message and not layout.is_logged_request(&record[0], length_bytes):
        return None
    return layout.arrival_of(&record[0])


def request_kind(const uint8_t[::1] record):
    """The length of block that tells which kind of request a record is, and where the digest of its id is; None for
    what is none."""
    if record.shape[0] == 0 or not layout.is_logged_request(&record[0], record.shape[0]):
        return None
    return layout.request_block(&record[0]), layout.request_digest_offset(&record[0])

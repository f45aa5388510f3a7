"""Every message of the cluster's schema (id 111, version 17), as tables for `ordo.runtime.sbe`.

cluster-client.md §2 (clients), cluster-consensus.md §3 (members), §11 (log), §12 (service control), §16 (snapshots).
`MESSAGES` finds a message by its template id; `decode` reads any of them. Field names are the specification's in
snake_case; `*_MARK`, `EVENT_*` and the other enums are `IntEnum`s below and travel as i32.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ordo.runtime.native.cluster_time import SYMBOLS, TimeUnit
from ordo.runtime.sbe import Buffer, Message, by_template_id, decode_one_of

if TYPE_CHECKING:
    from ordo.cluster.wire import records

SCHEMA_ID = 111
SCHEMA_VERSION = 17
HEADER_LENGTH_BYTES = 8
SESSION_HEADER_LENGTH_BYTES = 32
"""An application message's prefix: 8 bytes of message header and the 24 of SessionMessageHeader."""
CLIENT_PROTOCOL_VERSION = 0x000300
"""0.3.0; two sides are compatible when the major parts (bits 16 to 23) are equal."""
CONSENSUS_PROTOCOL_VERSION = 0x010000
SECRET_ID_BITS = 62
"""The length of correlation ids that must be unguessable: a stranger with one could answer as a member."""


class EventCode(IntEnum):
    """What a session event tells a client about its session."""

    OK = 0
    ERROR = 1
    REDIRECT = 2
    AUTHENTICATION_REJECTED = 3
    CLOSED = 4


class CloseReason(IntEnum):
    CLIENT_ACTION = 0
    SERVICE_ACTION = 1
    TIMEOUT = 2


class ClusterAction(IntEnum):
    SUSPEND = 0
    RESUME = 1
    SNAPSHOT = 2


OF_STANDBYS = 1
"""The flags of an order to take a snapshot that is for standbys alone."""
FOR_MEMBERS = 3
"""The flags of an order to standbys to take a snapshot that members copy: these only note their state there."""
NO_FLAGS = -(2**31)
"""The flags of an order that has none, as releases of Aeron write it that did not know them."""


class SnapshotMark(IntEnum):
    BEGIN = 0
    SECTION = 1
    END = 2


ClusterTimeUnit = TimeUnit
_NO_TIME_UNIT = -(2**31)


def find_time_unit(value: int) -> TimeUnit | None:
    """Return the unit that a record or a snapshot names, ms for one of a version that had none; else None."""
    if value == _NO_TIME_UNIT:
        return TimeUnit.MILLIS
    return TimeUnit(value) if value in SYMBOLS else None


class AdminRequestType(IntEnum):
    SNAPSHOT = 0


class AdminResponseCode(IntEnum):
    OK = 0
    ERROR = 1
    UNAUTHORISED_ACCESS = 2


def columns(text: str) -> Iterator[tuple[str, str, int]]:
    """`"name type [since version]; ..."` as (name, type, since version) triples."""
    for column in text.split(";"):
        words = column.split()
        if words:
            yield words[0], words[1], int(words[2]) if len(words) > 2 else 0


def _message(
    name: str, template_id: int, fields: str = "", data: str = "", groups: list[tuple[str, str, str]] | None = None
) -> Message:
    return Message(
        name,
        template_id,
        SCHEMA_ID,
        SCHEMA_VERSION,
        fields=list(columns(fields)),
        groups=[(group, list(columns(block)), list(columns(tail))) for group, block, tail in groups or []],
        data=list(columns(data)),
    )


# Clients (cluster-client.md §2)
SESSION_CONNECT_REQUEST: Message[records.SessionConnectRequest] = _message(
    "SessionConnectRequest",
    3,
    "correlation_id i64; response_stream_id i32; version version_t 2",
    "response_channel ascii; encoded_credentials bytes; client_info ascii 14",
)
CHALLENGE_RESPONSE: Message[records.ChallengeResponse] = _message(
    "ChallengeResponse", 8, "correlation_id i64; cluster_session_id i64", "encoded_credentials bytes"
)
SESSION_MESSAGE_HEADER: Message[records.SessionMessageHeader] = _message(
    "SessionMessageHeader", 1, "leadership_term_id i64; cluster_session_id i64; timestamp i64"
)
SESSION_KEEP_ALIVE: Message[records.SessionKeepAlive] = _message(
    "SessionKeepAlive", 5, "leadership_term_id i64; cluster_session_id i64"
)
SESSION_CLOSE_REQUEST: Message[records.SessionCloseRequest] = _message(
    "SessionCloseRequest", 4, "leadership_term_id i64; cluster_session_id i64"
)
ADMIN_REQUEST: Message[records.AdminRequest] = _message(
    "AdminRequest",
    26,
    "leadership_term_id i64; cluster_session_id i64; correlation_id i64; request_type i32",
    "payload bytes",
)
SESSION_EVENT: Message[records.SessionEvent] = _message(
    "SessionEvent",
    2,
    "cluster_session_id i64; correlation_id i64; leadership_term_id i64; leader_member_id i32; code i32;"
    "version version_t 6; leader_heartbeat_timeout_ns i64 13",
    "detail ascii",
)
CHALLENGE: Message[records.Challenge] = _message(
    "Challenge", 7, "correlation_id i64; cluster_session_id i64", "encoded_challenge bytes"
)
NEW_LEADER_EVENT: Message[records.NewLeaderEvent] = _message(
    "NewLeaderEvent",
    6,
    "leadership_term_id i64; cluster_session_id i64; leader_member_id i32",
    "ingress_endpoints ascii",
)
ADMIN_RESPONSE: Message[records.AdminResponse] = _message(
    "AdminResponse",
    27,
    "cluster_session_id i64; correlation_id i64; request_type i32; response_code i32",
    "message ascii; payload bytes",
)

# Members (cluster-consensus.md §3)
CANVASS_POSITION: Message[records.CanvassPosition] = _message(
    "CanvassPosition",
    50,
    "log_leadership_term_id i64; log_position i64; leadership_term_id i64; follower_member_id i32;"
    "protocol_version version_t 9",
)
REQUEST_VOTE: Message[records.RequestVote] = _message(
    "RequestVote",
    51,
    "log_leadership_term_id i64; log_position i64; candidate_term_id i64; candidate_member_id i32;"
    "protocol_version version_t 9",
)
VOTE: Message[records.Vote] = _message(
    "Vote",
    52,
    "candidate_term_id i64; log_leadership_term_id i64; log_position i64; candidate_member_id i32;"
    "follower_member_id i32; vote i32",
)
NEW_LEADERSHIP_TERM: Message[records.NewLeadershipTerm] = _message(
    "NewLeadershipTerm",
    53,
    "log_leadership_term_id i64; next_leadership_term_id i64; next_term_base_log_position i64; next_log_position i64;"
    "leadership_term_id i64; term_base_log_position i64; log_position i64; leader_recording_id i64; timestamp i64;"
    "leader_member_id i32; log_session_id i32; app_version version_t; is_startup i32; commit_position i64 15",
)
APPEND_POSITION: Message[records.AppendPosition] = _message(
    "AppendPosition", 54, "leadership_term_id i64; log_position i64; follower_member_id i32; flags u8 8"
)
COMMIT_POSITION: Message[records.CommitPosition] = _message(
    "CommitPosition", 55, "leadership_term_id i64; log_position i64; leader_member_id i32"
)
CATCHUP_POSITION: Message[records.CatchupPosition] = _message(
    "CatchupPosition", 56, "leadership_term_id i64; log_position i64; follower_member_id i32", "catchup_endpoint ascii"
)
STOP_CATCHUP: Message[records.StopCatchup] = _message(
    "StopCatchup", 57, "leadership_term_id i64; follower_member_id i32"
)
TERMINATION_POSITION: Message[records.TerminationPosition] = _message(
    "TerminationPosition", 75, "leadership_term_id i64; log_position i64"
)
TERMINATION_ACK: Message[records.TerminationAck] = _message(
    "TerminationAck", 76, "leadership_term_id i64; log_position i64; member_id i32"
)
BACKUP_QUERY: Message[records.BackupQuery] = _message(
    "BackupQuery",
    77,
    "correlation_id i64; response_stream_id i32; version version_t 2; log_position i64 16",
    "response_channel ascii; encoded_credentials bytes",
)
_SNAPSHOT_COLUMNS = (
    "recording_id i64; leadership_term_id i64; term_base_log_position i64; log_position i64; timestamp i64;"
    "service_id i32"
)
BACKUP_RESPONSE: Message[records.BackupResponse] = _message(
    "BackupResponse",
    78,
    "correlation_id i64; log_recording_id i64; log_leadership_term_id i64; log_term_base_log_position i64;"
    "last_leadership_term_id i64; last_term_base_log_position i64; commit_position_counter_id i32;"
    "leader_member_id i32; member_id i32 10",
    "cluster_members ascii",
    [("snapshots", _SNAPSHOT_COLUMNS, "")],
)
HEARTBEAT_REQUEST: Message[records.HeartbeatRequest] = _message(
    "HeartbeatRequest",
    79,
    "correlation_id i64; response_stream_id i32",
    "response_channel ascii; encoded_credentials bytes",
)
HEARTBEAT_RESPONSE: Message[records.HeartbeatResponse] = _message("HeartbeatResponse", 80, "correlation_id i64")
STANDBY_SNAPSHOT: Message[records.StandbySnapshot] = _message(
    "StandbySnapshot",
    81,
    "correlation_id i64; version i32; response_stream_id i32",
    "response_channel ascii; encoded_credentials bytes",
    [("snapshots", _SNAPSHOT_COLUMNS, "archive_endpoint ascii")],
)

# Log records (cluster-consensus.md §11)
NEW_LEADERSHIP_TERM_EVENT: Message[records.NewLeadershipTermEvent] = _message(
    "NewLeadershipTermEvent",
    24,
    "leadership_term_id i64; log_position i64; timestamp i64; term_base_log_position i64; leader_member_id i32;"
    "log_session_id i32; time_unit i32 4; app_version version_t 4",
)
SESSION_OPEN_EVENT: Message[records.SessionOpenEvent] = _message(
    "SessionOpenEvent",
    21,
    "leadership_term_id i64; correlation_id i64; cluster_session_id i64; timestamp i64; response_stream_id i32",
    "response_channel ascii; encoded_principal bytes",
)
SESSION_CLOSE_EVENT: Message[records.SessionCloseEvent] = _message(
    "SessionCloseEvent", 22, "leadership_term_id i64; cluster_session_id i64; timestamp i64; close_reason i32"
)
TIMER_EVENT: Message[records.TimerEvent] = _message(
    "TimerEvent", 20, "leadership_term_id i64; correlation_id i64; timestamp i64"
)
CLUSTER_ACTION_REQUEST: Message[records.ClusterActionRequest] = _message(
    "ClusterActionRequest", 23, "leadership_term_id i64; log_position i64; timestamp i64; action i32; flags i32 11"
)
MEMBERSHIP_CHANGE_EVENT: Message[records.MembershipChangeEvent] = _message(
    "MembershipChangeEvent",
    25,
    "leadership_term_id i64; log_position i64; timestamp i64; leader_member_id i32; cluster_size i32; change_type i32;"
    "member_id i32",
    "cluster_members ascii",
)

# Service control (cluster-consensus.md §12)
JOIN_LOG: Message[records.JoinLog] = _message(
    "JoinLog",
    40,
    "log_position i64; max_log_position i64; member_id i32; log_session_id i32; log_stream_id i32; is_startup i32;"
    "role i32; is_standby i32 16",
    "log_channel ascii",
)
SERVICE_TERMINATION_POSITION: Message[records.ServiceTerminationPosition] = _message(
    "ServiceTerminationPosition", 42, "log_position i64; ack_required i32 17"
)
REQUEST_SERVICE_ACK: Message[records.RequestServiceAck] = _message("RequestServiceAck", 108, "log_position i64")
SERVICE_ACK: Message[records.ServiceAck] = _message(
    "ServiceAck", 33, "log_position i64; timestamp i64; ack_id i64; relevant_id i64; service_id i32"
)
SCHEDULE_TIMER: Message[records.ScheduleTimer] = _message("ScheduleTimer", 31, "correlation_id i64; deadline i64")
CANCEL_TIMER: Message[records.CancelTimer] = _message("CancelTimer", 32, "correlation_id i64")
CLOSE_SESSION: Message[records.CloseSession] = _message("CloseSession", 30, "cluster_session_id i64")
CLUSTER_MEMBERS_QUERY: Message[records.ClusterMembersQuery] = _message(
    "ClusterMembersQuery", 34, "correlation_id i64; extended i32 5"
)
CLUSTER_MEMBERS_RESPONSE: Message[records.ClusterMembersResponse] = _message(
    "ClusterMembersResponse",
    41,
    "correlation_id i64; leader_member_id i32",
    "active_members ascii; passive_followers ascii",
)
_MEMBER_COLUMNS = "leadership_term_id i64; log_position i64; time_of_last_append_ns i64; member_id i32"
_MEMBER_DATA = (
    "ingress_endpoint ascii; consensus_endpoint ascii; log_endpoint ascii; catchup_endpoint ascii;"
    "archive_endpoint ascii"
)
CLUSTER_MEMBERS_EXTENDED_RESPONSE: Message[records.ClusterMembersExtendedResponse] = _message(
    "ClusterMembersExtendedResponse",
    43,
    "correlation_id i64; current_time_ns i64; leader_member_id i32; member_id i32",
    "",
    [("active_members", _MEMBER_COLUMNS, _MEMBER_DATA), ("passive_members", _MEMBER_COLUMNS, _MEMBER_DATA)],
)

# Snapshots (cluster-consensus.md §16)
SNAPSHOT_TYPE_CONSENSUS_MODULE = 1
SNAPSHOT_TYPE_SERVICE = 2
SNAPSHOT_MARKER: Message[records.SnapshotMarker] = _message(
    "SnapshotMarker",
    100,
    "type_id i64; log_position i64; leadership_term_id i64; index i32; mark i32; time_unit i32 4;"
    "app_version version_t 4",
)
CLIENT_SESSION: Message[records.ClientSession] = _message(
    "ClientSession",
    102,
    "cluster_session_id i64; response_stream_id i32",
    "response_channel ascii; encoded_principal bytes",
)
CLUSTER_SESSION: Message[records.ClusterSession] = _message(
    "ClusterSession",
    103,
    "cluster_session_id i64; correlation_id i64; opened_log_position i64; time_of_last_activity i64;"
    "close_reason i32; response_stream_id i32",
    "response_channel ascii",
)
TIMER: Message[records.Timer] = _message("Timer", 104, "correlation_id i64; deadline i64")
CONSENSUS_MODULE: Message[records.ConsensusModule] = _message(
    "ConsensusModule",
    105,
    "next_session_id i64; next_service_session_id i64 3; log_service_session_id i64 3;"
    "pending_message_capacity capacity_t 3",
)
PENDING_MESSAGE_TRACKER: Message[records.PendingMessageTracker] = _message(
    "PendingMessageTracker",
    107,
    "next_service_session_id i64; log_service_session_id i64; pending_message_capacity capacity_t; service_id i32",
)

MESSAGES = by_template_id(list(globals().values()))
_SCHEMAS = {SCHEMA_ID: MESSAGES}


def decode(buffer: Buffer) -> tuple[Message, Any] | None:
    """As `ordo.runtime.sbe.decode_one_of`, for messages of the cluster's schema."""
    return decode_one_of(_SCHEMAS, buffer)


def is_snapshot_order(action: int, flags: int, *, is_standby: bool = False) -> bool:
    """Return whether a ClusterActionRequest of the log has a node take a snapshot (cluster-consensus.md §16.4)."""
    taken = (0, NO_FLAGS, OF_STANDBYS, FOR_MEMBERS) if is_standby else (0, NO_FLAGS)
    return action == ClusterAction.SNAPSHOT and flags in taken


def is_copy_order(action: int, flags: int) -> bool:
    """Return whether a ClusterActionRequest of the log has members copy the snapshot that standbys take there."""
    return action == ClusterAction.SNAPSHOT and flags == FOR_MEMBERS

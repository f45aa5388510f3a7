"""Messages of Ordo's own, beside the cluster's schema: id 901, version 1. Members and clients of Aeron ignore them.

docs/spec/ordo-messages.md lists them. Tables and `decode` are as in `ordo.cluster.wire.codecs`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from ordo.archive.protocol import own_codecs
from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import HEADER_LENGTH_BYTES, columns
from ordo.runtime.sbe import Buffer, Message, by_template_id, decode_one_of

if TYPE_CHECKING:
    from ordo.cluster.wire import records

SCHEMA_ID = 901
SCHEMA_VERSION = 1
EMPTY_PAYLOAD_BYTES = HEADER_LENGTH_BYTES + 4
"""What a message with a payload is longer than its fields and the payload: message header, length of the payload."""


class Consistency(IntEnum):
    """What a query wants of its answer; travels as i32."""

    LINEARIZABLE = 0
    """It shows everything that was answered anywhere before the query was asked."""
    STALE = 1
    """It may be older, and says of which position it is."""


class ClockSource(IntEnum):
    """What told the figures of a ClockEvent; travels as i32."""

    NONE = 0
    """Nothing: the system does not tell them, and they are 0."""
    KERNEL = 1
    """The kernel, to which a time daemon told them (`adjtimex(2)`)."""


class QueryStatus(IntEnum):
    """What became of a query; travels as i32. The payload of any but OK is a line of text."""

    OK = 0
    UNSUPPORTED = 1
    """The service answers no queries, or none of this kind."""
    ERROR = 2
    """The service failed at it, or it, or its answer, is too long."""
    BUSY = 3
    """The member has as many as it takes: ask again later."""
    UNAVAILABLE = 4
    """No leader confirms it now: ask again."""


class AnswerStatus(IntEnum):
    """What became of a request; travels as i32. The payload of any but OK is a line of text."""

    OK = 0
    """Executed, at the answer's log position."""
    REJECTED = 1
    """Executed, at the answer's log position: the service refused it and changed nothing."""
    TOO_LONG = 2
    """Executed, at the answer's log position; its answer is longer than may be kept, or than the egress takes."""
    WAIT = 3
    """Not executed: too many answers are kept for one identity, or all. To be sent again once some were confirmed."""
    UNKNOWN = 4
    """Not executed: no identity was opened at this position, it has expired, or another client has opened it since."""
    ID_CONFLICT = 5
    """Not executed: its id was used for another payload, at the answer's log position."""
    FORGOTTEN = 6
    """Executed before, at the answer's log position; the answer is not kept any more."""


class AcknowledgementLevel(IntEnum):
    """What has become of a message of `send`; travels as i32."""

    SEQUENCED = 1
    """It is in the log, on a quorum."""
    EXECUTED = 2
    """The leader's service has executed it."""


class PreviousSession(IntEnum):
    """What the cluster knows of the session that a MessageMark names as the one before; travels as i32."""

    NONE = 0
    """None was named."""
    RESOLVED = 1
    """It is closed; the gaps say what is missing of it."""
    OPEN = 2
    """Its messages may still come into the log: to be asked again."""
    UNKNOWN = 3
    """It was closed too long ago, or no mark of it is in the log."""


class SnapshotPart(IntEnum):
    """What a SnapshotRequest asks for; travels as i32."""

    DESCRIPTION = 0
    MODULE = 1
    SERVICE = 2
    """Service 0's; service N has SERVICE + N."""


class RecordOrder(IntEnum):
    """What a module tells its service of a record; travels as i32."""

    HOLD = 0
    """To wait before it."""
    SKIP = 1
    """To skip it; the text is for its sender."""
    EXECUTE = 2
    """To wait no longer."""
    STOP = 3
    """The service failed at it, and is to end with its error."""
    STAND_STILL = 4
    """To execute and answer nothing more: the service's state is not that of the other members."""
    KEEP_STATE = 5
    """The same, and to record this state (StateKept)."""


class FailureVerdict(IntEnum):
    """What became, at one member, of a record that failed at another; travels as i32."""

    UNKNOWN = 0
    """It was not executed there yet."""
    EXECUTED = 1
    FAILED = 2
    SKIPPED = 3
    """The log says that it is left out, and that is committed."""


class OperatorOrder(IntEnum):
    """What an operator asks of one member; travels as i32."""

    LOOK = 0
    """What the member knows of itself: a JSON object."""
    TOGGLE = 1
    """To set its control toggle (counter 202) to `value` if it is `expected`. The answer's value is what it was."""
    ASK = 2
    """To answer `question`, an encoded message that tools of its own machine send over its control stream."""
    SKIPPED = 3
    """Which records of the log it leaves out: a JSON object."""
    DETAILS = 4
    """Its newest terms, snapshots, sessions and errors: a JSON object."""


class OperatorStatus(IntEnum):
    """What became of an operator's order or connection; travels as i32. The payload of any but OK is a line of text."""

    OK = 0
    REFUSED = 1
    """Not as things are now."""
    NOT_ALLOWED = 2
    """The credentials do not suffice."""


class MembershipChange(IntEnum):
    ADD_LEARNER = 0
    PROMOTE = 1
    DEMOTE = 2
    REMOVE = 3


def _message(name: str, template_id: int, fields: str, data: str = "", version: int = SCHEMA_VERSION) -> Message:
    """`version`: of a message that got further fields later; what has fewer reads them as null, or leaves them out."""
    return Message(
        name, template_id, SCHEMA_ID, version, fields=list(columns(fields)), groups=[], data=list(columns(data))
    )


# Members
TIMEOUT_NOW: Message[records.TimeoutNow] = _message(
    "TimeoutNow", 1, "leadership_term_id i64; log_position i64; leader_member_id i32; follower_member_id i32"
)
TRANSFER_REQUEST_VOTE: Message[records.TransferRequestVote] = _message(
    "TransferRequestVote",
    2,
    "log_leadership_term_id i64; log_position i64; candidate_term_id i64; candidate_member_id i32;"
    "protocol_version version_t",
)
"""RequestVote of a candidate that its leader has asked to stand."""
READ_HEARTBEAT: Message[records.ReadHeartbeat] = _message(
    "ReadHeartbeat", 12, "leadership_term_id i64; round_id i64; leader_member_id i32"
)
READ_HEARTBEAT_ACK: Message[records.ReadHeartbeatAck] = _message(
    "ReadHeartbeatAck", 13, "leadership_term_id i64; round_id i64; follower_member_id i32"
)
READ_INDEX_REQUEST: Message[records.ReadIndexRequest] = _message(
    "ReadIndexRequest", 14, "leadership_term_id i64; request_id i64; follower_member_id i32"
)
READ_INDEX_RESPONSE: Message[records.ReadIndexResponse] = _message(
    "ReadIndexResponse", 15, "request_id i64; log_position i64; leader_member_id i32"
)

TIMER_EXECUTED: Message[records.TimerExecuted] = _message("TimerExecuted", 3, "correlation_id i64; timestamp i64")
"""From a service to its module: between its requests, it has come to a TimerEvent of the log."""

DISCONNECT_SESSION: Message[records.DisconnectSession] = _message(
    "DisconnectSession", 46, "cluster_session_id i64", "detail ascii"
)
"""From the leader's service container to its module: the client takes too little of what it is sent; not deterministic,
so it closes the session through the log only."""

# Queries
QUERY: Message[records.Query] = _message(
    "Query",
    10,
    "cluster_session_id i64; correlation_id i64; min_position i64; consistency i32",
    "payload bytes",
)
"""Ingress, to any member. `min_position`: answered only by a service that has executed so far."""
QUERY_RESPONSE: Message[records.QueryResponse] = _message(
    "QueryResponse",
    11,
    "cluster_session_id i64; correlation_id i64; log_position i64; member_id i32; status i32",
    "payload bytes",
)
"""Egress. `log_position`: up to here the service has executed the log, and no further."""
SERVICE_QUERY: Message[records.ServiceQuery] = _message(
    "ServiceQuery",
    16,
    "cluster_session_id i64; correlation_id i64; read_position i64; status i32",
    "payload bytes",
)
"""From a member to its own service. `read_position`: to be executed before it answers. A status other than OK goes to
the client as it is."""

# Queries of applications
GROUP_QUERY: Message[records.GroupQuery] = _message(
    "GroupQuery",
    126,
    "cluster_session_id i64; correlation_id i64; min_position i64; consistency i32",
    "group bytes; payload bytes",
)
"""Ingress, to the leader. As a Query, for an instance of an application's group."""
GROUP_SERVES: Message[records.GroupServes] = _message("GroupServes", 127, "cluster_session_id i64", "group bytes")
"""Ingress. The instance that has this session answers queries of its group; said again while it does."""
GROUP_QUESTION: Message[records.GroupQuestion] = _message(
    "GroupQuestion",
    128,
    "cluster_session_id i64; asker_session_id i64; correlation_id i64; read_position i64",
    "payload bytes",
)
"""Egress, from the leader to an instance. `read_position`: to be executed before it answers."""
GROUP_ANSWER: Message[records.GroupAnswer] = _message(
    "GroupAnswer",
    129,
    "cluster_session_id i64; asker_session_id i64; correlation_id i64; log_position i64; status i32",
    "payload bytes",
)
"""Ingress, from an instance; the leader makes the asker's QueryResponse of it."""

TRUST_REQUEST: Message[records.TrustRequest] = _message("TrustRequest", 30, "request_id i64; member_id i32")
"""From a member that may not vote (ordo.consensus.handlers.trust)."""
STANDS_BACK: Message[records.StandsBack] = _message("StandsBack", 32, "member_id i32")
"""From a member that votes, but does not want to lead (ordo.consensus.handlers.trust)."""
TRUST_ANSWER: Message[records.TrustAnswer] = _message(
    "TrustAnswer",
    31,
    "request_id i64; candidate_term_id i64; leadership_term_id i64; log_position i64; member_id i32",
)

# Membership; members as in the text of ordo.cluster.wire.members
CONFIGURATION_EVENT: Message[records.ConfigurationEvent] = _message(
    "ConfigurationEvent", 20, "leadership_term_id i64; timestamp i64", "voters ascii; learners ascii"
)
"""A record of the log, and a message of the consensus module's snapshot."""
INTRODUCTION: Message[records.Introduction] = _message("Introduction", 21, "member_id i32", "member ascii")
MEMBER_CHALLENGE: Message[records.MemberChallenge] = _message("MemberChallenge", 80, "nonce i64; member_id i32")
"""Sent to a member's consensus endpoint by member `member_id`, which has heard somebody speak in its name."""
MEMBER_PROOF: Message[records.MemberProof] = _message(
    "MemberProof",
    81,
    "nonce i64; member_id i32; distrust i32 2; identity_high i64 2; identity_low i64 2; identity_position i64 2;"
    "executed_position i64 2; start_number i64 2; start_draw i64 2; previous_number i64 2; previous_draw i64 2;"
    "start_term_id i64 2; start_position i64 2",
    version=2,
)
"""The nonce of a challenge, in the stream whose sender proves with it that it is member `member_id`; since version 2
also whose data it has (`cluster.module.members.standings`). The start's term and position: what the member was bound
to, and where its log ended, when it started, or when a log that it knew to lack something was whole again."""
MEMBER_STANDING: Message[records.MemberStanding] = _message(
    "MemberStanding",
    82,
    "member_id i32; distrust i32; identity_high i64; identity_low i64; identity_position i64; executed_position i64;"
    "start_number i64; start_draw i64; leadership_term_id i64; append_position i64",
)
"""Between members, once a second: whose data a member has, and what it has acknowledged in a term (-1: in none)."""
MEMBER_BEHIND: Message[records.MemberBehind] = _message(
    "MemberBehind",
    83,
    "member_id i32; follower_member_id i32; identity_high i64; identity_low i64; start_number i64; start_draw i64;"
    "known_number i64",
)
"""To the member `follower_member_id`, of the start that it has shown: its start `known_number` had more."""
TERM_LEAD: Message[records.TermLead] = _message(
    "TermLead", 86, "leadership_term_id i64; member_id i32; log_session_id i32"
)
"""Between members, behind the fields of a NewLeadershipTerm, in the same message: who led the term that it names as the
one of the follower's log. Who does not know it reads the NewLeadershipTerm alone."""
CLUSTER_IDENTITY_EVENT: Message[records.ClusterIdentityEvent] = _message(
    "ClusterIdentityEvent",
    84,
    "leadership_term_id i64; timestamp i64; identity_high i64; identity_low i64; log_position i64; member_id i32",
)
"""A record of the log, and a message of the consensus module's snapshot: which cluster's log this is. `member_id`: the
leader. `log_position`: of the record, in a snapshot; in the log from where on it has the identity, -1: from here."""
LOG_IDENTITY: Message[records.LogIdentity] = own_codecs.LOG_IDENTITY
"""To clients of Ordo: egress, before the event that opens a session; and from a node's archive."""
MEMBERSHIP_REQUEST: Message[records.MembershipRequest] = _message(
    "MembershipRequest", 22, "correlation_id i64; member_id i32; change i32", "member ascii"
)
MEMBERSHIP_RESPONSE: Message[records.MembershipResponse] = _message(
    "MembershipResponse", 23, "correlation_id i64; leader_member_id i32; log_position i64", "refusal ascii"
)

# Records that are left out
SKIP_EVENT: Message[records.SkipEvent] = _message(
    "SkipEvent", 90, "leadership_term_id i64; timestamp i64; skipped_position i64; member_id i32", "text bytes"
)
"""A record of the log: the one that ends at `skipped_position` is left out, on all members. `member_id`: the leader."""
SERVICE_FAILURE: Message[records.ServiceFailure] = _message(
    "ServiceFailure", 91, "log_position i64; is_held i32", "error bytes; text bytes"
)
"""From a service to its module: it failed at the record, or waits before it. `error`: the type of what it raised."""
RECORD_ORDER: Message[records.RecordOrder] = _message("RecordOrder", 92, "log_position i64; order i32", "text bytes")
"""From a module to its service."""
FAILURE_REPORT: Message[records.FailureReport] = _message(
    "FailureReport", 93, "log_position i64; member_id i32; is_held i32; wants_skip i32", "error bytes; text bytes"
)
FAILURE_ANSWER: Message[records.FailureAnswer] = _message(
    "FailureAnswer",
    94,
    "log_position i64; skip_position i64; timestamp i64; member_id i32; follower_member_id i32; verdict i32",
    "text bytes",
)
"""To the member that reported a failure; skip position, timestamp and text are of the SkipEvent, if there is one."""
SKIPPED_RECORD: Message[records.SkippedRecord] = _message(
    "SkippedRecord", 95, "log_position i64; skip_position i64; timestamp i64", "text bytes"
)
"""In the consensus module's snapshot: a record below it that was left out."""
SKIP_REQUEST: Message[records.SkipRequest] = _message("SkipRequest", 96, "correlation_id i64; log_position i64")
SKIP_RESPONSE: Message[records.SkipResponse] = _message(
    "SkipResponse", 97, "correlation_id i64; leader_member_id i32; log_position i64", "refusal ascii"
)

# Operators (docs/ARCHITECTURE.md, Operators)
OPERATOR_CONNECT: Message[records.OperatorConnect] = _message(
    "OperatorConnect", 70, "correlation_id i64; response_port i32", "credentials bytes"
)
"""Ingress, to any member. Answered on stream 110 of that port of the host that it comes from."""
OPERATOR_CONNECTED: Message[records.OperatorConnected] = _message(
    "OperatorConnected", 71, "correlation_id i64; connection_id i64; member_id i32; status i32", "text bytes"
)
OPERATOR_REQUEST: Message[records.OperatorRequest] = _message(
    "OperatorRequest",
    72,
    "connection_id i64; correlation_id i64; order i32; value i64; expected i64",
    "question bytes",
)
"""Ingress, on the image of the connection."""
OPERATOR_RESPONSE: Message[records.OperatorResponse] = _message(
    "OperatorResponse", 73, "correlation_id i64; value i64; member_id i32; status i32", "payload bytes"
)

# Versions of the service (docs/UPGRADES.md)
VERSION_EVENT: Message[records.VersionEvent] = _message(
    "VersionEvent",
    110,
    "leadership_term_id i64; timestamp i64; app_version version_t; member_id i32; service_id i32 2",
    version=2,
)
"""A record of the log: what follows is executed by the service's code of this version. `member_id`: the leader.
`service_id`: the one service that it is for, negative: all of them. In the consensus module's snapshot: the version of
a service that has another one than service 0."""
SERVICE_VERSIONS: Message[records.ServiceVersions] = _message(
    "ServiceVersions", 111, "service_id i32", "versions bytes"
)
"""From a service container to its module, when it starts: what code it has, as rows of `cluster.wire.version_rows`."""
SERVICE_LACK: Message[records.ServiceLack] = _message("ServiceLack", 112, "log_position i64; app_version version_t")
"""From a service container to its module: it stands still, having no code of the version that is in force there."""
VERSIONS_QUESTION: Message[records.VersionsQuestion] = _message(
    "VersionsQuestion", 113, "request_id i64; member_id i32"
)
VERSIONS_REPORT: Message[records.VersionsReport] = _message(
    "VersionsReport",
    114,
    "request_id i64; lack_position i64; member_id i32; follower_member_id i32; lack_version version_t;"
    "protocol_level i32 2",
    "versions bytes; services bytes 3",
    version=3,
)
"""To the member that asked. `lack_version`: the service stands still for want of it, 0: it does not. `protocol_level`:
of the member's release. `versions`: those that all its services have; `services`: the same of each service."""
UPGRADE_REQUEST: Message[records.UpgradeRequest] = _message(
    "UpgradeRequest", 115, "correlation_id i64; app_version version_t; service_id i32 2", version=2
)
"""`service_id` as in a VersionEvent. A leader that does not know it upgrades all services: a client that asks for one
asks first for the protocol level of the log."""
UPGRADE_RESPONSE: Message[records.UpgradeResponse] = _message(
    "UpgradeResponse", 116, "correlation_id i64; leader_member_id i32; log_position i64", "refusal ascii"
)
VERSIONS_QUERY: Message[records.VersionsQuery] = _message("VersionsQuery", 117, "correlation_id i64")
VERSIONS_RESPONSE: Message[records.VersionsResponse] = _message(
    "VersionsResponse",
    118,
    "correlation_id i64; leader_member_id i32; app_version version_t; since_position i64;"
    "level_since_position i64 2; protocol_level i32 2",
    "members bytes; levels bytes 2; in_force bytes 3; services bytes 3",
    version=3,
)
"""`app_version`: of service 0, in force since `since_position`, -1: since before the snapshot that the member started
from; 0: the log is empty. `protocol_level`: of the log, likewise. `levels`: of the members' releases. `in_force`: of
each service, by its id. `members`: the versions that all services of a member have; `services`: those of each."""

# Schemas of messages with types (docs/MESSAGES.md)
SCHEMA_EVENT: Message[records.SchemaEvent] = _message(
    "SchemaEvent",
    140,
    "leadership_term_id i64; timestamp i64; log_position i64; service_id i32; member_id i32",
    "digest bytes; packed bytes",
)
"""A record of the log, and a message of the consensus module's snapshot: a schema of messages that the service takes
and gives, as `service_api.messages.logged` packs it. `log_position`: of the record, in a snapshot; -1 in the log.
`member_id`: the leader."""
SERVICE_SCHEMA: Message[records.ServiceSchema] = _message(
    "ServiceSchema", 141, "service_id i32; app_version version_t; part i32; parts i32", "digest bytes; packed bytes"
)
"""From a service container to its module, at its start: the schema of its code of a version, one of
`parts`."""
SERVICE_TIME: Message[records.ServiceTime] = _message("ServiceTime", 143, "service_id i32; time_unit i32")
"""From a service container to its module, where it executes a change of the log's unit of time: the deadlines of the
timers that it schedules from here on are in it, and it has converted those that it had."""

# Requests: executed once (docs/CLIENT.md). The first three fields are those of a SessionMessageHeader.
OPEN_IDENTITY: Message[records.OpenIdentity] = _message(
    "OpenIdentity",
    40,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "identity_high i64; identity_low i64; incarnation i64; known_position i64",
)
"""Ingress and log. The client with this incarnation is the only one to use the identity from now on. `known_position`:
the open position that the client, or its journal, knows of, and no other is taken over; 0: whichever there is; -1:
there is none. That of a new identity is the record's own."""
REQUEST: Message[records.Request] = _message(
    "Request",
    41,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; open_position i64; number i64; confirmed i64",
)
"""Ingress and log; the payload follows to the end. `confirmed`: the client has all answers up to this number."""
IDENTITY_OPENED: Message[records.IdentityOpened] = _message(
    "IdentityOpened",
    42,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "incarnation i64; open_position i64; number i64; confirmed i64; status i32; length_bytes_max i32;"
    "takes_ids i32 2; takes_output_ids i32 3",
    version=3,
)
"""Egress. `number`: the last that was executed. `length_bytes_max`: of a Request, with its header. `takes_ids`: 1 where
requests may have ids that their callers chose; `takes_output_ids`: 1 where the log has the protocol level of outputs
with ids."""
ANSWER: Message[records.Answer] = _message(
    "Answer",
    43,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "open_position i64; number i64; log_position i64; status i32; sequence i64 2",
    version=2,
)
"""Egress; the payload follows to the end. `sequence`: the number of the request among the messages of the log; 0 where
it is not known."""
IDENTITY: Message[records.Identity] = _message(
    "Identity",
    44,
    "identity_high i64; identity_low i64; incarnation i64; open_position i64; number i64; confirmed i64; last_time i64",
    "principal bytes",
)
"""A service's snapshot, before its END marker."""
KEPT_ANSWER: Message[records.KeptAnswer] = _message(
    "KeptAnswer", 45, "number i64; log_position i64; status i32", "payload bytes"
)
"""A service's snapshot: an answer to the Identity before it. The next one of its number goes on with its payload."""
REQUEST_IDS: Message[records.RequestIds] = _message(
    "RequestIds", 50, "part i32; parts i32", "principal bytes; rows bytes"
)
"""A service's snapshot, before its END marker, of a log that may have RequestsById: the ids of one principal and what
was answered, in parts (ordo.service_api.request_ids). One whose `parts` is 0 says only that the log may have them; its
`part` is 1 where the log may have OutputsById, too, and else 0."""
MESSAGE_SEQUENCE: Message[records.MessageSequence] = _message("MessageSequence", 51, "last i64; is_kept i32")
"""A service's snapshot, before its END marker, of a log whose messages have numbers: the `last` one. `is_kept`: 1 where
the log has the protocol level of such numbers."""

# Messages of `send` and `offer`: which of them the log has (docs/CLIENT.md, What became of a message)
MESSAGE_MARK: Message[records.MessageMark] = _message(
    "MessageMark",
    47,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;number i64; confirmed i64; previous_session_id i64",
)
"""Ingress and log. The client numbers its messages over all its sessions; those that follow in this session are
numbered from `number` on. `confirmed`: it knows what became of those up to this one. `previous_session_id`: a session
of its own that is over, of whose last messages it does not know; -1: none."""
MESSAGES_MARKED: Message[records.MessagesMarked] = _message(
    "MessagesMarked",
    48,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "number i64; known_number i64; log_position i64; level i32; previous i32",
    "gaps bytes",
)
"""Egress: every message below `number` is in the log, but for the gaps: rows of i64 first number and i64 number after
the last, which are not and never will be; of those below `known_number` the cluster does not know any more. `level`: an
AcknowledgementLevel; there are gaps with EXECUTED only. `previous`: a PreviousSession."""
SESSION_NUMBERS: Message[records.SessionNumbers] = _message(
    "SessionNumbers",
    49,
    "cluster_session_id i64; previous_session_id i64; first_number i64; next_number i64; known_number i64; is_open i32",
    "gaps bytes",
)
"""A service's snapshot, before its END marker: the state behind MessagesMarked, of a session that has sent a mark."""

# Durable consumers (docs/CONSUMERS.md). The first three fields are those of a SessionMessageHeader.
CONSUMER_COMMAND: Message[records.ConsumerCommand] = _message(
    "ConsumerCommand",
    120,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "member_key i64; number i64; epoch i64; position i64; from_position i64; filter_hash i64; ack_timeout i64;"
    "kind i32; mode i32; in_flight_max i32; tries_max i32; name_length i32; flags i32",
)
"""Ingress and log; the name and the rows follow to the end (cluster.wire.sessions.consumer_codec). `number`: the
member's commands are numbered, and each is executed once. `ack_timeout` in ms."""
CONSUMER_ANSWER: Message[records.ConsumerAnswer] = _message(
    "ConsumerAnswer",
    121,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "member_key i64; number i64; epoch i64; position i64; frontier i64; due i64; log_position i64;"
    "status i32; flags i32; room i32; accepted i32; count i32; filler pad4",
)
"""Egress; rows or a text follow to the end. `number` 0: nobody has asked, the member's part has changed. `due`: cluster
time in ms at which something of the work is to be handed out again; -1: never. `accepted`: of a command's
acknowledgements; what was handed out again before is not acknowledged any more."""
CONSUMER_STATE: Message[records.ConsumerState] = _message("ConsumerState", 122, "part i32; parts i32", "state bytes")
"""A service's snapshot, before its END marker: a durable consumer, as JSON, in parts."""
CONSUMERS_HOLD: Message[records.ConsumersHold] = _message("ConsumersHold", 123, "log_position i64")
"""From a service container to its module: the log from here on is not read yet by a durable consumer; -1: by none."""

# Applications (docs/APPLICATIONS.md). The first three fields are those of a SessionMessageHeader.
APP_REPORT: Message[records.AppReport] = _message(
    "AppReport",
    124,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "position i64; outputs_made i64; outputs_executed i64;"
    "app_version i32; flags i32; group_length i32; instance_length i32",
)
"""Ingress, log, and a service's snapshot before its END marker: how far an instance of an application is. Two texts
follow to the end (ordo.cluster.wire.sessions.instance_codec)."""
APP_DIFFERENCE: Message[records.AppDifference] = _message(
    "AppDifference",
    125,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; log_position i64; input_position i64; count i64;"
    "output_index i32; app_version i32; kind i32; written_length i32; canary_length i32; group_length i32;"
    "instance_length i32; filler pad4",
)
"""Ingress, log, and a service's snapshot before its END marker: an output that a canary and its group did not write
alike. Two names and two payloads follow to the end (ordo.cluster.wire.sessions.difference_codec)."""

# Feeds (docs/spec/feeds.md)
FEED_MESSAGE: Message[records.FeedMessage] = _message(
    "FeedMessage",
    130,
    "sequence i64; log_position i64; previous_log_position i64; timestamp i64; message_index i32; filler pad4",
)
"""In the recording of a topic, and in replays of it; the payload follows to the end. The sequence counts the topic's
messages from 1 on. `log_position`: after the record that it was published for; `previous_log_position`: that of the
message before in the topic, 0: there is none; `message_index`: among what was published for the record, in any topic,
from 0 on; `timestamp`: cluster time of the record."""
FEED_OPEN: Message[records.FeedOpen] = _message("FeedOpen", 131, "position i64; session_id i32", "topic ascii")
"""From a service container to its module: publishes a topic from this position of its stream on, which is to be
recorded."""
FEED_STATE: Message[records.FeedState] = _message(
    "FeedState", 132, "sequence i64; position i64; log_position i64", "topic ascii"
)
"""A service's snapshot, before its END marker: the last sequence of a topic, the end of its stream, and the log
position of its last message."""


def split_identity(identity: bytes) -> dict[str, int]:
    """16 bytes as the two fields that they travel in."""
    return {
        "identity_high": int.from_bytes(identity[:8], "big", signed=True),
        "identity_low": int.from_bytes(identity[8:], "big", signed=True),
    }


class IdentityFields(Protocol):
    """An identity of 16 bytes, as messages have it."""

    @property
    def identity_high(self) -> int: ...
    @property
    def identity_low(self) -> int: ...


def join_identity(values: IdentityFields) -> bytes:
    """Return the 16 bytes of a message with an identity."""
    halves = values.identity_high, values.identity_low
    return b"".join(half.to_bytes(8, "big", signed=True) for half in halves)


# Snapshots (docs/ARCHITECTURE.md, A log that forgets)
SNAPSHOT_DIGEST: Message[records.SnapshotDigest] = _message(
    "SnapshotDigest", 60, "log_position i64; service_id i32", "digest bytes"
)
"""From a service to its module, before the ack of a snapshot: `cluster.wire.snapshots.snapshot_digest` over its
messages."""
SNAPSHOT_REPORT: Message[records.SnapshotReport] = _message(
    "SnapshotReport", 61, "needed_position i64; member_id i32", "snapshots bytes"
)
"""Which snapshots a member holds whole: rows of i64 log position and 16 bytes of digest, the newest first.
`needed_position`: the log from here on is what this member still lacks."""
CATCHUP_REFUSAL: Message[records.CatchupRefusal] = _message(
    "CatchupRefusal",
    62,
    "leadership_term_id i64; start_position i64; snapshot_position i64; leader_member_id i32; follower_member_id i32;"
    "source_member_id i32",
    "digest bytes; source ascii",
)
"""From a leader whose log begins above the position that a member asked for: which snapshot to take, and where; the
source as in `ordo.cluster.wire.members`, for the member may not know it."""
SNAPSHOT_REQUEST: Message[records.SnapshotRequest] = _message(
    "SnapshotRequest",
    63,
    "snapshot_position i64; from_position i64; member_id i32; part i32; session_id i32",
    "digest bytes",
)
"""Asks the holder of a snapshot to describe it, or to replay one part of it from a position on."""
SNAPSHOT_OFFER: Message[records.SnapshotOffer] = _message(
    "SnapshotOffer",
    64,
    "snapshot_position i64; leadership_term_id i64; term_base_log_position i64; timestamp i64;"
    "module_length_bytes i64; service_length_bytes i64; member_id i32; follower_member_id i32",
    "digest bytes; more_lengths bytes 2",
    version=2,
)
"""The description; lengths are -1 from a member that does not hold that snapshot (any more). `service_length_bytes` is
of service 0; `more_lengths` of the others by their ids, as i64 each."""
LEADERSHIP_TERMS: Message[records.LeadershipTerms] = _message("LeadershipTerms", 65, "count i32", "terms bytes")
"""In the consensus module's snapshot: every leadership term below it, as rows of i64 term id and i64 base position."""
LOG_REQUEST: Message[records.LogRequest] = _message(
    "LogRequest", 66, "from_position i64; length_bytes i64; member_id i32; session_id i32"
)
"""Asks another member to replay a stretch of the committed log to the endpoint for catch-ups."""
SNAPSHOT_BEGUN: Message[records.SnapshotBegun] = _message(
    "SnapshotBegun", 67, "log_position i64; service_id i32; session_id i32"
)
"""From a service to its module: a copy of it writes its snapshot of this position in this session, while it goes on.
What follows in the module's stream belongs to later records."""

# Hashes of the service's state (docs/ARCHITECTURE.md, Hashes of states)
STATE_HASH_EVENT: Message[records.StateHashEvent] = _message(
    "StateHashEvent",
    68,
    "leadership_term_id i64; timestamp i64; agreed_position i64; member_id i32",
    "agreed_digest bytes",
)
"""A record of the log: every service gives the hash of its state here. `agreed_position`: of an earlier such record, at
which a quorum had the state with `agreed_digest`; -1: none to tell of. `member_id`: the leader."""
STATE_HASH: Message[records.StateHash] = _message("StateHash", 69, "log_position i64; service_id i32", "digest bytes")
"""From a service to its module: the hash of its state at a StateHashEvent."""
STATE_KEPT: Message[records.StateKept] = _message("StateKept", 77, "log_position i64; recording_id i64; service_id i32")
"""From a service container to its module: it stands still, and has recorded its state; -1: it could not."""
SNAPSHOT_FAILURE: Message[records.SnapshotFailure] = _message(
    "SnapshotFailure", 78, "log_position i64; service_id i32", "text bytes"
)
"""From a service container to its module: why the next ack has no part of the snapshot at this position."""
STATE_HASH_REPORT: Message[records.StateHashReport] = _message("StateHashReport", 74, "member_id i32", "hashes bytes")
"""Between members: what services had at the newest StateHashEvents, as rows of
`cluster.module.snapshots.snapshot_reports`."""

# What members of several releases may write (docs/UPGRADES.md, Releases of Ordo itself)
LEVEL_EVENT: Message[records.LevelEvent] = _message(
    "LevelEvent", 75, "leadership_term_id i64; timestamp i64; level i32; member_id i32"
)
"""A record of the log, and a message of the consensus module's snapshot: from here on the log may have records that a
member knows whose protocol level is this. `member_id`: the leader."""
LEVEL_REPORT: Message[records.LevelReport] = _message("LevelReport", 76, "member_id i32; level i32")
"""Between members: the protocol level of a member's release, while that of the log is lower."""
CLOCK_EVENT: Message[records.ClockEvent] = _message(
    "ClockEvent",
    150,
    "leadership_term_id i64; timestamp i64; offset_ns i64; error_estimate_ns i64; error_bound_ns i64;"
    "wall_clock_ahead_ns i64; interval_ns i64; member_id i32; source i32; is_synchronized i32",
)
"""A record of the log: how well the clock of the leader `member_id` was known when it stamped this record. `source`, a
ClockSource, told the figures, which are those of a ClockQuality. `wall_clock_ahead_ns`: of the timestamp.
`interval_ns`: after so long the next one follows, if the log has grown."""

ARRIVED_REQUEST: Message[records.ArrivedRequest] = _message(
    "ArrivedRequest",
    151,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; open_position i64; number i64; confirmed i64",
)
"""Log alone: a Request of any length with the time of its arrival, i64, behind its block
(cluster.wire.sessions.arrivals). No leader takes one from a client."""

MESSAGES = by_template_id(list(globals().values()))
OUTPUT: Message[records.Output] = _message(
    "Output",
    REQUEST.template_id,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; open_position i64; number i64; confirmed i64;"
    "input_position i64; target_session_id i64; output_index i32; filler pad4",
)
"""A Request with a longer block, which is an application's output. Not among MESSAGES, where it is a Request like any.
The input's position and an index say what it answers; the target is the client it is meant for, or -1."""
REQUEST_BY_ID: Message[records.RequestById] = _message(
    "RequestById",
    REQUEST.template_id,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; open_position i64; number i64; confirmed i64;"
    "request_id_high i64; request_id_low i64",
)
"""A Request with a digest of the id that its caller chose, between a Request and an Output in length; as an Output not
among MESSAGES."""
OUTPUT_BY_ID: Message[records.OutputById] = _message(
    "OutputById",
    REQUEST.template_id,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64; open_position i64; number i64; confirmed i64;"
    "input_position i64; target_session_id i64; output_index i32; filler pad4;"
    "request_id_high i64; request_id_low i64",
)
"""An Output with a digest of the id that its application chose: the longest of the Requests."""
LONG_APP_REPORT: Message[records.LongAppReport] = _message(
    "LongAppReport",
    APP_REPORT.template_id,
    "leadership_term_id i64; cluster_session_id i64; timestamp i64;"
    "position i64; outputs_made i64; outputs_executed i64;"
    "app_version i32; flags i32; group_length i32; instance_length i32; outputs_refused i64",
)
"""An AppReport with a longer block, which counts the outputs that the service in the cluster has refused; not among
MESSAGES."""
_OWN_SCHEMA = {SCHEMA_ID: MESSAGES}
_BOTH_SCHEMAS = {codecs.SCHEMA_ID: codecs.MESSAGES, SCHEMA_ID: MESSAGES}


def decode_request(record: bytes) -> tuple[Message, Any]:
    """Return a record whose template is a Request's, as the message of its length.

    REQUEST, REQUEST_BY_ID, OUTPUT or OUTPUT_BY_ID.
    """
    block_length = int.from_bytes(record[:2], "little")
    for table in (OUTPUT_BY_ID, OUTPUT, REQUEST_BY_ID):
        if block_length >= table.block_length:
            return table, table.decode(record)
    return REQUEST, REQUEST.decode(record)


def request_digest(values: Any) -> bytes:
    """Return the digest of a request's id, with the same bytes as in the record.

    Empty where it chose none.
    """
    high: int | None = getattr(values, "request_id_high", None)
    if high is None:
        return b""
    low: int = values.request_id_low
    return high.to_bytes(8, "little", signed=True) + low.to_bytes(8, "little", signed=True)


def split_request_digest(digest: bytes) -> dict[str, int]:
    """Return the two fields of a message that a digest is sent in."""
    return {
        "request_id_high": int.from_bytes(digest[:8], "little", signed=True),
        "request_id_low": int.from_bytes(digest[8:], "little", signed=True),
    }


def decode(buffer: Buffer) -> tuple[Message, Any] | None:
    """As `ordo.runtime.sbe.decode_one_of`, for messages of Ordo's own schema."""
    return decode_one_of(_OWN_SCHEMA, buffer)


def decode_any(buffer: Buffer) -> tuple[Message, Any] | None:
    """As `decode`, for messages of the cluster's schema and of Ordo's own."""
    return decode_one_of(_BOTH_SCHEMAS, buffer)

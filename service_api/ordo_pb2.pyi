from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpenIdentityRequest(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    def __init__(self, identity: _Optional[bytes] = ...) -> None: ...

class OpenIdentityResponse(_message.Message):
    __slots__ = ("identity_position", "number", "confirmed", "payload_bytes_max")
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    identity_position: int
    number: int
    confirmed: int
    payload_bytes_max: int
    def __init__(self, identity_position: _Optional[int] = ..., number: _Optional[int] = ..., confirmed: _Optional[int] = ..., payload_bytes_max: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("identity", "number", "payload", "confirmed", "identity_position", "id")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    number: int
    payload: bytes
    confirmed: int
    identity_position: int
    id: bytes
    def __init__(self, identity: _Optional[bytes] = ..., number: _Optional[int] = ..., payload: _Optional[bytes] = ..., confirmed: _Optional[int] = ..., identity_position: _Optional[int] = ..., id: _Optional[bytes] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("payload", "log_position", "identity_position", "sequence")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    log_position: int
    identity_position: int
    sequence: int
    def __init__(self, payload: _Optional[bytes] = ..., log_position: _Optional[int] = ..., identity_position: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class SubmitBatch(_message.Message):
    __slots__ = ("identity", "number", "payloads", "confirmed", "identity_position", "ids")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    number: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    confirmed: int
    identity_position: int
    ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, identity: _Optional[bytes] = ..., number: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., confirmed: _Optional[int] = ..., identity_position: _Optional[int] = ..., ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AnswerBatch(_message.Message):
    __slots__ = ("number", "payloads", "log_positions", "outcomes", "identity_position", "sequences")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EXECUTED: _ClassVar[AnswerBatch.Outcome]
        REJECTED: _ClassVar[AnswerBatch.Outcome]
        ANSWER_TOO_LONG: _ClassVar[AnswerBatch.Outcome]
        ID_CONFLICT: _ClassVar[AnswerBatch.Outcome]
        ANSWER_FORGOTTEN: _ClassVar[AnswerBatch.Outcome]
    EXECUTED: AnswerBatch.Outcome
    REJECTED: AnswerBatch.Outcome
    ANSWER_TOO_LONG: AnswerBatch.Outcome
    ID_CONFLICT: AnswerBatch.Outcome
    ANSWER_FORGOTTEN: AnswerBatch.Outcome
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    number: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    log_positions: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[AnswerBatch.Outcome]
    identity_position: int
    sequences: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., log_positions: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[_Union[AnswerBatch.Outcome, str]]] = ..., identity_position: _Optional[int] = ..., sequences: _Optional[_Iterable[int]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("payload", "consistency", "member_id", "min_position", "group")
    class Consistency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LINEARIZABLE: _ClassVar[QueryRequest.Consistency]
        STALE: _ClassVar[QueryRequest.Consistency]
    LINEARIZABLE: QueryRequest.Consistency
    STALE: QueryRequest.Consistency
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_POSITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    consistency: QueryRequest.Consistency
    member_id: int
    min_position: int
    group: str
    def __init__(self, payload: _Optional[bytes] = ..., consistency: _Optional[_Union[QueryRequest.Consistency, str]] = ..., member_id: _Optional[int] = ..., min_position: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("payload", "log_position", "member_id")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    log_position: int
    member_id: int
    def __init__(self, payload: _Optional[bytes] = ..., log_position: _Optional[int] = ..., member_id: _Optional[int] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("from_position", "live", "kinds", "session_ids", "until_position", "repeats", "from_sequence")
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_POSITION_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    from_position: int
    live: bool
    kinds: _containers.RepeatedScalarFieldContainer[str]
    session_ids: _containers.RepeatedScalarFieldContainer[int]
    until_position: int
    repeats: bool
    from_sequence: int
    def __init__(self, from_position: _Optional[int] = ..., live: _Optional[bool] = ..., kinds: _Optional[_Iterable[str]] = ..., session_ids: _Optional[_Iterable[int]] = ..., until_position: _Optional[int] = ..., repeats: _Optional[bool] = ..., from_sequence: _Optional[int] = ...) -> None: ...

class LogBatch(_message.Message):
    __slots__ = ("entries", "position")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    position: int
    def __init__(self, entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ..., position: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("position", "kind", "timestamp", "leadership_term_id", "session_id", "payload", "number", "identity_position", "is_repeat", "identity", "sequence", "arrival_ns")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIP_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    IS_REPEAT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_NS_FIELD_NUMBER: _ClassVar[int]
    position: int
    kind: str
    timestamp: int
    leadership_term_id: int
    session_id: int
    payload: bytes
    number: int
    identity_position: int
    is_repeat: bool
    identity: bytes
    sequence: int
    arrival_ns: int
    def __init__(self, position: _Optional[int] = ..., kind: _Optional[str] = ..., timestamp: _Optional[int] = ..., leadership_term_id: _Optional[int] = ..., session_id: _Optional[int] = ..., payload: _Optional[bytes] = ..., number: _Optional[int] = ..., identity_position: _Optional[int] = ..., is_repeat: _Optional[bool] = ..., identity: _Optional[bytes] = ..., sequence: _Optional[int] = ..., arrival_ns: _Optional[int] = ...) -> None: ...

class SubscribeTopicRequest(_message.Message):
    __slots__ = ("topic", "from_position", "from_sequence", "oldest")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    from_position: int
    from_sequence: int
    oldest: bool
    def __init__(self, topic: _Optional[str] = ..., from_position: _Optional[int] = ..., from_sequence: _Optional[int] = ..., oldest: _Optional[bool] = ...) -> None: ...

class TopicBatch(_message.Message):
    __slots__ = ("messages", "next_sequence")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[TopicMessage]
    next_sequence: int
    def __init__(self, messages: _Optional[_Iterable[_Union[TopicMessage, _Mapping]]] = ..., next_sequence: _Optional[int] = ...) -> None: ...

class TopicMessage(_message.Message):
    __slots__ = ("sequence", "position", "message_index", "timestamp", "payload")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    position: int
    message_index: int
    timestamp: int
    payload: bytes
    def __init__(self, sequence: _Optional[int] = ..., position: _Optional[int] = ..., message_index: _Optional[int] = ..., timestamp: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("member_id", "is_leader", "role", "log_position", "ingress_endpoint", "consensus_endpoint", "log_endpoint", "catchup_endpoint", "archive_endpoint")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    IS_LEADER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    INGRESS_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONSENSUS_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LOG_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CATCHUP_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    is_leader: bool
    role: str
    log_position: int
    ingress_endpoint: str
    consensus_endpoint: str
    log_endpoint: str
    catchup_endpoint: str
    archive_endpoint: str
    def __init__(self, member_id: _Optional[int] = ..., is_leader: _Optional[bool] = ..., role: _Optional[str] = ..., log_position: _Optional[int] = ..., ingress_endpoint: _Optional[str] = ..., consensus_endpoint: _Optional[str] = ..., log_endpoint: _Optional[str] = ..., catchup_endpoint: _Optional[str] = ..., archive_endpoint: _Optional[str] = ...) -> None: ...

class TakeSnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TakeSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class TransferLeadershipResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LookAtMembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LookAtMembersResponse(_message.Message):
    __slots__ = ("leader_member_id", "members")
    LEADER_MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    leader_member_id: int
    members: _containers.RepeatedCompositeFieldContainer[MemberState]
    def __init__(self, leader_member_id: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberState, _Mapping]]] = ...) -> None: ...

class MemberState(_message.Message):
    __slots__ = ("ingress_endpoint", "trouble", "member_id", "has_quorum", "role", "state", "election", "leadership_term_id", "commit_position", "service_position", "election_count", "snapshot_count", "session_count", "error_count", "skipped_count", "lost", "no_room", "damaged_count", "ordo_version")
    INGRESS_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    HAS_QUORUM_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ELECTION_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIP_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_POSITION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_POSITION_FIELD_NUMBER: _ClassVar[int]
    ELECTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ORDO_VERSION_FIELD_NUMBER: _ClassVar[int]
    ingress_endpoint: str
    trouble: str
    member_id: int
    has_quorum: bool
    role: str
    state: str
    election: str
    leadership_term_id: int
    commit_position: int
    service_position: int
    election_count: int
    snapshot_count: int
    session_count: int
    error_count: int
    skipped_count: int
    lost: str
    no_room: str
    damaged_count: int
    ordo_version: str
    def __init__(self, ingress_endpoint: _Optional[str] = ..., trouble: _Optional[str] = ..., member_id: _Optional[int] = ..., has_quorum: _Optional[bool] = ..., role: _Optional[str] = ..., state: _Optional[str] = ..., election: _Optional[str] = ..., leadership_term_id: _Optional[int] = ..., commit_position: _Optional[int] = ..., service_position: _Optional[int] = ..., election_count: _Optional[int] = ..., snapshot_count: _Optional[int] = ..., session_count: _Optional[int] = ..., error_count: _Optional[int] = ..., skipped_count: _Optional[int] = ..., lost: _Optional[str] = ..., no_room: _Optional[str] = ..., damaged_count: _Optional[int] = ..., ordo_version: _Optional[str] = ...) -> None: ...

class DescribeMemberRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class DescribeMemberResponse(_message.Message):
    __slots__ = ("log_start_position", "state_hash_position", "terms", "snapshots", "sessions", "errors")
    LOG_START_POSITION_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_POSITION_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    log_start_position: int
    state_hash_position: int
    terms: _containers.RepeatedCompositeFieldContainer[Term]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    errors: _containers.RepeatedCompositeFieldContainer[MemberError]
    def __init__(self, log_start_position: _Optional[int] = ..., state_hash_position: _Optional[int] = ..., terms: _Optional[_Iterable[_Union[Term, _Mapping]]] = ..., snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[MemberError, _Mapping]]] = ...) -> None: ...

class Term(_message.Message):
    __slots__ = ("leadership_term_id", "base_position")
    LEADERSHIP_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_POSITION_FIELD_NUMBER: _ClassVar[int]
    leadership_term_id: int
    base_position: int
    def __init__(self, leadership_term_id: _Optional[int] = ..., base_position: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("member_id", "log_position", "leadership_term_id", "timestamp")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIP_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    log_position: int
    leadership_term_id: int
    timestamp: int
    def __init__(self, member_id: _Optional[int] = ..., log_position: _Optional[int] = ..., leadership_term_id: _Optional[int] = ..., timestamp: _Optional[int] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("session_id", "opened_log_position", "principal", "address", "active_ms", "is_held")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_MS_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    opened_log_position: int
    principal: str
    address: str
    active_ms: int
    is_held: bool
    def __init__(self, session_id: _Optional[int] = ..., opened_log_position: _Optional[int] = ..., principal: _Optional[str] = ..., address: _Optional[str] = ..., active_ms: _Optional[int] = ..., is_held: _Optional[bool] = ...) -> None: ...

class MemberError(_message.Message):
    __slots__ = ("observation_count", "last_ms", "text")
    OBSERVATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_MS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    observation_count: int
    last_ms: int
    text: str
    def __init__(self, observation_count: _Optional[int] = ..., last_ms: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class AddLearnerRequest(_message.Message):
    __slots__ = ("member_id", "endpoints")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    endpoints: str
    def __init__(self, member_id: _Optional[int] = ..., endpoints: _Optional[str] = ...) -> None: ...

class AddLearnerResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class PromoteResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class DemoteRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class DemoteResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class RemoveResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class SkipRecordRequest(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class SkipRecordResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSkippedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSkippedResponse(_message.Message):
    __slots__ = ("records", "asked_for")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ASKED_FOR_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[SkippedRecord]
    asked_for: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, records: _Optional[_Iterable[_Union[SkippedRecord, _Mapping]]] = ..., asked_for: _Optional[_Iterable[int]] = ...) -> None: ...

class SkippedRecord(_message.Message):
    __slots__ = ("log_position", "skip_position", "text")
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    SKIP_POSITION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    skip_position: int
    text: str
    def __init__(self, log_position: _Optional[int] = ..., skip_position: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class UpgradeRequest(_message.Message):
    __slots__ = ("version", "service_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    version: str
    service_id: int
    def __init__(self, version: _Optional[str] = ..., service_id: _Optional[int] = ...) -> None: ...

class UpgradeResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class ListVersionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListVersionsResponse(_message.Message):
    __slots__ = ("in_force", "since_position", "protocol_level", "level_since_position", "members", "services")
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_POSITION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_LEVEL_FIELD_NUMBER: _ClassVar[int]
    LEVEL_SINCE_POSITION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    in_force: str
    since_position: int
    protocol_level: int
    level_since_position: int
    members: _containers.RepeatedCompositeFieldContainer[MemberVersions]
    services: _containers.RepeatedCompositeFieldContainer[VersionInForce]
    def __init__(self, in_force: _Optional[str] = ..., since_position: _Optional[int] = ..., protocol_level: _Optional[int] = ..., level_since_position: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberVersions, _Mapping]]] = ..., services: _Optional[_Iterable[_Union[VersionInForce, _Mapping]]] = ...) -> None: ...

class VersionInForce(_message.Message):
    __slots__ = ("version", "since_position")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_POSITION_FIELD_NUMBER: _ClassVar[int]
    version: str
    since_position: int
    def __init__(self, version: _Optional[str] = ..., since_position: _Optional[int] = ...) -> None: ...

class MemberVersions(_message.Message):
    __slots__ = ("member_id", "role", "versions", "lacks", "lack_position", "protocol_level", "services")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    LACK_POSITION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_LEVEL_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    role: str
    versions: _containers.RepeatedScalarFieldContainer[str]
    lacks: str
    lack_position: int
    protocol_level: int
    services: _containers.RepeatedCompositeFieldContainer[ServiceVersions]
    def __init__(self, member_id: _Optional[int] = ..., role: _Optional[str] = ..., versions: _Optional[_Iterable[str]] = ..., lacks: _Optional[str] = ..., lack_position: _Optional[int] = ..., protocol_level: _Optional[int] = ..., services: _Optional[_Iterable[_Union[ServiceVersions, _Mapping]]] = ...) -> None: ...

class ServiceVersions(_message.Message):
    __slots__ = ("versions", "lacks", "lack_position")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    LACK_POSITION_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[str]
    lacks: str
    lack_position: int
    def __init__(self, versions: _Optional[_Iterable[str]] = ..., lacks: _Optional[str] = ..., lack_position: _Optional[int] = ...) -> None: ...

class ListEvidenceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEvidenceResponse(_message.Message):
    __slots__ = ("evidence",)
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    def __init__(self, evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("member_id", "log_position", "found_position", "since_position", "recording_ids", "length_bytes", "own_digest", "their_digest")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    FOUND_POSITION_FIELD_NUMBER: _ClassVar[int]
    SINCE_POSITION_FIELD_NUMBER: _ClassVar[int]
    RECORDING_IDS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    OWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    THEIR_DIGEST_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    log_position: int
    found_position: int
    since_position: int
    recording_ids: _containers.RepeatedScalarFieldContainer[int]
    length_bytes: int
    own_digest: bytes
    their_digest: bytes
    def __init__(self, member_id: _Optional[int] = ..., log_position: _Optional[int] = ..., found_position: _Optional[int] = ..., since_position: _Optional[int] = ..., recording_ids: _Optional[_Iterable[int]] = ..., length_bytes: _Optional[int] = ..., own_digest: _Optional[bytes] = ..., their_digest: _Optional[bytes] = ...) -> None: ...

class ShutDownRequest(_message.Message):
    __slots__ = ("without_snapshot",)
    WITHOUT_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    without_snapshot: bool
    def __init__(self, without_snapshot: _Optional[bool] = ...) -> None: ...

class ShutDownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("begin", "commit_position", "acknowledgements")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    COMMIT_POSITION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    begin: BeginConsuming
    commit_position: int
    acknowledgements: Acknowledgements
    def __init__(self, begin: _Optional[_Union[BeginConsuming, _Mapping]] = ..., commit_position: _Optional[int] = ..., acknowledgements: _Optional[_Union[Acknowledgements, _Mapping]] = ...) -> None: ...

class BeginConsuming(_message.Message):
    __slots__ = ("name", "is_shared", "from_position", "live", "from_timestamp", "kinds", "session_ids", "repeats", "ack_timeout_ms", "tries_max", "in_flight_max")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_SHARED_FIELD_NUMBER: _ClassVar[int]
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FROM_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    ACK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_shared: bool
    from_position: int
    live: bool
    from_timestamp: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    session_ids: _containers.RepeatedScalarFieldContainer[int]
    repeats: bool
    ack_timeout_ms: int
    tries_max: int
    in_flight_max: int
    def __init__(self, name: _Optional[str] = ..., is_shared: _Optional[bool] = ..., from_position: _Optional[int] = ..., live: _Optional[bool] = ..., from_timestamp: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ..., session_ids: _Optional[_Iterable[int]] = ..., repeats: _Optional[bool] = ..., ack_timeout_ms: _Optional[int] = ..., tries_max: _Optional[int] = ..., in_flight_max: _Optional[int] = ...) -> None: ...

class Acknowledgements(_message.Message):
    __slots__ = ("acknowledgements",)
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    acknowledgements: _containers.RepeatedCompositeFieldContainer[Acknowledgement]
    def __init__(self, acknowledgements: _Optional[_Iterable[_Union[Acknowledgement, _Mapping]]] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("position", "try_count", "is_given_back", "delay_ms")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_GIVEN_BACK_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    position: int
    try_count: int
    is_given_back: bool
    delay_ms: int
    def __init__(self, position: _Optional[int] = ..., try_count: _Optional[int] = ..., is_given_back: _Optional[bool] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("entries", "committed_position", "is_active", "epoch", "is_paused", "unsent_count", "late_count")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_POSITION_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    UNSENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    LATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[ConsumedEntry]
    committed_position: int
    is_active: bool
    epoch: int
    is_paused: bool
    unsent_count: int
    late_count: int
    def __init__(self, entries: _Optional[_Iterable[_Union[ConsumedEntry, _Mapping]]] = ..., committed_position: _Optional[int] = ..., is_active: _Optional[bool] = ..., epoch: _Optional[int] = ..., is_paused: _Optional[bool] = ..., unsent_count: _Optional[int] = ..., late_count: _Optional[int] = ...) -> None: ...

class ConsumedEntry(_message.Message):
    __slots__ = ("entry", "try_count")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    TRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    entry: LogEntry
    try_count: int
    def __init__(self, entry: _Optional[_Union[LogEntry, _Mapping]] = ..., try_count: _Optional[int] = ...) -> None: ...

class ListConsumersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListConsumersResponse(_message.Message):
    __slots__ = ("consumers",)
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[Consumer]
    def __init__(self, consumers: _Optional[_Iterable[_Union[Consumer, _Mapping]]] = ...) -> None: ...

class Consumer(_message.Message):
    __slots__ = ("name", "mode", "position", "log_position", "lag_bytes", "is_paused", "member_count", "in_flight_count", "waiting_count", "dead_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: str
    position: int
    log_position: int
    lag_bytes: int
    is_paused: bool
    member_count: int
    in_flight_count: int
    waiting_count: int
    dead_count: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[str] = ..., position: _Optional[int] = ..., log_position: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., is_paused: _Optional[bool] = ..., member_count: _Optional[int] = ..., in_flight_count: _Optional[int] = ..., waiting_count: _Optional[int] = ..., dead_count: _Optional[int] = ...) -> None: ...

class DescribeConsumerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeConsumerResponse(_message.Message):
    __slots__ = ("consumer", "sessions", "dead_letters")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    consumer: Consumer
    sessions: _containers.RepeatedCompositeFieldContainer[ConsumerSession]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    def __init__(self, consumer: _Optional[_Union[Consumer, _Mapping]] = ..., sessions: _Optional[_Iterable[_Union[ConsumerSession, _Mapping]]] = ..., dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ...) -> None: ...

class ConsumerSession(_message.Message):
    __slots__ = ("session_id", "is_active")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    is_active: bool
    def __init__(self, session_id: _Optional[int] = ..., is_active: _Optional[bool] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("position", "try_count")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    position: int
    try_count: int
    def __init__(self, position: _Optional[int] = ..., try_count: _Optional[int] = ...) -> None: ...

class PauseConsumerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PauseConsumerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeConsumerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeConsumerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SeekConsumerRequest(_message.Message):
    __slots__ = ("name", "position")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    position: int
    def __init__(self, name: _Optional[str] = ..., position: _Optional[int] = ...) -> None: ...

class SeekConsumerResponse(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class RemoveConsumerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveConsumerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListInstancesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListInstancesResponse(_message.Message):
    __slots__ = ("instances",)
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[Instance]
    def __init__(self, instances: _Optional[_Iterable[_Union[Instance, _Mapping]]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("group", "name", "session_id", "is_active", "is_canary", "version", "newest_version", "position", "log_position", "lag_bytes", "outputs_made", "outputs_executed", "reported_ms", "outputs_refused", "is_refused_exact")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    IS_CANARY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_MADE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_EXECUTED_FIELD_NUMBER: _ClassVar[int]
    REPORTED_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    IS_REFUSED_EXACT_FIELD_NUMBER: _ClassVar[int]
    group: str
    name: str
    session_id: int
    is_active: bool
    is_canary: bool
    version: str
    newest_version: str
    position: int
    log_position: int
    lag_bytes: int
    outputs_made: int
    outputs_executed: int
    reported_ms: int
    outputs_refused: int
    is_refused_exact: bool
    def __init__(self, group: _Optional[str] = ..., name: _Optional[str] = ..., session_id: _Optional[int] = ..., is_active: _Optional[bool] = ..., is_canary: _Optional[bool] = ..., version: _Optional[str] = ..., newest_version: _Optional[str] = ..., position: _Optional[int] = ..., log_position: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., outputs_made: _Optional[int] = ..., outputs_executed: _Optional[int] = ..., reported_ms: _Optional[int] = ..., outputs_refused: _Optional[int] = ..., is_refused_exact: _Optional[bool] = ...) -> None: ...

class ListDifferencesRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class ListDifferencesResponse(_message.Message):
    __slots__ = ("differences",)
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    differences: _containers.RepeatedCompositeFieldContainer[Difference]
    def __init__(self, differences: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("instance", "version", "position", "index", "difference", "written", "canary", "written_length", "canary_length", "log_position")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CANARY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    instance: str
    version: str
    position: int
    index: int
    difference: str
    written: str
    canary: str
    written_length: int
    canary_length: int
    log_position: int
    def __init__(self, instance: _Optional[str] = ..., version: _Optional[str] = ..., position: _Optional[int] = ..., index: _Optional[int] = ..., difference: _Optional[str] = ..., written: _Optional[str] = ..., canary: _Optional[str] = ..., written_length: _Optional[int] = ..., canary_length: _Optional[int] = ..., log_position: _Optional[int] = ...) -> None: ...

class UpgradeGroupRequest(_message.Message):
    __slots__ = ("group", "version")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    group: str
    version: str
    def __init__(self, group: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class UpgradeGroupResponse(_message.Message):
    __slots__ = ("log_position",)
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    log_position: int
    def __init__(self, log_position: _Optional[int] = ...) -> None: ...

class ListRecordingsRequest(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    def __init__(self, member_id: _Optional[int] = ...) -> None: ...

class ListRecordingsResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberRecordings]
    def __init__(self, members: _Optional[_Iterable[_Union[MemberRecordings, _Mapping]]] = ...) -> None: ...

class MemberRecordings(_message.Message):
    __slots__ = ("member_id", "archive_endpoint", "trouble", "recordings")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    RECORDINGS_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    archive_endpoint: str
    trouble: str
    recordings: _containers.RepeatedCompositeFieldContainer[Recording]
    def __init__(self, member_id: _Optional[int] = ..., archive_endpoint: _Optional[str] = ..., trouble: _Optional[str] = ..., recordings: _Optional[_Iterable[_Union[Recording, _Mapping]]] = ...) -> None: ...

class Recording(_message.Message):
    __slots__ = ("recording_id", "start_position", "stop_position", "start_timestamp", "stop_timestamp", "initial_term_id", "segment_length", "term_length", "mtu", "session_id", "stream_id", "stripped_channel", "original_channel", "source_identity", "state")
    RECORDING_ID_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    STOP_POSITION_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    STOP_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    INITIAL_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TERM_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    STRIPPED_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    recording_id: int
    start_position: int
    stop_position: int
    start_timestamp: int
    stop_timestamp: int
    initial_term_id: int
    segment_length: int
    term_length: int
    mtu: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str
    state: str
    def __init__(self, recording_id: _Optional[int] = ..., start_position: _Optional[int] = ..., stop_position: _Optional[int] = ..., start_timestamp: _Optional[int] = ..., stop_timestamp: _Optional[int] = ..., initial_term_id: _Optional[int] = ..., segment_length: _Optional[int] = ..., term_length: _Optional[int] = ..., mtu: _Optional[int] = ..., session_id: _Optional[int] = ..., stream_id: _Optional[int] = ..., stripped_channel: _Optional[str] = ..., original_channel: _Optional[str] = ..., source_identity: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class VerifyRecordingsRequest(_message.Message):
    __slots__ = ("member_id", "recording_id")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDING_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    recording_id: int
    def __init__(self, member_id: _Optional[int] = ..., recording_id: _Optional[int] = ...) -> None: ...

class VerifiedRecording(_message.Message):
    __slots__ = ("recording_id", "start_position", "stop_position", "is_active", "is_good", "damage")
    RECORDING_ID_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    STOP_POSITION_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    IS_GOOD_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    recording_id: int
    start_position: int
    stop_position: int
    is_active: bool
    is_good: bool
    damage: str
    def __init__(self, recording_id: _Optional[int] = ..., start_position: _Optional[int] = ..., stop_position: _Optional[int] = ..., is_active: _Optional[bool] = ..., is_good: _Optional[bool] = ..., damage: _Optional[str] = ...) -> None: ...

class ReadRecordingRequest(_message.Message):
    __slots__ = ("member_id", "recording_id", "from_position", "message_count_max")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDING_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_MAX_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    recording_id: int
    from_position: int
    message_count_max: int
    def __init__(self, member_id: _Optional[int] = ..., recording_id: _Optional[int] = ..., from_position: _Optional[int] = ..., message_count_max: _Optional[int] = ...) -> None: ...

class RecordingBatch(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[RecordedMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[RecordedMessage, _Mapping]]] = ...) -> None: ...

class RecordedMessage(_message.Message):
    __slots__ = ("start_position", "position", "term_id", "payload")
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TERM_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    start_position: int
    position: int
    term_id: int
    payload: bytes
    def __init__(self, start_position: _Optional[int] = ..., position: _Optional[int] = ..., term_id: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

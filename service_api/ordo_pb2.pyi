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
    __slots__ = ("identity", "number", "payload", "confirmed", "identity_position")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    number: int
    payload: bytes
    confirmed: int
    identity_position: int
    def __init__(self, identity: _Optional[bytes] = ..., number: _Optional[int] = ..., payload: _Optional[bytes] = ..., confirmed: _Optional[int] = ..., identity_position: _Optional[int] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("payload", "log_position", "identity_position")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    log_position: int
    identity_position: int
    def __init__(self, payload: _Optional[bytes] = ..., log_position: _Optional[int] = ..., identity_position: _Optional[int] = ...) -> None: ...

class SubmitBatch(_message.Message):
    __slots__ = ("identity", "number", "payloads", "confirmed", "identity_position")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    number: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    confirmed: int
    identity_position: int
    def __init__(self, identity: _Optional[bytes] = ..., number: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., confirmed: _Optional[int] = ..., identity_position: _Optional[int] = ...) -> None: ...

class AnswerBatch(_message.Message):
    __slots__ = ("number", "payloads", "log_positions", "outcomes", "identity_position")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EXECUTED: _ClassVar[AnswerBatch.Outcome]
        REJECTED: _ClassVar[AnswerBatch.Outcome]
        ANSWER_TOO_LONG: _ClassVar[AnswerBatch.Outcome]
    EXECUTED: AnswerBatch.Outcome
    REJECTED: AnswerBatch.Outcome
    ANSWER_TOO_LONG: AnswerBatch.Outcome
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    number: int
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    log_positions: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[AnswerBatch.Outcome]
    identity_position: int
    def __init__(self, number: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., log_positions: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[_Union[AnswerBatch.Outcome, str]]] = ..., identity_position: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("from_position", "live", "kinds", "session_ids", "until_position")
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_POSITION_FIELD_NUMBER: _ClassVar[int]
    from_position: int
    live: bool
    kinds: _containers.RepeatedScalarFieldContainer[str]
    session_ids: _containers.RepeatedScalarFieldContainer[int]
    until_position: int
    def __init__(self, from_position: _Optional[int] = ..., live: _Optional[bool] = ..., kinds: _Optional[_Iterable[str]] = ..., session_ids: _Optional[_Iterable[int]] = ..., until_position: _Optional[int] = ...) -> None: ...

class LogBatch(_message.Message):
    __slots__ = ("entries", "position")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    position: int
    def __init__(self, entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ..., position: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("position", "kind", "timestamp", "leadership_term_id", "session_id", "payload", "number", "identity_position")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIP_TERM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    kind: str
    timestamp: int
    leadership_term_id: int
    session_id: int
    payload: bytes
    number: int
    identity_position: int
    def __init__(self, position: _Optional[int] = ..., kind: _Optional[str] = ..., timestamp: _Optional[int] = ..., leadership_term_id: _Optional[int] = ..., session_id: _Optional[int] = ..., payload: _Optional[bytes] = ..., number: _Optional[int] = ..., identity_position: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("member_id", "is_leader", "role", "log_position", "ingress_endpoint")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    IS_LEADER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    INGRESS_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    member_id: int
    is_leader: bool
    role: str
    log_position: int
    ingress_endpoint: str
    def __init__(self, member_id: _Optional[int] = ..., is_leader: _Optional[bool] = ..., role: _Optional[str] = ..., log_position: _Optional[int] = ..., ingress_endpoint: _Optional[str] = ...) -> None: ...

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

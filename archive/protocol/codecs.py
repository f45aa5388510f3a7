"""Messages of the archive control protocol, schema 101 (archive.md A2, sbe-encoding.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordo.runtime.sbe import ASCII, BYTES, Column, Message, by_template_id

if TYPE_CHECKING:
    from ordo.archive.protocol import records

SCHEMA_ID = 101
SCHEMA_VERSION = 14


def _message(name: str, template_id: int, fields: Sequence[Column] = (), data: Sequence[Column] = ()) -> Message:
    return Message(name, template_id, SCHEMA_ID, SCHEMA_VERSION, fields=fields, data=data)


def _request(name: str, template_id: int, fields: Sequence[Column] = (), data: Sequence[Column] = ()) -> Message:
    return _message(name, template_id, [("control_session_id", "i64"), ("correlation_id", "i64"), *fields], data)


_RECORDING: Column = ("recording_id", "i64")
_CHANNEL: Column = ("channel", ASCII)
_STREAM: Column = ("stream_id", "i32")
_SOURCE: Column = ("source_location", "i32")
_AUTO_STOP: Column = ("auto_stop", "bool")
_REPLAY_TAIL: tuple[Column, ...] = (
    ("replay_stream_id", "i32"),
    ("file_io_length_max", "i32", 7),
    ("replay_token", "i64", 10),
)

# --- from the client --------------------------------------------------------------------------------------------------

AUTH_CONNECT_REQUEST: Message[records.AuthConnectRequest] = _message(
    "AuthConnectRequest",
    58,
    [("correlation_id", "i64"), ("response_stream_id", "i32"), ("version", "version_t")],
    [("response_channel", ASCII), ("encoded_credentials", BYTES), ("client_info", ASCII, 12)],
)
CHALLENGE_RESPONSE: Message[records.ChallengeResponse] = _request(
    "ChallengeResponse", 60, (), [("encoded_credentials", BYTES)]
)
KEEP_ALIVE_REQUEST: Message[records.KeepAliveRequest] = _request("KeepAliveRequest", 61)
CLOSE_SESSION_REQUEST: Message[records.CloseSessionRequest] = _message(
    "CloseSessionRequest", 3, [("control_session_id", "i64")]
)
ARCHIVE_ID_REQUEST: Message[records.ArchiveIdRequest] = _request("ArchiveIdRequest", 68)

START_RECORDING_REQUEST: Message[records.StartRecordingRequest] = _request(
    "StartRecordingRequest", 4, [_STREAM, _SOURCE], [_CHANNEL]
)
START_RECORDING_REQUEST_2: Message[records.StartRecordingRequest2] = _request(
    "StartRecordingRequest2", 63, [_STREAM, _SOURCE, _AUTO_STOP], [_CHANNEL]
)
STOP_RECORDING_REQUEST: Message[records.StopRecordingRequest] = _request(
    "StopRecordingRequest", 5, [_STREAM], [_CHANNEL]
)
STOP_RECORDING_SUBSCRIPTION_REQUEST: Message[records.StopRecordingSubscriptionRequest] = _request(
    "StopRecordingSubscriptionRequest", 14, [("subscription_id", "i64")]
)
STOP_RECORDING_BY_IDENTITY_REQUEST: Message[records.StopRecordingByIdentityRequest] = _request(
    "StopRecordingByIdentityRequest", 65, [_RECORDING]
)
EXTEND_RECORDING_REQUEST: Message[records.ExtendRecordingRequest] = _request(
    "ExtendRecordingRequest", 11, [_RECORDING, _STREAM, _SOURCE], [_CHANNEL]
)
EXTEND_RECORDING_REQUEST_2: Message[records.ExtendRecordingRequest2] = _request(
    "ExtendRecordingRequest2", 64, [_RECORDING, _STREAM, _SOURCE, _AUTO_STOP], [_CHANNEL]
)

REPLAY_REQUEST: Message[records.ReplayRequest] = _request(
    "ReplayRequest", 6, [_RECORDING, ("position", "i64"), ("length", "i64"), *_REPLAY_TAIL], [("replay_channel", ASCII)]
)
BOUNDED_REPLAY_REQUEST: Message[records.BoundedReplayRequest] = _request(
    "BoundedReplayRequest",
    18,
    [_RECORDING, ("position", "i64"), ("length", "i64"), ("limit_counter_id", "i32"), *_REPLAY_TAIL],
    [("replay_channel", ASCII)],
)
REPLAY_TOKEN_REQUEST: Message[records.ReplayTokenRequest] = _request("ReplayTokenRequest", 105, [_RECORDING])
STOP_REPLAY_REQUEST: Message[records.StopReplayRequest] = _request(
    "StopReplayRequest", 7, [("replay_session_id", "i64")]
)
STOP_ALL_REPLAYS_REQUEST: Message[records.StopAllReplaysRequest] = _request("StopAllReplaysRequest", 19, [_RECORDING])

LIST_RECORDINGS_REQUEST: Message[records.ListRecordingsRequest] = _request(
    "ListRecordingsRequest", 8, [("from_recording_id", "i64"), ("record_count", "i32")]
)
LIST_RECORDINGS_FOR_URI_REQUEST: Message[records.ListRecordingsForUriRequest] = _request(
    "ListRecordingsForUriRequest", 9, [("from_recording_id", "i64"), ("record_count", "i32"), _STREAM], [_CHANNEL]
)
LIST_RECORDING_REQUEST: Message[records.ListRecordingRequest] = _request("ListRecordingRequest", 10, [_RECORDING])
FIND_LAST_MATCHING_RECORDING_REQUEST: Message[records.FindLastMatchingRecordingRequest] = _request(
    "FindLastMatchingRecordingRequest", 16, [("min_recording_id", "i64"), ("session_id", "i32"), _STREAM], [_CHANNEL]
)
LIST_RECORDING_SUBSCRIPTIONS_REQUEST: Message[records.ListRecordingSubscriptionsRequest] = _request(
    "ListRecordingSubscriptionsRequest",
    17,
    [("pseudo_index", "i32"), ("subscription_count", "i32"), ("apply_stream_id", "bool"), _STREAM],
    [_CHANNEL],
)
RECORDING_POSITION_REQUEST: Message[records.RecordingPositionRequest] = _request(
    "RecordingPositionRequest", 12, [_RECORDING]
)
START_POSITION_REQUEST: Message[records.StartPositionRequest] = _request("StartPositionRequest", 52, [_RECORDING])
STOP_POSITION_REQUEST: Message[records.StopPositionRequest] = _request("StopPositionRequest", 15, [_RECORDING])
MAX_RECORDED_POSITION_REQUEST: Message[records.MaxRecordedPositionRequest] = _request(
    "MaxRecordedPositionRequest", 67, [_RECORDING]
)

TRUNCATE_RECORDING_REQUEST: Message[records.TruncateRecordingRequest] = _request(
    "TruncateRecordingRequest", 13, [_RECORDING, ("position", "i64")]
)
PURGE_RECORDING_REQUEST: Message[records.PurgeRecordingRequest] = _request("PurgeRecordingRequest", 104, [_RECORDING])
DETACH_SEGMENTS_REQUEST: Message[records.DetachSegmentsRequest] = _request(
    "DetachSegmentsRequest", 53, [_RECORDING, ("new_start_position", "i64")]
)
DELETE_DETACHED_SEGMENTS_REQUEST: Message[records.DeleteDetachedSegmentsRequest] = _request(
    "DeleteDetachedSegmentsRequest", 54, [_RECORDING]
)
PURGE_SEGMENTS_REQUEST: Message[records.PurgeSegmentsRequest] = _request(
    "PurgeSegmentsRequest", 55, [_RECORDING, ("new_start_position", "i64")]
)
ATTACH_SEGMENTS_REQUEST: Message[records.AttachSegmentsRequest] = _request("AttachSegmentsRequest", 56, [_RECORDING])
MIGRATE_SEGMENTS_REQUEST: Message[records.MigrateSegmentsRequest] = _request(
    "MigrateSegmentsRequest", 57, [("source_recording_id", "i64"), ("target_recording_id", "i64")]
)
UPDATE_CHANNEL_REQUEST: Message[records.UpdateChannelRequest] = _request(
    "UpdateChannelRequest", 107, [_RECORDING], [_CHANNEL]
)

_REPLICATED: tuple[Column, ...] = (("source_recording_id", "i64"), ("target_recording_id", "i64"))
_SOURCE_CHANNELS: tuple[Column, ...] = (("source_control_channel", ASCII), ("live_destination", ASCII))
REPLICATE_REQUEST: Message[records.ReplicateRequest] = _request(
    "ReplicateRequest", 50, [*_REPLICATED, ("source_control_stream_id", "i32")], _SOURCE_CHANNELS
)
TAGGED_REPLICATE_REQUEST: Message[records.TaggedReplicateRequest] = _request(
    "TaggedReplicateRequest",
    62,
    [*_REPLICATED, ("channel_tag_id", "i64"), ("subscription_tag_id", "i64"), ("source_control_stream_id", "i32")],
    _SOURCE_CHANNELS,
)
REPLICATE_REQUEST_2: Message[records.ReplicateRequest2] = _request(
    "ReplicateRequest2",
    66,
    [
        *_REPLICATED,
        ("stop_position", "i64"),
        ("channel_tag_id", "i64"),
        ("subscription_tag_id", "i64"),
        ("source_control_stream_id", "i32"),
        ("file_io_length_max", "i32", 7),
        ("replication_session_id", "i32", 8),
    ],
    [
        *_SOURCE_CHANNELS,
        ("replication_channel", ASCII),
        ("encoded_credentials", BYTES, 8),
        ("source_response_channel", ASCII, 10),
    ],
)
STOP_REPLICATION_REQUEST: Message[records.StopReplicationRequest] = _request(
    "StopReplicationRequest", 51, [("replication_id", "i64")]
)

# --- to the client ----------------------------------------------------------------------------------------------------

CONTROL_RESPONSE: Message[records.ControlResponse] = _request(
    "ControlResponse",
    1,
    [("relevant_id", "i64"), ("code", "i32"), ("version", "version_t", 4)],
    [("error_message", ASCII)],
)
CHALLENGE: Message[records.Challenge] = _request(
    "Challenge", 59, [("version", "version_t")], [("encoded_challenge", BYTES)]
)
RECORDING_DESCRIPTOR: Message[records.RecordingDescriptor] = _request(
    "RecordingDescriptor",
    22,
    [
        _RECORDING,
        ("start_timestamp", "i64"),
        ("stop_timestamp", "i64"),
        ("start_position", "i64"),
        ("stop_position", "i64"),
        ("initial_term_id", "i32"),
        ("segment_length", "i32"),
        ("term_length", "i32"),
        ("mtu", "i32"),
        ("session_id", "i32"),
        _STREAM,
    ],
    [("stripped_channel", ASCII), ("original_channel", ASCII), ("source_identity", ASCII)],
)
RECORDING_SUBSCRIPTION_DESCRIPTOR: Message[records.RecordingSubscriptionDescriptor] = _request(
    "RecordingSubscriptionDescriptor", 23, [("subscription_id", "i64"), _STREAM], [("stripped_channel", ASCII)]
)
RECORDING_SIGNAL_EVENT: Message[records.RecordingSignalEvent] = _request(
    "RecordingSignalEvent", 24, [_RECORDING, ("subscription_id", "i64"), ("position", "i64"), ("signal", "i32")]
)
RECORDING_STARTED: Message[records.RecordingStarted] = _message(
    "RecordingStarted",
    101,
    [_RECORDING, ("start_position", "i64"), ("session_id", "i32"), _STREAM],
    [_CHANNEL, ("source_identity", ASCII)],
)
RECORDING_PROGRESS: Message[records.RecordingProgress] = _message(
    "RecordingProgress", 102, [_RECORDING, ("start_position", "i64"), ("position", "i64")]
)
RECORDING_STOPPED: Message[records.RecordingStopped] = _message(
    "RecordingStopped", 103, [_RECORDING, ("start_position", "i64"), ("stop_position", "i64")]
)
PING: Message[records.Ping] = _message("Ping", 106, [("control_session_id", "i64")])

MESSAGES = by_template_id(globals().values())
SCHEMAS = {SCHEMA_ID: MESSAGES}

"""What messages decode to, by the tables of archive/protocol/codecs.py.

Written by `make fix`; do not edit.
"""

from __future__ import annotations

from typing import NamedTuple


class AuthConnectRequest(NamedTuple):
    """The fields of a decoded AuthConnectRequest."""

    correlation_id: int
    response_stream_id: int
    version: int
    response_channel: str
    encoded_credentials: bytes
    client_info: str


class ChallengeResponse(NamedTuple):
    """The fields of a decoded ChallengeResponse."""

    control_session_id: int
    correlation_id: int
    encoded_credentials: bytes


class KeepAliveRequest(NamedTuple):
    """The fields of a decoded KeepAliveRequest."""

    control_session_id: int
    correlation_id: int


class CloseSessionRequest(NamedTuple):
    """The fields of a decoded CloseSessionRequest."""

    control_session_id: int


class ArchiveIdRequest(NamedTuple):
    """The fields of a decoded ArchiveIdRequest."""

    control_session_id: int
    correlation_id: int


class StartRecordingRequest(NamedTuple):
    """The fields of a decoded StartRecordingRequest."""

    control_session_id: int
    correlation_id: int
    stream_id: int
    source_location: int
    channel: str


class StartRecordingRequest2(NamedTuple):
    """The fields of a decoded StartRecordingRequest2."""

    control_session_id: int
    correlation_id: int
    stream_id: int
    source_location: int
    auto_stop: int
    channel: str


class StopRecordingRequest(NamedTuple):
    """The fields of a decoded StopRecordingRequest."""

    control_session_id: int
    correlation_id: int
    stream_id: int
    channel: str


class StopRecordingSubscriptionRequest(NamedTuple):
    """The fields of a decoded StopRecordingSubscriptionRequest."""

    control_session_id: int
    correlation_id: int
    subscription_id: int


class StopRecordingByIdentityRequest(NamedTuple):
    """The fields of a decoded StopRecordingByIdentityRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class ExtendRecordingRequest(NamedTuple):
    """The fields of a decoded ExtendRecordingRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    stream_id: int
    source_location: int
    channel: str


class ExtendRecordingRequest2(NamedTuple):
    """The fields of a decoded ExtendRecordingRequest2."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    stream_id: int
    source_location: int
    auto_stop: int
    channel: str


class ReplayRequest(NamedTuple):
    """The fields of a decoded ReplayRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    position: int
    length: int
    replay_stream_id: int
    file_io_length_max: int
    replay_token: int
    replay_channel: str


class BoundedReplayRequest(NamedTuple):
    """The fields of a decoded BoundedReplayRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    position: int
    length: int
    limit_counter_id: int
    replay_stream_id: int
    file_io_length_max: int
    replay_token: int
    replay_channel: str


class ReplayTokenRequest(NamedTuple):
    """The fields of a decoded ReplayTokenRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class StopReplayRequest(NamedTuple):
    """The fields of a decoded StopReplayRequest."""

    control_session_id: int
    correlation_id: int
    replay_session_id: int


class StopAllReplaysRequest(NamedTuple):
    """The fields of a decoded StopAllReplaysRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class ListRecordingsRequest(NamedTuple):
    """The fields of a decoded ListRecordingsRequest."""

    control_session_id: int
    correlation_id: int
    from_recording_id: int
    record_count: int


class ListRecordingsForUriRequest(NamedTuple):
    """The fields of a decoded ListRecordingsForUriRequest."""

    control_session_id: int
    correlation_id: int
    from_recording_id: int
    record_count: int
    stream_id: int
    channel: str


class ListRecordingRequest(NamedTuple):
    """The fields of a decoded ListRecordingRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class FindLastMatchingRecordingRequest(NamedTuple):
    """The fields of a decoded FindLastMatchingRecordingRequest."""

    control_session_id: int
    correlation_id: int
    min_recording_id: int
    session_id: int
    stream_id: int
    channel: str


class ListRecordingSubscriptionsRequest(NamedTuple):
    """The fields of a decoded ListRecordingSubscriptionsRequest."""

    control_session_id: int
    correlation_id: int
    pseudo_index: int
    subscription_count: int
    apply_stream_id: int
    stream_id: int
    channel: str


class RecordingPositionRequest(NamedTuple):
    """The fields of a decoded RecordingPositionRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class StartPositionRequest(NamedTuple):
    """The fields of a decoded StartPositionRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class StopPositionRequest(NamedTuple):
    """The fields of a decoded StopPositionRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class MaxRecordedPositionRequest(NamedTuple):
    """The fields of a decoded MaxRecordedPositionRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class TruncateRecordingRequest(NamedTuple):
    """The fields of a decoded TruncateRecordingRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    position: int


class PurgeRecordingRequest(NamedTuple):
    """The fields of a decoded PurgeRecordingRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class DetachSegmentsRequest(NamedTuple):
    """The fields of a decoded DetachSegmentsRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    new_start_position: int


class DeleteDetachedSegmentsRequest(NamedTuple):
    """The fields of a decoded DeleteDetachedSegmentsRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class PurgeSegmentsRequest(NamedTuple):
    """The fields of a decoded PurgeSegmentsRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    new_start_position: int


class AttachSegmentsRequest(NamedTuple):
    """The fields of a decoded AttachSegmentsRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int


class MigrateSegmentsRequest(NamedTuple):
    """The fields of a decoded MigrateSegmentsRequest."""

    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int


class UpdateChannelRequest(NamedTuple):
    """The fields of a decoded UpdateChannelRequest."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    channel: str


class ReplicateRequest(NamedTuple):
    """The fields of a decoded ReplicateRequest."""

    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int
    source_control_stream_id: int
    source_control_channel: str
    live_destination: str


class TaggedReplicateRequest(NamedTuple):
    """The fields of a decoded TaggedReplicateRequest."""

    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int
    channel_tag_id: int
    subscription_tag_id: int
    source_control_stream_id: int
    source_control_channel: str
    live_destination: str


class ReplicateRequest2(NamedTuple):
    """The fields of a decoded ReplicateRequest2."""

    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int
    stop_position: int
    channel_tag_id: int
    subscription_tag_id: int
    source_control_stream_id: int
    file_io_length_max: int
    replication_session_id: int
    source_control_channel: str
    live_destination: str
    replication_channel: str
    encoded_credentials: bytes
    source_response_channel: str


class StopReplicationRequest(NamedTuple):
    """The fields of a decoded StopReplicationRequest."""

    control_session_id: int
    correlation_id: int
    replication_id: int


class ControlResponse(NamedTuple):
    """The fields of a decoded ControlResponse."""

    control_session_id: int
    correlation_id: int
    relevant_id: int
    code: int
    version: int
    error_message: str


class Challenge(NamedTuple):
    """The fields of a decoded Challenge."""

    control_session_id: int
    correlation_id: int
    version: int
    encoded_challenge: bytes


class RecordingDescriptor(NamedTuple):
    """The fields of a decoded RecordingDescriptor."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    start_timestamp: int
    stop_timestamp: int
    start_position: int
    stop_position: int
    initial_term_id: int
    segment_length: int
    term_length: int
    mtu: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str


class RecordingSubscriptionDescriptor(NamedTuple):
    """The fields of a decoded RecordingSubscriptionDescriptor."""

    control_session_id: int
    correlation_id: int
    subscription_id: int
    stream_id: int
    stripped_channel: str


class RecordingSignalEvent(NamedTuple):
    """The fields of a decoded RecordingSignalEvent."""

    control_session_id: int
    correlation_id: int
    recording_id: int
    subscription_id: int
    position: int
    signal: int


class RecordingStarted(NamedTuple):
    """The fields of a decoded RecordingStarted."""

    recording_id: int
    start_position: int
    session_id: int
    stream_id: int
    channel: str
    source_identity: str


class RecordingProgress(NamedTuple):
    """The fields of a decoded RecordingProgress."""

    recording_id: int
    start_position: int
    position: int


class RecordingStopped(NamedTuple):
    """The fields of a decoded RecordingStopped."""

    recording_id: int
    start_position: int
    stop_position: int


class Ping(NamedTuple):
    """The fields of a decoded Ping."""

    control_session_id: int

"""What messages decode to, by the tables of archive/protocol/codecs.py.

Written by `make fix`; do not edit.
"""

from typing import NamedTuple

class AuthConnectRequest(NamedTuple):
    correlation_id: int
    response_stream_id: int
    version: int
    response_channel: str
    encoded_credentials: bytes
    client_info: str

class ChallengeResponse(NamedTuple):
    control_session_id: int
    correlation_id: int
    encoded_credentials: bytes

class KeepAliveRequest(NamedTuple):
    control_session_id: int
    correlation_id: int

class CloseSessionRequest(NamedTuple):
    control_session_id: int

class ArchiveIdRequest(NamedTuple):
    control_session_id: int
    correlation_id: int

class StartRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    stream_id: int
    source_location: int
    channel: str

class StartRecordingRequest2(NamedTuple):
    control_session_id: int
    correlation_id: int
    stream_id: int
    source_location: int
    auto_stop: int
    channel: str

class StopRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    stream_id: int
    channel: str

class StopRecordingSubscriptionRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    subscription_id: int

class StopRecordingByIdentityRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class ExtendRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    stream_id: int
    source_location: int
    channel: str

class ExtendRecordingRequest2(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    stream_id: int
    source_location: int
    auto_stop: int
    channel: str

class ReplayRequest(NamedTuple):
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

class StopReplayRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    replay_session_id: int

class StopAllReplaysRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class ListRecordingsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    from_recording_id: int
    record_count: int

class ListRecordingsForUriRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    from_recording_id: int
    record_count: int
    stream_id: int
    channel: str

class ListRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class FindLastMatchingRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    min_recording_id: int
    session_id: int
    stream_id: int
    channel: str

class ListRecordingSubscriptionsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    pseudo_index: int
    subscription_count: int
    apply_stream_id: int
    stream_id: int
    channel: str

class RecordingPositionRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class StartPositionRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class StopPositionRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class MaxRecordedPositionRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class TruncateRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    position: int

class PurgeRecordingRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class DetachSegmentsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    new_start_position: int

class DeleteDetachedSegmentsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class PurgeSegmentsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    new_start_position: int

class AttachSegmentsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int

class MigrateSegmentsRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int

class UpdateChannelRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    channel: str

class ReplicateRequest(NamedTuple):
    control_session_id: int
    correlation_id: int
    source_recording_id: int
    target_recording_id: int
    source_control_stream_id: int
    source_control_channel: str
    live_destination: str

class TaggedReplicateRequest(NamedTuple):
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
    control_session_id: int
    correlation_id: int
    replication_id: int

class ControlResponse(NamedTuple):
    control_session_id: int
    correlation_id: int
    relevant_id: int
    code: int
    version: int
    error_message: str

class Challenge(NamedTuple):
    control_session_id: int
    correlation_id: int
    version: int
    encoded_challenge: bytes

class RecordingDescriptor(NamedTuple):
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
    control_session_id: int
    correlation_id: int
    subscription_id: int
    stream_id: int
    stripped_channel: str

class RecordingSignalEvent(NamedTuple):
    control_session_id: int
    correlation_id: int
    recording_id: int
    subscription_id: int
    position: int
    signal: int

class Ping(NamedTuple):
    control_session_id: int

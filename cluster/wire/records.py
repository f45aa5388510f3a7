"""What messages decode to, by the tables of cluster/wire/codecs.py and cluster/wire/ordo_codecs.py.

Written by `make fix`; do not edit.
"""

from __future__ import annotations

from typing import NamedTuple


class SessionConnectRequest(NamedTuple):
    """The fields of a decoded SessionConnectRequest."""

    correlation_id: int
    response_stream_id: int
    version: int
    response_channel: str
    encoded_credentials: bytes
    client_info: str


class ChallengeResponse(NamedTuple):
    """The fields of a decoded ChallengeResponse."""

    correlation_id: int
    cluster_session_id: int
    encoded_credentials: bytes


class SessionMessageHeader(NamedTuple):
    """The fields of a decoded SessionMessageHeader."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int


class SessionKeepAlive(NamedTuple):
    """The fields of a decoded SessionKeepAlive."""

    leadership_term_id: int
    cluster_session_id: int


class SessionCloseRequest(NamedTuple):
    """The fields of a decoded SessionCloseRequest."""

    leadership_term_id: int
    cluster_session_id: int


class AdminRequest(NamedTuple):
    """The fields of a decoded AdminRequest."""

    leadership_term_id: int
    cluster_session_id: int
    correlation_id: int
    request_type: int
    payload: bytes


class SessionEvent(NamedTuple):
    """The fields of a decoded SessionEvent."""

    cluster_session_id: int
    correlation_id: int
    leadership_term_id: int
    leader_member_id: int
    code: int
    version: int
    leader_heartbeat_timeout_ns: int
    detail: str


class Challenge(NamedTuple):
    """The fields of a decoded Challenge."""

    correlation_id: int
    cluster_session_id: int
    encoded_challenge: bytes


class NewLeaderEvent(NamedTuple):
    """The fields of a decoded NewLeaderEvent."""

    leadership_term_id: int
    cluster_session_id: int
    leader_member_id: int
    ingress_endpoints: str


class AdminResponse(NamedTuple):
    """The fields of a decoded AdminResponse."""

    cluster_session_id: int
    correlation_id: int
    request_type: int
    response_code: int
    message: str
    payload: bytes


class CanvassPosition(NamedTuple):
    """The fields of a decoded CanvassPosition."""

    log_leadership_term_id: int
    log_position: int
    leadership_term_id: int
    follower_member_id: int
    protocol_version: int


class RequestVote(NamedTuple):
    """The fields of a decoded RequestVote."""

    log_leadership_term_id: int
    log_position: int
    candidate_term_id: int
    candidate_member_id: int
    protocol_version: int


class Vote(NamedTuple):
    """The fields of a decoded Vote."""

    candidate_term_id: int
    log_leadership_term_id: int
    log_position: int
    candidate_member_id: int
    follower_member_id: int
    vote: int


class NewLeadershipTerm(NamedTuple):
    """The fields of a decoded NewLeadershipTerm."""

    log_leadership_term_id: int
    next_leadership_term_id: int
    next_term_base_log_position: int
    next_log_position: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    leader_recording_id: int
    timestamp: int
    leader_member_id: int
    log_session_id: int
    app_version: int
    is_startup: int
    commit_position: int


class AppendPosition(NamedTuple):
    """The fields of a decoded AppendPosition."""

    leadership_term_id: int
    log_position: int
    follower_member_id: int
    flags: int


class CommitPosition(NamedTuple):
    """The fields of a decoded CommitPosition."""

    leadership_term_id: int
    log_position: int
    leader_member_id: int


class CatchupPosition(NamedTuple):
    """The fields of a decoded CatchupPosition."""

    leadership_term_id: int
    log_position: int
    follower_member_id: int
    catchup_endpoint: str


class StopCatchup(NamedTuple):
    """The fields of a decoded StopCatchup."""

    leadership_term_id: int
    follower_member_id: int


class TerminationPosition(NamedTuple):
    """The fields of a decoded TerminationPosition."""

    leadership_term_id: int
    log_position: int


class TerminationAck(NamedTuple):
    """The fields of a decoded TerminationAck."""

    leadership_term_id: int
    log_position: int
    member_id: int


class BackupQuery(NamedTuple):
    """The fields of a decoded BackupQuery."""

    correlation_id: int
    response_stream_id: int
    version: int
    log_position: int
    response_channel: str
    encoded_credentials: bytes


class BackupResponseSnapshotsEntry(NamedTuple):
    """The fields of a decoded BackupResponseSnapshotsEntry."""

    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int


class BackupResponse(NamedTuple):
    """The fields of a decoded BackupResponse."""

    correlation_id: int
    log_recording_id: int
    log_leadership_term_id: int
    log_term_base_log_position: int
    last_leadership_term_id: int
    last_term_base_log_position: int
    commit_position_counter_id: int
    leader_member_id: int
    member_id: int
    snapshots: list[BackupResponseSnapshotsEntry]
    cluster_members: str


class HeartbeatRequest(NamedTuple):
    """The fields of a decoded HeartbeatRequest."""

    correlation_id: int
    response_stream_id: int
    response_channel: str
    encoded_credentials: bytes


class HeartbeatResponse(NamedTuple):
    """The fields of a decoded HeartbeatResponse."""

    correlation_id: int


class StandbySnapshotSnapshotsEntry(NamedTuple):
    """The fields of a decoded StandbySnapshotSnapshotsEntry."""

    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int
    archive_endpoint: str


class StandbySnapshot(NamedTuple):
    """The fields of a decoded StandbySnapshot."""

    correlation_id: int
    version: int
    response_stream_id: int
    snapshots: list[StandbySnapshotSnapshotsEntry]
    response_channel: str
    encoded_credentials: bytes


class NewLeadershipTermEvent(NamedTuple):
    """The fields of a decoded NewLeadershipTermEvent."""

    leadership_term_id: int
    log_position: int
    timestamp: int
    term_base_log_position: int
    leader_member_id: int
    log_session_id: int
    time_unit: int
    app_version: int


class SessionOpenEvent(NamedTuple):
    """The fields of a decoded SessionOpenEvent."""

    leadership_term_id: int
    correlation_id: int
    cluster_session_id: int
    timestamp: int
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes


class SessionCloseEvent(NamedTuple):
    """The fields of a decoded SessionCloseEvent."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    close_reason: int


class TimerEvent(NamedTuple):
    """The fields of a decoded TimerEvent."""

    leadership_term_id: int
    correlation_id: int
    timestamp: int


class ClusterActionRequest(NamedTuple):
    """The fields of a decoded ClusterActionRequest."""

    leadership_term_id: int
    log_position: int
    timestamp: int
    action: int
    flags: int


class MembershipChangeEvent(NamedTuple):
    """The fields of a decoded MembershipChangeEvent."""

    leadership_term_id: int
    log_position: int
    timestamp: int
    leader_member_id: int
    cluster_size: int
    change_type: int
    member_id: int
    cluster_members: str


class JoinLog(NamedTuple):
    """The fields of a decoded JoinLog."""

    log_position: int
    max_log_position: int
    member_id: int
    log_session_id: int
    log_stream_id: int
    is_startup: int
    role: int
    is_standby: int
    log_channel: str


class ServiceTerminationPosition(NamedTuple):
    """The fields of a decoded ServiceTerminationPosition."""

    log_position: int
    ack_required: int


class RequestServiceAck(NamedTuple):
    """The fields of a decoded RequestServiceAck."""

    log_position: int


class ServiceAck(NamedTuple):
    """The fields of a decoded ServiceAck."""

    log_position: int
    timestamp: int
    ack_id: int
    relevant_id: int
    service_id: int


class ScheduleTimer(NamedTuple):
    """The fields of a decoded ScheduleTimer."""

    correlation_id: int
    deadline: int


class CancelTimer(NamedTuple):
    """The fields of a decoded CancelTimer."""

    correlation_id: int


class CloseSession(NamedTuple):
    """The fields of a decoded CloseSession."""

    cluster_session_id: int


class ClusterMembersQuery(NamedTuple):
    """The fields of a decoded ClusterMembersQuery."""

    correlation_id: int
    extended: int


class ClusterMembersResponse(NamedTuple):
    """The fields of a decoded ClusterMembersResponse."""

    correlation_id: int
    leader_member_id: int
    active_members: str
    passive_followers: str


class ClusterMembersExtendedResponseActiveMembersEntry(NamedTuple):
    """The fields of a decoded ClusterMembersExtendedResponseActiveMembersEntry."""

    leadership_term_id: int
    log_position: int
    time_of_last_append_ns: int
    member_id: int
    ingress_endpoint: str
    consensus_endpoint: str
    log_endpoint: str
    catchup_endpoint: str
    archive_endpoint: str


class ClusterMembersExtendedResponsePassiveMembersEntry(NamedTuple):
    """The fields of a decoded ClusterMembersExtendedResponsePassiveMembersEntry."""

    leadership_term_id: int
    log_position: int
    time_of_last_append_ns: int
    member_id: int
    ingress_endpoint: str
    consensus_endpoint: str
    log_endpoint: str
    catchup_endpoint: str
    archive_endpoint: str


class ClusterMembersExtendedResponse(NamedTuple):
    """The fields of a decoded ClusterMembersExtendedResponse."""

    correlation_id: int
    current_time_ns: int
    leader_member_id: int
    member_id: int
    active_members: list[ClusterMembersExtendedResponseActiveMembersEntry]
    passive_members: list[ClusterMembersExtendedResponsePassiveMembersEntry]


class SnapshotMarker(NamedTuple):
    """The fields of a decoded SnapshotMarker."""

    type_id: int
    log_position: int
    leadership_term_id: int
    index: int  # type: ignore[assignment]
    mark: int
    time_unit: int
    app_version: int


class ClientSession(NamedTuple):
    """The fields of a decoded ClientSession."""

    cluster_session_id: int
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes


class ClusterSession(NamedTuple):
    """The fields of a decoded ClusterSession."""

    cluster_session_id: int
    correlation_id: int
    opened_log_position: int
    time_of_last_activity: int
    close_reason: int
    response_stream_id: int
    response_channel: str


class Timer(NamedTuple):
    """The fields of a decoded Timer."""

    correlation_id: int
    deadline: int


class ConsensusModule(NamedTuple):
    """The fields of a decoded ConsensusModule."""

    next_session_id: int
    next_service_session_id: int
    log_service_session_id: int
    pending_message_capacity: int


class PendingMessageTracker(NamedTuple):
    """The fields of a decoded PendingMessageTracker."""

    next_service_session_id: int
    log_service_session_id: int
    pending_message_capacity: int
    service_id: int


class TimeoutNow(NamedTuple):
    """The fields of a decoded TimeoutNow."""

    leadership_term_id: int
    log_position: int
    leader_member_id: int
    follower_member_id: int


class TransferRequestVote(NamedTuple):
    """The fields of a decoded TransferRequestVote."""

    log_leadership_term_id: int
    log_position: int
    candidate_term_id: int
    candidate_member_id: int
    protocol_version: int


class ReadHeartbeat(NamedTuple):
    """The fields of a decoded ReadHeartbeat."""

    leadership_term_id: int
    round_id: int
    leader_member_id: int


class ReadHeartbeatAck(NamedTuple):
    """The fields of a decoded ReadHeartbeatAck."""

    leadership_term_id: int
    round_id: int
    follower_member_id: int


class ReadIndexRequest(NamedTuple):
    """The fields of a decoded ReadIndexRequest."""

    leadership_term_id: int
    request_id: int
    follower_member_id: int


class ReadIndexResponse(NamedTuple):
    """The fields of a decoded ReadIndexResponse."""

    request_id: int
    log_position: int
    leader_member_id: int


class TimerExecuted(NamedTuple):
    """The fields of a decoded TimerExecuted."""

    correlation_id: int
    timestamp: int


class DisconnectSession(NamedTuple):
    """The fields of a decoded DisconnectSession."""

    cluster_session_id: int
    detail: str


class Query(NamedTuple):
    """The fields of a decoded Query."""

    cluster_session_id: int
    correlation_id: int
    min_position: int
    consistency: int
    payload: bytes


class QueryResponse(NamedTuple):
    """The fields of a decoded QueryResponse."""

    cluster_session_id: int
    correlation_id: int
    log_position: int
    member_id: int
    status: int
    payload: bytes


class ServiceQuery(NamedTuple):
    """The fields of a decoded ServiceQuery."""

    cluster_session_id: int
    correlation_id: int
    read_position: int
    status: int
    payload: bytes


class GroupQuery(NamedTuple):
    """The fields of a decoded GroupQuery."""

    cluster_session_id: int
    correlation_id: int
    min_position: int
    consistency: int
    group: bytes
    payload: bytes


class GroupServes(NamedTuple):
    """The fields of a decoded GroupServes."""

    cluster_session_id: int
    group: bytes


class GroupQuestion(NamedTuple):
    """The fields of a decoded GroupQuestion."""

    cluster_session_id: int
    asker_session_id: int
    correlation_id: int
    read_position: int
    payload: bytes


class GroupAnswer(NamedTuple):
    """The fields of a decoded GroupAnswer."""

    cluster_session_id: int
    asker_session_id: int
    correlation_id: int
    log_position: int
    status: int
    payload: bytes


class TrustRequest(NamedTuple):
    """The fields of a decoded TrustRequest."""

    request_id: int
    member_id: int


class StandsBack(NamedTuple):
    """The fields of a decoded StandsBack."""

    member_id: int


class TrustAnswer(NamedTuple):
    """The fields of a decoded TrustAnswer."""

    request_id: int
    candidate_term_id: int
    leadership_term_id: int
    log_position: int
    member_id: int


class ConfigurationEvent(NamedTuple):
    """The fields of a decoded ConfigurationEvent."""

    leadership_term_id: int
    timestamp: int
    voters: str
    learners: str


class Introduction(NamedTuple):
    """The fields of a decoded Introduction."""

    member_id: int
    member: str


class MemberChallenge(NamedTuple):
    """The fields of a decoded MemberChallenge."""

    nonce: int
    member_id: int


class MemberProof(NamedTuple):
    """The fields of a decoded MemberProof."""

    nonce: int
    member_id: int
    distrust: int
    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int
    start_number: int
    start_draw: int
    previous_number: int
    previous_draw: int
    start_term_id: int
    start_position: int


class MemberStanding(NamedTuple):
    """The fields of a decoded MemberStanding."""

    member_id: int
    distrust: int
    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int
    start_number: int
    start_draw: int
    leadership_term_id: int
    append_position: int


class MemberBehind(NamedTuple):
    """The fields of a decoded MemberBehind."""

    member_id: int
    follower_member_id: int
    identity_high: int
    identity_low: int
    start_number: int
    start_draw: int
    known_number: int


class TermLead(NamedTuple):
    """The fields of a decoded TermLead."""

    leadership_term_id: int
    member_id: int
    log_session_id: int


class ClusterIdentityEvent(NamedTuple):
    """The fields of a decoded ClusterIdentityEvent."""

    leadership_term_id: int
    timestamp: int
    identity_high: int
    identity_low: int
    log_position: int
    member_id: int


class LogIdentity(NamedTuple):
    """The fields of a decoded LogIdentity."""

    session_id: int
    correlation_id: int
    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int
    has_index: int
    knows_past: int
    past: bytes


class MembershipRequest(NamedTuple):
    """The fields of a decoded MembershipRequest."""

    correlation_id: int
    member_id: int
    change: int
    member: str


class MembershipResponse(NamedTuple):
    """The fields of a decoded MembershipResponse."""

    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str


class SkipEvent(NamedTuple):
    """The fields of a decoded SkipEvent."""

    leadership_term_id: int
    timestamp: int
    skipped_position: int
    member_id: int
    text: bytes


class ServiceFailure(NamedTuple):
    """The fields of a decoded ServiceFailure."""

    log_position: int
    is_held: int
    error: bytes
    text: bytes


class RecordOrder(NamedTuple):
    """The fields of a decoded RecordOrder."""

    log_position: int
    order: int
    text: bytes


class FailureReport(NamedTuple):
    """The fields of a decoded FailureReport."""

    log_position: int
    member_id: int
    is_held: int
    wants_skip: int
    error: bytes
    text: bytes


class FailureAnswer(NamedTuple):
    """The fields of a decoded FailureAnswer."""

    log_position: int
    skip_position: int
    timestamp: int
    member_id: int
    follower_member_id: int
    verdict: int
    text: bytes


class SkippedRecord(NamedTuple):
    """The fields of a decoded SkippedRecord."""

    log_position: int
    skip_position: int
    timestamp: int
    text: bytes


class SkipRequest(NamedTuple):
    """The fields of a decoded SkipRequest."""

    correlation_id: int
    log_position: int


class SkipResponse(NamedTuple):
    """The fields of a decoded SkipResponse."""

    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str


class OperatorConnect(NamedTuple):
    """The fields of a decoded OperatorConnect."""

    correlation_id: int
    response_port: int
    credentials: bytes


class OperatorConnected(NamedTuple):
    """The fields of a decoded OperatorConnected."""

    correlation_id: int
    connection_id: int
    member_id: int
    status: int
    text: bytes


class OperatorRequest(NamedTuple):
    """The fields of a decoded OperatorRequest."""

    connection_id: int
    correlation_id: int
    order: int
    value: int
    expected: int
    question: bytes


class OperatorResponse(NamedTuple):
    """The fields of a decoded OperatorResponse."""

    correlation_id: int
    value: int
    member_id: int
    status: int
    payload: bytes


class VersionEvent(NamedTuple):
    """The fields of a decoded VersionEvent."""

    leadership_term_id: int
    timestamp: int
    app_version: int
    member_id: int
    service_id: int


class ServiceVersions(NamedTuple):
    """The fields of a decoded ServiceVersions."""

    service_id: int
    versions: bytes


class ServiceLack(NamedTuple):
    """The fields of a decoded ServiceLack."""

    log_position: int
    app_version: int


class VersionsQuestion(NamedTuple):
    """The fields of a decoded VersionsQuestion."""

    request_id: int
    member_id: int


class VersionsReport(NamedTuple):
    """The fields of a decoded VersionsReport."""

    request_id: int
    lack_position: int
    member_id: int
    follower_member_id: int
    lack_version: int
    protocol_level: int
    versions: bytes
    services: bytes


class UpgradeRequest(NamedTuple):
    """The fields of a decoded UpgradeRequest."""

    correlation_id: int
    app_version: int
    service_id: int


class UpgradeResponse(NamedTuple):
    """The fields of a decoded UpgradeResponse."""

    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str


class VersionsQuery(NamedTuple):
    """The fields of a decoded VersionsQuery."""

    correlation_id: int


class VersionsResponse(NamedTuple):
    """The fields of a decoded VersionsResponse."""

    correlation_id: int
    leader_member_id: int
    app_version: int
    since_position: int
    level_since_position: int
    protocol_level: int
    members: bytes
    levels: bytes
    in_force: bytes
    services: bytes


class SchemaEvent(NamedTuple):
    """The fields of a decoded SchemaEvent."""

    leadership_term_id: int
    timestamp: int
    log_position: int
    service_id: int
    member_id: int
    digest: bytes
    packed: bytes


class ServiceSchema(NamedTuple):
    """The fields of a decoded ServiceSchema."""

    service_id: int
    app_version: int
    part: int
    parts: int
    digest: bytes
    packed: bytes


class ServiceTime(NamedTuple):
    """The fields of a decoded ServiceTime."""

    service_id: int
    time_unit: int


class OpenIdentity(NamedTuple):
    """The fields of a decoded OpenIdentity."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    identity_high: int
    identity_low: int
    incarnation: int
    known_position: int


class Request(NamedTuple):
    """The fields of a decoded Request."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int


class IdentityOpened(NamedTuple):
    """The fields of a decoded IdentityOpened."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    incarnation: int
    open_position: int
    number: int
    confirmed: int
    status: int
    length_bytes_max: int
    takes_ids: int
    takes_output_ids: int


class Answer(NamedTuple):
    """The fields of a decoded Answer."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    log_position: int
    status: int
    sequence: int


class Identity(NamedTuple):
    """The fields of a decoded Identity."""

    identity_high: int
    identity_low: int
    incarnation: int
    open_position: int
    number: int
    confirmed: int
    last_time: int
    principal: bytes


class KeptAnswer(NamedTuple):
    """The fields of a decoded KeptAnswer."""

    number: int
    log_position: int
    status: int
    payload: bytes


class RequestIds(NamedTuple):
    """The fields of a decoded RequestIds."""

    part: int
    parts: int
    principal: bytes
    rows: bytes


class MessageSequence(NamedTuple):
    """The fields of a decoded MessageSequence."""

    last: int
    is_kept: int


class MessageMark(NamedTuple):
    """The fields of a decoded MessageMark."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    number: int
    confirmed: int
    previous_session_id: int


class MessagesMarked(NamedTuple):
    """The fields of a decoded MessagesMarked."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    number: int
    known_number: int
    log_position: int
    level: int
    previous: int
    gaps: bytes


class SessionNumbers(NamedTuple):
    """The fields of a decoded SessionNumbers."""

    cluster_session_id: int
    previous_session_id: int
    first_number: int
    next_number: int
    known_number: int
    is_open: int
    gaps: bytes


class ConsumerCommand(NamedTuple):
    """The fields of a decoded ConsumerCommand."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    member_key: int
    number: int
    epoch: int
    position: int
    from_position: int
    filter_hash: int
    ack_timeout: int
    kind: int
    mode: int
    in_flight_max: int
    tries_max: int
    name_length: int
    flags: int


class ConsumerAnswer(NamedTuple):
    """The fields of a decoded ConsumerAnswer."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    member_key: int
    number: int
    epoch: int
    position: int
    frontier: int
    due: int
    log_position: int
    status: int
    flags: int
    room: int
    accepted: int
    count: int  # type: ignore[assignment]


class ConsumerState(NamedTuple):
    """The fields of a decoded ConsumerState."""

    part: int
    parts: int
    state: bytes


class ConsumersHold(NamedTuple):
    """The fields of a decoded ConsumersHold."""

    log_position: int


class AppReport(NamedTuple):
    """The fields of a decoded AppReport."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    position: int
    outputs_made: int
    outputs_executed: int
    app_version: int
    flags: int
    group_length: int
    instance_length: int


class AppDifference(NamedTuple):
    """The fields of a decoded AppDifference."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    log_position: int
    input_position: int
    count: int  # type: ignore[assignment]
    output_index: int
    app_version: int
    kind: int
    written_length: int
    canary_length: int
    group_length: int
    instance_length: int


class FeedMessage(NamedTuple):
    """The fields of a decoded FeedMessage."""

    sequence: int
    log_position: int
    previous_log_position: int
    timestamp: int
    message_index: int


class FeedOpen(NamedTuple):
    """The fields of a decoded FeedOpen."""

    position: int
    session_id: int
    topic: str


class FeedState(NamedTuple):
    """The fields of a decoded FeedState."""

    sequence: int
    position: int
    log_position: int
    topic: str


class SnapshotDigest(NamedTuple):
    """The fields of a decoded SnapshotDigest."""

    log_position: int
    service_id: int
    digest: bytes


class SnapshotReport(NamedTuple):
    """The fields of a decoded SnapshotReport."""

    needed_position: int
    member_id: int
    snapshots: bytes


class CatchupRefusal(NamedTuple):
    """The fields of a decoded CatchupRefusal."""

    leadership_term_id: int
    start_position: int
    snapshot_position: int
    leader_member_id: int
    follower_member_id: int
    source_member_id: int
    digest: bytes
    source: str


class SnapshotRequest(NamedTuple):
    """The fields of a decoded SnapshotRequest."""

    snapshot_position: int
    from_position: int
    member_id: int
    part: int
    session_id: int
    digest: bytes


class SnapshotOffer(NamedTuple):
    """The fields of a decoded SnapshotOffer."""

    snapshot_position: int
    leadership_term_id: int
    term_base_log_position: int
    timestamp: int
    module_length_bytes: int
    service_length_bytes: int
    member_id: int
    follower_member_id: int
    digest: bytes
    more_lengths: bytes


class LeadershipTerms(NamedTuple):
    """The fields of a decoded LeadershipTerms."""

    count: int  # type: ignore[assignment]
    terms: bytes


class LogRequest(NamedTuple):
    """The fields of a decoded LogRequest."""

    from_position: int
    length_bytes: int
    member_id: int
    session_id: int


class SnapshotBegun(NamedTuple):
    """The fields of a decoded SnapshotBegun."""

    log_position: int
    service_id: int
    session_id: int


class StateHashEvent(NamedTuple):
    """The fields of a decoded StateHashEvent."""

    leadership_term_id: int
    timestamp: int
    agreed_position: int
    member_id: int
    agreed_digest: bytes


class StateHash(NamedTuple):
    """The fields of a decoded StateHash."""

    log_position: int
    service_id: int
    digest: bytes


class StateKept(NamedTuple):
    """The fields of a decoded StateKept."""

    log_position: int
    recording_id: int
    service_id: int


class SnapshotFailure(NamedTuple):
    """The fields of a decoded SnapshotFailure."""

    log_position: int
    service_id: int
    text: bytes


class StateHashReport(NamedTuple):
    """The fields of a decoded StateHashReport."""

    member_id: int
    hashes: bytes


class LevelEvent(NamedTuple):
    """The fields of a decoded LevelEvent."""

    leadership_term_id: int
    timestamp: int
    level: int
    member_id: int


class LevelReport(NamedTuple):
    """The fields of a decoded LevelReport."""

    member_id: int
    level: int


class ClockEvent(NamedTuple):
    """The fields of a decoded ClockEvent."""

    leadership_term_id: int
    timestamp: int
    offset_ns: int
    error_estimate_ns: int
    error_bound_ns: int
    wall_clock_ahead_ns: int
    interval_ns: int
    member_id: int
    source: int
    is_synchronized: int


class ArrivedRequest(NamedTuple):
    """The fields of a decoded ArrivedRequest."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int


class Output(NamedTuple):
    """The fields of a decoded Output."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int
    input_position: int
    target_session_id: int
    output_index: int


class RequestById(NamedTuple):
    """The fields of a decoded RequestById."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int
    request_id_high: int
    request_id_low: int


class OutputById(NamedTuple):
    """The fields of a decoded OutputById."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int
    input_position: int
    target_session_id: int
    output_index: int
    request_id_high: int
    request_id_low: int


class LongAppReport(NamedTuple):
    """The fields of a decoded LongAppReport."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    position: int
    outputs_made: int
    outputs_executed: int
    app_version: int
    flags: int
    group_length: int
    instance_length: int
    outputs_refused: int

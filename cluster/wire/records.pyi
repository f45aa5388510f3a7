"""What messages decode to, by the tables of cluster/wire/codecs.py and cluster/wire/ordo_codecs.py.

Written by `make fix`; do not edit.
"""

from typing import NamedTuple

class SessionConnectRequest(NamedTuple):
    correlation_id: int
    response_stream_id: int
    version: int
    response_channel: str
    encoded_credentials: bytes
    client_info: str

class ChallengeResponse(NamedTuple):
    correlation_id: int
    cluster_session_id: int
    encoded_credentials: bytes

class SessionMessageHeader(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int

class SessionKeepAlive(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int

class SessionCloseRequest(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int

class AdminRequest(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    correlation_id: int
    request_type: int
    payload: bytes

class SessionEvent(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    leadership_term_id: int
    leader_member_id: int
    code: int
    version: int
    leader_heartbeat_timeout_ns: int
    detail: str

class Challenge(NamedTuple):
    correlation_id: int
    cluster_session_id: int
    encoded_challenge: bytes

class NewLeaderEvent(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    leader_member_id: int
    ingress_endpoints: str

class AdminResponse(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    request_type: int
    response_code: int
    message: str
    payload: bytes

class CanvassPosition(NamedTuple):
    log_leadership_term_id: int
    log_position: int
    leadership_term_id: int
    follower_member_id: int
    protocol_version: int

class RequestVote(NamedTuple):
    log_leadership_term_id: int
    log_position: int
    candidate_term_id: int
    candidate_member_id: int
    protocol_version: int

class Vote(NamedTuple):
    candidate_term_id: int
    log_leadership_term_id: int
    log_position: int
    candidate_member_id: int
    follower_member_id: int
    vote: int

class NewLeadershipTerm(NamedTuple):
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
    leadership_term_id: int
    log_position: int
    follower_member_id: int
    flags: int

class CommitPosition(NamedTuple):
    leadership_term_id: int
    log_position: int
    leader_member_id: int

class CatchupPosition(NamedTuple):
    leadership_term_id: int
    log_position: int
    follower_member_id: int
    catchup_endpoint: str

class StopCatchup(NamedTuple):
    leadership_term_id: int
    follower_member_id: int

class TerminationPosition(NamedTuple):
    leadership_term_id: int
    log_position: int

class TerminationAck(NamedTuple):
    leadership_term_id: int
    log_position: int
    member_id: int

class BackupQuery(NamedTuple):
    correlation_id: int
    response_stream_id: int
    version: int
    log_position: int
    response_channel: str
    encoded_credentials: bytes

class BackupResponseSnapshotsEntry(NamedTuple):
    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int

class BackupResponse(NamedTuple):
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
    correlation_id: int
    response_stream_id: int
    response_channel: str
    encoded_credentials: bytes

class HeartbeatResponse(NamedTuple):
    correlation_id: int

class StandbySnapshotSnapshotsEntry(NamedTuple):
    recording_id: int
    leadership_term_id: int
    term_base_log_position: int
    log_position: int
    timestamp: int
    service_id: int
    archive_endpoint: str

class StandbySnapshot(NamedTuple):
    correlation_id: int
    version: int
    response_stream_id: int
    snapshots: list[StandbySnapshotSnapshotsEntry]
    response_channel: str
    encoded_credentials: bytes

class NewLeadershipTermEvent(NamedTuple):
    leadership_term_id: int
    log_position: int
    timestamp: int
    term_base_log_position: int
    leader_member_id: int
    log_session_id: int
    time_unit: int
    app_version: int

class SessionOpenEvent(NamedTuple):
    leadership_term_id: int
    correlation_id: int
    cluster_session_id: int
    timestamp: int
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes

class SessionCloseEvent(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    close_reason: int

class TimerEvent(NamedTuple):
    leadership_term_id: int
    correlation_id: int
    timestamp: int

class ClusterActionRequest(NamedTuple):
    leadership_term_id: int
    log_position: int
    timestamp: int
    action: int
    flags: int

class MembershipChangeEvent(NamedTuple):
    leadership_term_id: int
    log_position: int
    timestamp: int
    leader_member_id: int
    cluster_size: int
    change_type: int
    member_id: int
    cluster_members: str

class JoinLog(NamedTuple):
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
    log_position: int
    ack_required: int

class RequestServiceAck(NamedTuple):
    log_position: int

class ServiceAck(NamedTuple):
    log_position: int
    timestamp: int
    ack_id: int
    relevant_id: int
    service_id: int

class ScheduleTimer(NamedTuple):
    correlation_id: int
    deadline: int

class CancelTimer(NamedTuple):
    correlation_id: int

class CloseSession(NamedTuple):
    cluster_session_id: int

class ClusterMembersQuery(NamedTuple):
    correlation_id: int
    extended: int

class ClusterMembersResponse(NamedTuple):
    correlation_id: int
    leader_member_id: int
    active_members: str
    passive_followers: str

class ClusterMembersExtendedResponseActiveMembersEntry(NamedTuple):
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
    correlation_id: int
    current_time_ns: int
    leader_member_id: int
    member_id: int
    active_members: list[ClusterMembersExtendedResponseActiveMembersEntry]
    passive_members: list[ClusterMembersExtendedResponsePassiveMembersEntry]

class SnapshotMarker(NamedTuple):
    type_id: int
    log_position: int
    leadership_term_id: int
    index: int  # type: ignore[assignment]
    mark: int
    time_unit: int
    app_version: int

class ClientSession(NamedTuple):
    cluster_session_id: int
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes

class ClusterSession(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    opened_log_position: int
    time_of_last_activity: int
    close_reason: int
    response_stream_id: int
    response_channel: str

class Timer(NamedTuple):
    correlation_id: int
    deadline: int

class ConsensusModule(NamedTuple):
    next_session_id: int
    next_service_session_id: int
    log_service_session_id: int
    pending_message_capacity: int

class PendingMessageTracker(NamedTuple):
    next_service_session_id: int
    log_service_session_id: int
    pending_message_capacity: int
    service_id: int

class TimeoutNow(NamedTuple):
    leadership_term_id: int
    log_position: int
    leader_member_id: int
    follower_member_id: int

class TransferRequestVote(NamedTuple):
    log_leadership_term_id: int
    log_position: int
    candidate_term_id: int
    candidate_member_id: int
    protocol_version: int

class ReadHeartbeat(NamedTuple):
    leadership_term_id: int
    round_id: int
    leader_member_id: int

class ReadHeartbeatAck(NamedTuple):
    leadership_term_id: int
    round_id: int
    follower_member_id: int

class ReadIndexRequest(NamedTuple):
    leadership_term_id: int
    request_id: int
    follower_member_id: int

class ReadIndexResponse(NamedTuple):
    request_id: int
    log_position: int
    leader_member_id: int

class TimerExecuted(NamedTuple):
    correlation_id: int
    timestamp: int

class DisconnectSession(NamedTuple):
    cluster_session_id: int
    detail: str

class Query(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    min_position: int
    consistency: int
    payload: bytes

class QueryResponse(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    log_position: int
    member_id: int
    status: int
    payload: bytes

class ServiceQuery(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    read_position: int
    status: int
    payload: bytes

class GroupQuery(NamedTuple):
    cluster_session_id: int
    correlation_id: int
    min_position: int
    consistency: int
    group: bytes
    payload: bytes

class GroupServes(NamedTuple):
    cluster_session_id: int
    group: bytes

class GroupQuestion(NamedTuple):
    cluster_session_id: int
    asker_session_id: int
    correlation_id: int
    read_position: int
    payload: bytes

class GroupAnswer(NamedTuple):
    cluster_session_id: int
    asker_session_id: int
    correlation_id: int
    log_position: int
    status: int
    payload: bytes

class TrustRequest(NamedTuple):
    request_id: int
    member_id: int

class StandsBack(NamedTuple):
    member_id: int

class TrustAnswer(NamedTuple):
    request_id: int
    candidate_term_id: int
    leadership_term_id: int
    log_position: int
    member_id: int

class ConfigurationEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    voters: str
    learners: str

class Introduction(NamedTuple):
    member_id: int
    member: str

class MemberChallenge(NamedTuple):
    nonce: int
    member_id: int

class MemberProof(NamedTuple):
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
    member_id: int
    follower_member_id: int
    identity_high: int
    identity_low: int
    start_number: int
    start_draw: int
    known_number: int

class ClusterIdentityEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    identity_high: int
    identity_low: int
    log_position: int
    member_id: int

class LogIdentity(NamedTuple):
    session_id: int
    correlation_id: int
    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int

class MembershipRequest(NamedTuple):
    correlation_id: int
    member_id: int
    change: int
    member: str

class MembershipResponse(NamedTuple):
    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str

class SkipEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    skipped_position: int
    member_id: int
    text: bytes

class ServiceFailure(NamedTuple):
    log_position: int
    is_held: int
    error: bytes
    text: bytes

class RecordOrder(NamedTuple):
    log_position: int
    order: int
    text: bytes

class FailureReport(NamedTuple):
    log_position: int
    member_id: int
    is_held: int
    wants_skip: int
    error: bytes
    text: bytes

class FailureAnswer(NamedTuple):
    log_position: int
    skip_position: int
    timestamp: int
    member_id: int
    follower_member_id: int
    verdict: int
    text: bytes

class SkippedRecord(NamedTuple):
    log_position: int
    skip_position: int
    timestamp: int
    text: bytes

class SkipRequest(NamedTuple):
    correlation_id: int
    log_position: int

class SkipResponse(NamedTuple):
    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str

class OperatorConnect(NamedTuple):
    correlation_id: int
    response_port: int
    credentials: bytes

class OperatorConnected(NamedTuple):
    correlation_id: int
    connection_id: int
    member_id: int
    status: int
    text: bytes

class OperatorRequest(NamedTuple):
    connection_id: int
    correlation_id: int
    order: int
    value: int
    expected: int
    question: bytes

class OperatorResponse(NamedTuple):
    correlation_id: int
    value: int
    member_id: int
    status: int
    payload: bytes

class VersionEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    app_version: int
    member_id: int
    service_id: int

class ServiceVersions(NamedTuple):
    service_id: int
    versions: bytes

class ServiceLack(NamedTuple):
    log_position: int
    app_version: int

class VersionsQuestion(NamedTuple):
    request_id: int
    member_id: int

class VersionsReport(NamedTuple):
    request_id: int
    lack_position: int
    member_id: int
    follower_member_id: int
    lack_version: int
    protocol_level: int
    versions: bytes
    services: bytes

class UpgradeRequest(NamedTuple):
    correlation_id: int
    app_version: int
    service_id: int

class UpgradeResponse(NamedTuple):
    correlation_id: int
    leader_member_id: int
    log_position: int
    refusal: str

class VersionsQuery(NamedTuple):
    correlation_id: int

class VersionsResponse(NamedTuple):
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

class OpenIdentity(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    identity_high: int
    identity_low: int
    incarnation: int
    known_position: int

class Request(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int

class IdentityOpened(NamedTuple):
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

class Answer(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    log_position: int
    status: int

class Identity(NamedTuple):
    identity_high: int
    identity_low: int
    incarnation: int
    open_position: int
    number: int
    confirmed: int
    last_time: int
    principal: bytes

class KeptAnswer(NamedTuple):
    number: int
    log_position: int
    status: int
    payload: bytes

class RequestIds(NamedTuple):
    part: int
    parts: int
    principal: bytes
    rows: bytes

class MessageMark(NamedTuple):
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    number: int
    confirmed: int
    previous_session_id: int

class MessagesMarked(NamedTuple):
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
    cluster_session_id: int
    previous_session_id: int
    first_number: int
    next_number: int
    known_number: int
    is_open: int
    gaps: bytes

class ConsumerCommand(NamedTuple):
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
    part: int
    parts: int
    state: bytes

class ConsumersHold(NamedTuple):
    log_position: int

class AppReport(NamedTuple):
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
    sequence: int
    log_position: int
    previous_log_position: int
    timestamp: int
    message_index: int

class FeedOpen(NamedTuple):
    position: int
    session_id: int
    topic: str

class FeedState(NamedTuple):
    sequence: int
    position: int
    log_position: int
    topic: str

class SnapshotDigest(NamedTuple):
    log_position: int
    service_id: int
    digest: bytes

class SnapshotReport(NamedTuple):
    needed_position: int
    member_id: int
    snapshots: bytes

class CatchupRefusal(NamedTuple):
    leadership_term_id: int
    start_position: int
    snapshot_position: int
    leader_member_id: int
    follower_member_id: int
    source_member_id: int
    digest: bytes
    source: str

class SnapshotRequest(NamedTuple):
    snapshot_position: int
    from_position: int
    member_id: int
    part: int
    session_id: int
    digest: bytes

class SnapshotOffer(NamedTuple):
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
    count: int  # type: ignore[assignment]
    terms: bytes

class LogRequest(NamedTuple):
    from_position: int
    length_bytes: int
    member_id: int
    session_id: int

class SnapshotBegun(NamedTuple):
    log_position: int
    service_id: int
    session_id: int

class StateHashEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    agreed_position: int
    member_id: int
    agreed_digest: bytes

class StateHash(NamedTuple):
    log_position: int
    service_id: int
    digest: bytes

class StateKept(NamedTuple):
    log_position: int
    recording_id: int
    service_id: int

class SnapshotFailure(NamedTuple):
    log_position: int
    service_id: int
    text: bytes

class StateHashReport(NamedTuple):
    member_id: int
    hashes: bytes

class LevelEvent(NamedTuple):
    leadership_term_id: int
    timestamp: int
    level: int
    member_id: int

class LevelReport(NamedTuple):
    member_id: int
    level: int

class Output(NamedTuple):
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
    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    open_position: int
    number: int
    confirmed: int
    request_id_high: int
    request_id_low: int

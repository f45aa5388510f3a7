"""Messages between members (cluster-consensus.md §3), as the consensus core sees them: decoded, without a wire.

Field names follow the specification in snake case and stand in its order. Positions are byte offsets in the log,
terms and member ids plain integers; a missing value is `NULL_POSITION`, `NULL_TERM` or `NULL_MEMBER`.
"""

from typing import NamedTuple

NULL_TERM = -1
NULL_MEMBER = -1
FORGOTTEN_TERM = -2
"""In a TrustAnswer: the member has itself forgotten what it voted for."""

PROTOCOL_VERSION = 1 << 16
"""Consensus protocol 1.0.0, packed as `major << 16 | minor << 8 | patch` (sbe-encoding.md §8)."""

APPEND_FLAGS_NONE = 0
APPEND_FLAGS_CATCHUP = 1


class Lead(NamedTuple):
    """Who led a term: a member, by the random session of the log that its process wrote then.

    A term and its lead are one log: where a member has forgotten its vote, one term may have two leads.
    """

    member_id: int
    log_session_id: int


class CanvassPosition(NamedTuple):
    """A member without a leader tells where its log ends; a serving leader answers with NewLeadershipTerm.

    `leadership_term_id` is the highest term the sender has bound itself to (its durable candidate term): a leader of
    a lower term must give up, because the sender may never follow it again (Raft §5.1).
    """

    log_leadership_term_id: int
    log_position: int
    leadership_term_id: int
    follower_member_id: int
    protocol_version: int = PROTOCOL_VERSION


class RequestVote(NamedTuple):
    """A candidate asks for a vote in `candidate_term_id`; the first two fields are the end of its log."""

    log_leadership_term_id: int
    log_position: int
    candidate_term_id: int
    candidate_member_id: int
    protocol_version: int = PROTOCOL_VERSION
    is_transfer: bool = False
    """The leader has asked the candidate to stand: vote although a leader was heard lately (Raft §4.2.3, §3.10)."""


class Vote(NamedTuple):
    """The answer to RequestVote, sent after the voter's term is durable."""

    candidate_term_id: int
    log_leadership_term_id: int
    log_position: int
    candidate_member_id: int
    follower_member_id: int
    vote: bool


class NewLeadershipTerm(NamedTuple):
    """A leader tells one member who leads, and which two neighbouring rows of its term table enclose that member's log.

    `log_leadership_term_id` is the greatest term of the leader's table that is not above the member's log term (or
    `NULL_TERM` below the first row), `next_leadership_term_id` the row after it, `next_term_base_log_position` where
    that row begins, `next_log_position` where it ends (`NULL_POSITION` while open). All three are null when
    `log_leadership_term_id` is the leader's current term. `timestamp` and `leader_recording_id` are left at their
    defaults by the core and filled in when the message is encoded. `log_lead` is who led `log_leadership_term_id`; None
    if that is the leader's current term, if the leader does not know it, or if its release does not tell it.
    """

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
    is_startup: bool
    commit_position: int
    log_lead: Lead | None = None


class AppendPosition(NamedTuple):
    """A follower acknowledges its log up to `log_position` to the leader of `leadership_term_id`; durable when sent."""

    leadership_term_id: int
    log_position: int
    follower_member_id: int
    flags: int = APPEND_FLAGS_NONE


class CommitPosition(NamedTuple):
    """The leader tells how far the log is committed; its heartbeat."""

    leadership_term_id: int
    log_position: int
    leader_member_id: int


class CatchupPosition(NamedTuple):
    """A follower asks the leader to replay the log from `log_position` to `catchup_endpoint` (host:port)."""

    leadership_term_id: int
    log_position: int
    follower_member_id: int
    catchup_endpoint: str


class StopCatchup(NamedTuple):
    """The leader tells a follower that its replay has ended."""

    leadership_term_id: int
    follower_member_id: int


class TerminationPosition(NamedTuple):
    """The leader tells followers to stop once they executed the log up to `log_position`."""

    leadership_term_id: int
    log_position: int


class TerminationAck(NamedTuple):
    """A follower has executed up to the termination position and leaves."""

    leadership_term_id: int
    log_position: int
    member_id: int


class TimeoutNow(NamedTuple):
    """The leader asks a member whose log reaches `log_position` to start an election at once (Raft §3.10)."""

    leadership_term_id: int
    log_position: int
    leader_member_id: int
    follower_member_id: int


class TrustRequest(NamedTuple):
    """A member that may not vote asks what it must know to be trusted again (consensus.handlers.trust)."""

    request_id: int
    member_id: int


class StandsBack(NamedTuple):
    """A member that votes, and asks for no leadership, because its service's state is in doubt.

    See consensus.handlers.trust.
    """

    member_id: int


class TrustAnswer(NamedTuple):
    """The answer to TrustRequest: the term the member is bound to; from a leader also the term it leads.

    `log_position` is at least the end of all that a leader has published; it is filled in when the message is encoded.
    Both are null from a member that does not lead.
    """

    request_id: int
    member_id: int
    candidate_term_id: int
    leadership_term_id: int
    log_position: int


class Introduction(NamedTuple):
    """A member names one of its configuration to members that may have an older one; `member` is text, with endpoints.

    It counts only in a stream that is proven to be of a member which the receiver knows.
    """

    member_id: int
    member: str


class ReadHeartbeat(NamedTuple):
    """A leader asks whether it still leads: an answer of a quorum confirms the reads of its round (§6.4)."""

    leadership_term_id: int
    round_id: int
    leader_member_id: int


class ReadHeartbeatAck(NamedTuple):
    """A member is bound to no higher term than the leader's, and follows it."""

    leadership_term_id: int
    round_id: int
    follower_member_id: int


class ReadIndexRequest(NamedTuple):
    """A follower asks its leader up to where its service must execute before it answers reads."""

    leadership_term_id: int
    request_id: int
    follower_member_id: int


class ReadIndexResponse(NamedTuple):
    """The answer: a position committed when the request arrived, or NULL_POSITION from a member that does not lead."""

    request_id: int
    log_position: int
    leader_member_id: int


ReadMessage = ReadHeartbeat | ReadHeartbeatAck | ReadIndexRequest | ReadIndexResponse
"""Messages of `ordo.consensus.read_index`."""

Message = (
    CanvassPosition
    | RequestVote
    | Vote
    | NewLeadershipTerm
    | AppendPosition
    | CommitPosition
    | CatchupPosition
    | StopCatchup
    | TerminationPosition
    | TerminationAck
    | TimeoutNow
    | TrustRequest
    | TrustAnswer
    | StandsBack
    | Introduction
    | ReadMessage
)

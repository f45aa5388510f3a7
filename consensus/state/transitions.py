"""Every change of a member's election state and its effects; when to change is decided elsewhere.

    INIT              enter_election (leave, for a follower), begin_truncation
    CANVASS           canvass
    NOMINATE          nominate
    CANDIDATE_BALLOT  stand
    FOLLOWER_BALLOT   await_candidate
    LEADER_INIT       become_leader
    LEADER_READY      announce_term
    FOLLOWER_CATCHUP  join (by way of CATCHUP_INIT to CATCHUP_AWAIT), catch_up
    CLOSED            serve (a leader), follow (by way of FOLLOWER_READY)

`ordo.consensus.state.states` has the table of what may follow what.
"""

from ordo.consensus.state.commands import ChangeRole, JoinLog, LeaveLog, PrepareLog, Transition, TruncateLog
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import NULL_MEMBER, NewLeadershipTerm
from ordo.consensus.state.states import TRANSITIONS, ElectionState, Role
from ordo.runtime.errors import ConsensusError
from ordo.runtime.native.sentinels import NULL_POSITION

KEEPS = (
    "This member keeps what it has, and ends: stop the cluster and compare the logs. To give up what the others lack,"
    " keep a copy of this member's folder, and start it with an empty one and `--rejoin`"
)


def transition(ctx: Context, new_state: ElectionState, reason: str) -> None:
    """Change the state, here and nowhere else; restart the state's timer and its periodic sends."""
    assert new_state in TRANSITIONS[ctx.state], f"{ctx.state.name} -> {new_state.name}: {reason}"
    ctx.emit(Transition(ctx.state, new_state, reason))
    if ctx.state is ElectionState.CANVASS:
        ctx.is_extended_canvass = False
    ctx.state = new_state
    ctx.state_since_ns = ctx.now_ns
    ctx.next_send_ns = ctx.now_ns


def become(ctx: Context, role: Role) -> None:
    """Change the role of this member; nothing else does."""
    if role is not ctx.role:
        ctx.role = role
        ctx.emit(ChangeRole(role))


# -- to INIT: giving up, and truncating ------------------------------------------------------------------------------


def enter_election(ctx: Context, reason: str) -> None:
    """Stop leading or following; the next tick looks for a leader again.

    In between, the shell reports where the log it leaves ends.
    """
    assert ctx.state is not ElectionState.INIT
    if ctx.log_is_open:
        ctx.log_is_open = False
        ctx.emit(LeaveLog(reason))
    ctx.progress.stop()
    ctx.termination_position = NULL_POSITION
    ctx.transfer_target_id = NULL_MEMBER
    ctx.trust_position = NULL_POSITION
    become(ctx, Role.FOLLOWER)
    transition(ctx, ElectionState.INIT, reason)


def leave(ctx: Context, reason: str) -> None:
    """Stop following; when the leader was last heard still counts in the election that begins."""
    ctx.last_leader_activity_ns = ctx.progress.last_leader_activity_ns
    ctx.quorum_candidate_at_ns = ctx.last_leader_activity_ns + ctx.config.leader_heartbeat_timeout_ns
    enter_election(ctx, reason)


def begin_truncation(ctx: Context, position: int, reason: str) -> None:
    """Order the removal of the part of this member's log that the leader's log does not have.

    Until that is done it waits in INIT, deaf to messages (Raft §5.3; cluster-consensus.md §9).

    Raises ConsensusError where something committed would be lost: then a Raft rule was broken, and the node must stop.
    """
    assert not ctx.log_is_open
    assert 0 <= position <= ctx.append_position, f"{position=} {ctx.append_position=}"
    committed_position = max(ctx.progress.commit_position, ctx.known_position)
    if position < committed_position:
        raise ConsensusError(
            f"refused to truncate the log to position={position}: up to {committed_position} it was committed, and"
            f" {reason} without that. {KEEPS}"
        )
    if ctx.state is not ElectionState.INIT:
        become(ctx, Role.FOLLOWER)
        transition(ctx, ElectionState.INIT, f"truncate from {ctx.append_position} to {position}: {reason}")
    ctx.pending_truncation = position
    ctx.emit(TruncateLog(position))


# -- looking for a leader --------------------------------------------------------------------------------------------


def canvass(ctx: Context, reason: str) -> None:
    """Forget the last election's positions and votes, and start announcing the own position."""
    for member in ctx.members.values():
        member.reset()
    ctx.refresh_own()
    become(ctx, Role.FOLLOWER)
    transition(ctx, ElectionState.CANVASS, reason)


def nominate(ctx: Context, at_ns: int, reason: str) -> None:
    """Let this member stand for election at a given time."""
    ctx.nominate_at_ns = at_ns
    transition(ctx, ElectionState.NOMINATE, reason)


def stand(ctx: Context) -> None:
    """Be a candidate in a new term, with a vote for oneself."""
    assert ctx.may_stand
    ctx.open_term()
    ctx.own.candidate_term_id = ctx.candidate_term_id
    ctx.own.vote = True
    become(ctx, Role.CANDIDATE)
    transition(ctx, ElectionState.CANDIDATE_BALLOT, f"nominated for term {ctx.candidate_term_id}")


def await_candidate(ctx: Context) -> None:
    """Wait for the member that got this one's vote to lead."""
    assert ctx.voted_for not in (NULL_MEMBER, ctx.own.member_id)
    become(ctx, Role.FOLLOWER)
    reason = f"voted for member {ctx.voted_for} in term {ctx.candidate_term_id}"
    transition(ctx, ElectionState.FOLLOWER_BALLOT, reason)


# -- leading ---------------------------------------------------------------------------------------------------------


def become_leader(ctx: Context, reason: str) -> None:
    """Win the election: have the log of the new term prepared at the end of this member's log."""
    assert not ctx.log_is_open
    assert ctx.candidate_term_id > ctx.log_term_id
    assert ctx.voted_for == ctx.own.member_id
    ctx.leadership_term_id = ctx.candidate_term_id
    ctx.term_base_position = ctx.append_position
    ctx.is_leader_startup = ctx.is_startup
    ctx.progress.lead(ctx.leadership_term_id, ctx.now_ns)
    ctx.forget_leader()
    ctx.last_quorum_ns = ctx.now_ns
    ctx.log_is_open = True
    transition(ctx, ElectionState.LEADER_INIT, reason)
    become(ctx, Role.LEADER)
    ctx.emit(PrepareLog(ctx.leadership_term_id, ctx.term_base_position))


def announce_term(ctx: Context, log_session_id: int, first_record_end: int) -> None:
    """Tell all members that this one leads, now that the log publication exists."""
    ctx.log_session_id = log_session_id
    ctx.progress.first_record_end = first_record_end
    transition(ctx, ElectionState.LEADER_READY, f"log session {log_session_id}")


def serve(ctx: Context) -> None:
    """End the election for the leader, as its term's first record is committed."""
    assert ctx.progress.commit_position >= ctx.progress.first_record_end
    ctx.is_startup = False
    transition(ctx, ElectionState.CLOSED, f"term {ctx.leadership_term_id} is on a quorum")


# -- following -------------------------------------------------------------------------------------------------------


def join(ctx: Context, message: NewLeadershipTerm, reason: str) -> None:
    """Have the rest of the leader's log copied, of which this member's log is a prefix."""
    assert not ctx.log_is_open
    assert not ctx.has_unwritten_term
    leadership_term_id, leader_id = message.leadership_term_id, message.leader_member_id
    ctx.leadership_term_id = leadership_term_id
    ctx.term_base_position = message.term_base_log_position
    ctx.log_session_id = message.log_session_id
    ctx.is_leader_startup = message.is_startup
    ctx.progress.follow(leadership_term_id, leader_id, ctx.now_ns)
    ctx.progress.commit_notified(leadership_term_id, message.commit_position, leader_id, ctx.now_ns)
    ctx.log_is_open = True
    transition(ctx, ElectionState.FOLLOWER_CATCHUP_INIT, reason)
    become(ctx, Role.FOLLOWER)
    leader_position = ctx.joined_end_position = max(message.log_position, ctx.append_position)
    ctx.emit(JoinLog(leadership_term_id, leader_id, message.log_session_id, ctx.append_position, leader_position))
    transition(ctx, ElectionState.FOLLOWER_CATCHUP_AWAIT, f"from position {ctx.append_position}")


def catch_up(ctx: Context) -> None:
    """Receive what the follower lacks, after the log is joined."""
    transition(ctx, ElectionState.FOLLOWER_CATCHUP, f"joined at position {ctx.append_position}")


def follow(ctx: Context) -> None:
    """End the election for this follower, as the live log arrives."""
    transition(ctx, ElectionState.FOLLOWER_READY, f"live at position {ctx.append_position}")
    ctx.is_startup = False
    transition(ctx, ElectionState.CLOSED, f"follows member {ctx.progress.leader_member_id}")

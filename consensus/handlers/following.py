"""Following: accepting a leader, joining its log, and acknowledging what is durable (Raft §5.3, §5.4)."""

from ordo.consensus.handlers import leads, trust
from ordo.consensus.handlers.verification import Verdict, compare_with_leader
from ordo.consensus.state import commands, transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import (
    APPEND_FLAGS_CATCHUP,
    APPEND_FLAGS_NONE,
    NULL_MEMBER,
    AppendPosition,
    CanvassPosition,
    CommitPosition,
    NewLeadershipTerm,
)
from ordo.consensus.state.states import ELECTING_STATES, ElectionState
from ordo.runtime.errors import ConsensusError


def on_new_leadership_term(ctx: Context, message: NewLeadershipTerm) -> None:
    """Handle the announcement of a leader, depending on what this member is doing.

    One that may be bound to a term it has forgotten acknowledges to nobody.
    """
    leadership_term_id = message.leadership_term_id
    if leadership_term_id < ctx.candidate_term_id or Distrust.VOTE in ctx.distrust:
        return
    if ctx.state in ELECTING_STATES:
        accept_leader(ctx, message)
    elif leadership_term_id > ctx.leadership_term_id:
        ctx.note_term(leadership_term_id)
        transitions.enter_election(ctx, f"member {message.leader_member_id} leads term {leadership_term_id}")
    elif message.leader_member_id != ctx.progress.leader_member_id:
        raise ConsensusError(
            f"members {message.leader_member_id} and {ctx.progress.leader_member_id} both lead term"
            f" {leadership_term_id}: a member lost its durable vote; stop the cluster and compare the logs"
        )
    elif message.log_session_id != ctx.log_session_id and ctx.is_following:
        leave_former(ctx, f"member {message.leader_member_id} leads term {leadership_term_id} with another log")
    else:
        ctx.progress.commit_notified(leadership_term_id, message.commit_position, message.leader_member_id, ctx.now_ns)


def on_restarted(ctx: Context, member_id: int) -> None:
    """Leave a leader whose process has started again: what it is told to have committed is of another log."""
    if ctx.is_following and member_id == ctx.progress.leader_member_id:
        leave_former(ctx, f"leader member {member_id} has started again")


def leave_former(ctx: Context, reason: str) -> None:
    """Leave a leader that is known to lead no longer; the one that leads now is judged by this member's log."""
    transitions.leave(ctx, reason)
    ctx.forget_leader()


def accept_leader(ctx: Context, message: NewLeadershipTerm) -> None:
    """Join the leader if this member's log is a prefix of its log; else mend this one first, or ask again."""
    if message.leader_member_id == ctx.graceful_leader_id:
        ctx.graceful_leader_id = NULL_MEMBER
    ctx.hear_leader()
    ctx.raise_candidate_term(message.leadership_term_id)
    leads.demand_one_lead(ctx, message)
    verdict, position = compare_with_leader(ctx.terms, ctx.append_position, message)
    leader = f"member {message.leader_member_id} leads term {message.leadership_term_id}"
    if verdict is Verdict.PREFIX:
        leads.learn_lead(ctx, message)
        transitions.join(ctx, message, leader)
        note_progress(ctx)
        send_append_position(ctx)
    elif verdict is Verdict.TRUNCATE:
        transitions.begin_truncation(ctx, position, leader)
    elif verdict is Verdict.OUT_OF_REACH:
        raise ConsensusError(
            f"own log ends in term {ctx.log_term_id}, before the first term the leader knows,"
            f" {message.next_leadership_term_id} at {message.next_term_base_log_position}:"
            " restore this member from a peer"
        )
    elif ctx.state is not ElectionState.CANVASS:
        transitions.canvass(ctx, leader)


def note_progress(ctx: Context) -> None:
    """Extend the time for joining by another leader heartbeat timeout, since it makes progress."""
    ctx.progress_deadline_ns = ctx.now_ns + ctx.config.leader_heartbeat_timeout_ns


def on_joined(ctx: Context, position: int) -> None:
    """Begin catching up when the replay from the end of this member's log arrives."""
    if ctx.state is not ElectionState.FOLLOWER_CATCHUP_AWAIT:
        return
    if position != ctx.append_position:
        raise ConsensusError(f"joined the log at position={position}, this member's log ends at {ctx.append_position}")
    transitions.catch_up(ctx)
    note_progress(ctx)
    tick_following(ctx)


def on_live(ctx: Context) -> None:
    """End the election for this member when the live log arrives."""
    if ctx.state is not ElectionState.FOLLOWER_CATCHUP:
        return
    transitions.follow(ctx)
    send_append_position(ctx)


def tick_following(ctx: Context) -> None:
    """Leave the leader if it or its log fell silent; otherwise commit and acknowledge."""
    assert ctx.is_following
    reason = find_reason_to_leave(ctx)
    if reason:
        transitions.leave(ctx, reason)
        return
    ctx.progress.advance_follower_commit(ctx.append_position)
    ctx.announce_commit()
    trust.regain_log(ctx)
    trust.send_trust_request(ctx)
    progress = ctx.progress
    is_due = ctx.now_ns >= progress.last_sent_ns + ctx.config.leader_heartbeat_interval_ns
    if is_due or ctx.append_position > progress.last_sent_position:
        send_append_position(ctx)


def find_reason_to_leave(ctx: Context) -> str:
    """Return why this member must not follow any longer, or an empty string."""
    higher_term_id = ctx.progress.higher_term_seen
    if higher_term_id > ctx.leadership_term_id:
        ctx.note_term(higher_term_id)
        return f"term {higher_term_id} was seen"
    silent_since_ns = ctx.progress.last_leader_activity_ns
    if ctx.now_ns >= silent_since_ns + ctx.config.leader_heartbeat_timeout_ns and not ctx.is_terminating:
        return "leader heartbeat timeout"
    if not ctx.is_closed and ctx.now_ns >= ctx.progress_deadline_ns:
        return "no progress in joining the log"
    return ""


def send_append_position(ctx: Context) -> None:
    """Acknowledge this member's durable log to the leader."""
    flags = APPEND_FLAGS_NONE if ctx.is_closed else APPEND_FLAGS_CATCHUP
    message = AppendPosition(ctx.leadership_term_id, ctx.append_position, ctx.own.member_id, flags)
    ctx.send(ctx.progress.leader_member_id, message)
    ctx.progress.sent(ctx.append_position, ctx.now_ns)


def on_commit_position(ctx: Context, message: CommitPosition) -> None:
    """Handle the leader's heartbeat, which says how far the log is committed."""
    if not (ctx.is_following or ctx.is_leading):
        return
    ctx.progress.commit_notified(message.leadership_term_id, message.log_position, message.leader_member_id, ctx.now_ns)


def on_canvass(ctx: Context, message: CanvassPosition) -> None:
    """Leave a leader that canvasses, bound to its own term or a higher one.

    It has given up, so its timeout need not pass.

    Anybody else is told who leads: the log of a member that was away may not name the leader, or name its removal.
    """
    leader_id = ctx.progress.leader_member_id
    if message.follower_member_id != leader_id:
        if ctx.is_closed and leader_id in ctx.configuration.member_ids:
            ctx.emit(commands.Introduce(message.follower_member_id, leader_id))
    elif message.leadership_term_id >= ctx.leadership_term_id:
        leave_former(ctx, f"leader member {leader_id} looks for a leader")


def on_log_lost(ctx: Context, reason: str, end_of_stream: bool) -> None:
    """Handle the end of the leader's log; an end of stream means that the leader has closed."""
    leader_id = ctx.progress.leader_member_id
    transitions.leave(ctx, reason)
    if end_of_stream:
        ctx.graceful_leader_id = leader_id
        ctx.forget_leader()

"""Leading: opening a term, announcing it, committing, and giving up (Raft §5.3, §5.4.2, §6.2)."""

from ordo.consensus.handlers import transfer
from ordo.consensus.handlers.termination import tick_termination
from ordo.consensus.state import transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import CanvassPosition, CommitPosition, Lead, NewLeadershipTerm
from ordo.consensus.state.quorum import Member
from ordo.consensus.state.states import ElectionState
from ordo.consensus.state.term_table import Bracket, TermTable
from ordo.runtime.errors import ConsensusError
from ordo.runtime.native.sentinels import NULL_POSITION


def on_log_ready(ctx: Context, log_session_id: int, first_record_end: int) -> None:
    """Announce the term: the log publication exists and the term's first record is appended."""
    if ctx.state is not ElectionState.LEADER_INIT:
        return
    if first_record_end <= ctx.term_base_position:
        raise ConsensusError(
            f"first_record_end={first_record_end} must lie beyond the term's base {ctx.term_base_position}"
        )
    transitions.announce_term(ctx, log_session_id, first_record_end)
    tick_leading(ctx)


def tick_leading(ctx: Context) -> None:
    """Give up office if leadership was lost; otherwise commit and tell the followers."""
    assert ctx.is_leading
    reason = find_reason_to_give_up(ctx)
    if reason:
        transitions.enter_election(ctx, reason)
        return
    if ctx.state is ElectionState.LEADER_INIT:
        return
    commit_position = ctx.progress.advance_leader_commit(ctx.append_position, ctx.now_ns)
    ctx.announce_commit()
    if ctx.state is ElectionState.LEADER_READY and commit_position >= ctx.progress.first_record_end:
        if not ctx.is_voter:
            transitions.enter_election(ctx, "the end of the own vote is committed")
            return
        if ctx.is_in_doubt:
            transitions.enter_election(ctx, "the others have its log, and its service's state is in doubt")
            return
        transitions.serve(ctx)
    send_new_leadership_terms(ctx)
    send_commit_position(ctx)
    tick_termination(ctx)
    transfer.tick_transfer(ctx)


def find_reason_to_give_up(ctx: Context) -> str:
    """Return why this member must not lead any longer, or an empty string."""
    timeout_ns = ctx.config.leader_heartbeat_timeout_ns
    higher_term_id = ctx.progress.higher_term_seen
    if higher_term_id > ctx.leadership_term_id:
        ctx.note_term(higher_term_id)
        return f"term {higher_term_id} was seen"
    if ctx.state is ElectionState.LEADER_INIT and ctx.now_ns >= ctx.state_since_ns + timeout_ns:
        return "log was not ready in time"
    if ctx.progress.quorum_is_active(ctx.now_ns):
        ctx.last_quorum_ns = ctx.now_ns
    elif ctx.now_ns >= ctx.last_quorum_ns + timeout_ns and not ctx.is_terminating:
        return "no active quorum"
    return ""


def send_new_leadership_terms(ctx: Context) -> None:
    """Announce the term, once per interval: to all until it is established, then to those that have not joined."""
    if ctx.now_ns < ctx.next_send_ns:
        return
    ctx.next_send_ns = ctx.now_ns + ctx.config.leader_heartbeat_interval_ns
    for member in ctx.others():
        has_joined = ctx.progress.member_position(member.member_id) != NULL_POSITION
        if not (has_joined and ctx.is_closed and ctx.progress.is_active(member.member_id, ctx.now_ns)):
            ctx.send(member.member_id, own_announcement(ctx, member))


def send_commit_position(ctx: Context) -> None:
    """Send the heartbeat of an established leader: on every new commit position, and once per interval."""
    progress = ctx.progress
    is_new = progress.commit_position > progress.last_sent_position
    is_due = ctx.now_ns >= progress.last_sent_ns + ctx.config.leader_heartbeat_interval_ns
    if ctx.is_closed and (is_new or is_due):
        ctx.broadcast(CommitPosition(ctx.leadership_term_id, progress.commit_position, ctx.own.member_id))
        progress.sent(progress.commit_position, ctx.now_ns)


def own_bracket(ctx: Context, leadership_term_id: int) -> Bracket:
    """Return the rows of the leader's table around a term; the current term counts from its base on, durable or not."""
    terms = TermTable(ctx.terms.rows)
    if terms.last_term_id != ctx.leadership_term_id:
        terms.append(ctx.leadership_term_id, ctx.term_base_position)
    return terms.bracket(leadership_term_id)


def own_announcement(ctx: Context, member: Member) -> NewLeadershipTerm:
    """Return the NewLeadershipTerm for one member, which answers the last log term that it reported."""
    told = member.reported_log_term_id
    asked_term_id = ctx.terms.term_before(ctx.term_base_position) if told is None else told
    bracket = own_bracket(ctx, min(asked_term_id, ctx.leadership_term_id))
    return NewLeadershipTerm(
        log_leadership_term_id=bracket.leadership_term_id,
        next_leadership_term_id=bracket.next_term_id,
        next_term_base_log_position=bracket.next_base_position,
        next_log_position=bracket.end_position,
        leadership_term_id=ctx.leadership_term_id,
        term_base_log_position=ctx.term_base_position,
        log_position=ctx.append_position,
        leader_recording_id=-1,
        timestamp=0,
        leader_member_id=ctx.own.member_id,
        log_session_id=ctx.log_session_id,
        app_version=ctx.config.app_version,
        is_startup=ctx.is_leader_startup,
        commit_position=ctx.progress.commit_position,
        log_lead=find_log_lead(ctx, bracket.leadership_term_id),
    )


def find_log_lead(ctx: Context, leadership_term_id: int) -> Lead | None:
    """Return who led an earlier term of the leader's log; of its own term the announcement says it anyway."""
    return None if leadership_term_id == ctx.leadership_term_id else ctx.terms.lead_of(leadership_term_id)


def on_canvass(ctx: Context, member: Member, message: CanvassPosition) -> None:
    """Answer a member that looks for a leader; give up if it can never follow this term (Raft §5.1).

    One that was removed does not disturb (§4.2.3), but is answered: from the log it learns that it was.
    """
    bound_to = max(message.leadership_term_id, message.log_leadership_term_id)
    if bound_to > ctx.leadership_term_id:
        ctx.note_term(bound_to)
        if member.member_id not in ctx.configuration.member_ids:
            return
        transitions.enter_election(ctx, f"member {member.member_id} is bound to term {bound_to}")
        return
    ctx.progress.touch(member.member_id, ctx.now_ns)
    if ctx.state is not ElectionState.LEADER_INIT:
        ctx.send(member.member_id, own_announcement(ctx, member))


def on_log_lost(ctx: Context, reason: str) -> None:
    """Give up office when the leader's own log cannot be published or recorded any longer."""
    transitions.enter_election(ctx, reason)

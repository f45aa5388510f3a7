"""Handing the leadership to a chosen member without waiting for a timeout (Raft §3.10, dissertation).

    leader      stops taking records; when the target has its whole log, asks it to stand: TimeoutNow, repeated
    target      leaves the log and stands in the next term at once, with a flag that the leader wants it so
    voters      leave their leader for a flagged candidate whose log is not older than their own, and vote

The flag suspends only what keeps a candidate from disturbing a live leader (§4.2.3); logs and terms decide as ever. A
leader that is still in office when the election timeout has passed takes records again.
"""

from ordo.consensus.state import transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import NULL_MEMBER, RequestVote, TimeoutNow
from ordo.consensus.state.quorum import compare_log
from ordo.runtime.native.sentinels import NULL_POSITION


def begin_transfer(ctx: Context, target_id: int | None, end_position: int) -> bool:
    """Have another member lead next, as the serving leader.

    Returns False, with nothing changed, when that cannot be.
    """
    if not (ctx.is_leading and ctx.is_closed) or ctx.is_terminating or ctx.is_transferring:
        return False
    candidates = [member.member_id for member in ctx.others() if can_lead(ctx, member.member_id)]
    if target_id is None and candidates:
        target_id = max(candidates, key=lambda member_id: (ctx.progress.member_position(member_id), -member_id))
    if target_id not in candidates:
        return False
    assert target_id is not None
    ctx.transfer_target_id = target_id
    ctx.transfer_position = end_position
    ctx.transfer_deadline_ns = ctx.now_ns + ctx.config.election_timeout_ns
    ctx.transfer_send_ns = ctx.now_ns
    return True


def can_lead(ctx: Context, member_id: int) -> bool:
    """Return whether a member is a voter that may stand for election, was heard lately, and has joined this term."""
    is_joined = ctx.progress.member_position(member_id) != NULL_POSITION
    is_allowed = ctx.config.appointed_leader_id in (NULL_MEMBER, member_id)
    is_allowed = is_allowed and member_id in ctx.configuration.voter_ids
    member = ctx.members[member_id]
    is_allowed = is_allowed and not (ctx.is_distrusted(member) or ctx.has_stood_back(member))
    return is_allowed and is_joined and ctx.progress.is_active(member_id, ctx.now_ns)


def tick_transfer(ctx: Context) -> None:
    """As leader, ask the target to be a candidate, once per interval as soon as it has the whole log.

    It gives up at the deadline.
    """
    if not ctx.is_transferring:
        return
    if ctx.now_ns >= ctx.transfer_deadline_ns:
        ctx.transfer_target_id = NULL_MEMBER
        return
    target_id, position = ctx.transfer_target_id, ctx.transfer_position
    if ctx.now_ns >= ctx.transfer_send_ns and ctx.progress.member_position(target_id) >= position:
        ctx.transfer_send_ns = ctx.now_ns + ctx.config.election_status_interval_ns
        ctx.send(target_id, TimeoutNow(ctx.leadership_term_id, position, ctx.own.member_id, target_id))


def on_timeout_now(ctx: Context, message: TimeoutNow) -> None:
    """Stand for election, as a follower, as soon as the log is left.

    Ignored unless the request comes from the own leader.
    """
    is_from_leader = (
        ctx.is_following
        and ctx.is_closed
        and message.leadership_term_id == ctx.leadership_term_id
        and message.leader_member_id == ctx.progress.leader_member_id
        and message.follower_member_id == ctx.own.member_id
    )
    may_stand = ctx.may_stand and not ctx.is_in_doubt
    if not (is_from_leader and may_stand) or message.log_position > ctx.append_position or ctx.is_terminating:
        return
    transitions.leave(ctx, f"leader member {message.leader_member_id} hands over")
    ctx.stands_at_once = True


def on_request_vote(ctx: Context, message: RequestVote) -> None:
    """Give way to a candidate that the leader has asked to stand; vote once the log is left."""
    if not ctx.may_vote or message.candidate_term_id <= ctx.candidate_term_id or ctx.is_terminating:
        return
    if ctx.is_leading and message.candidate_member_id not in ctx.configuration.voter_ids:
        return
    own_is_newer = compare_log(
        ctx.log_term_id, ctx.append_position, message.log_leadership_term_id, message.log_position
    )
    if own_is_newer > 0:
        return
    reason = f"member {message.candidate_member_id} was asked to lead"
    if ctx.is_following:
        transitions.leave(ctx, reason)
    else:
        transitions.enter_election(ctx, reason)
    ctx.transfer_request = message

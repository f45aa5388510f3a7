"""Stopping the whole cluster at one position (cluster-consensus.md §20)."""

from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import TerminationAck, TerminationPosition
from ordo.runtime.errors import ConsensusError
from ordo.runtime.native.sentinels import NULL_POSITION


def begin_termination(ctx: Context, position: int) -> None:
    """Tell the followers, as the leader, to stop at `position`, and give them the termination timeout."""
    if not (ctx.is_leading and ctx.is_closed):
        raise ConsensusError(f"only the serving leader begins a termination; this member is {ctx.role.name}")
    for member in ctx.members.values():
        member.is_terminated = False
    ctx.termination_position = position
    ctx.termination_deadline_ns = ctx.now_ns + ctx.config.termination_timeout_ns
    send_termination_position(ctx)


def send_termination_position(ctx: Context) -> None:
    """Tell the followers where to stop, once per interval, since any message may be lost."""
    ctx.termination_send_ns = ctx.now_ns + ctx.config.leader_heartbeat_interval_ns
    for member in ctx.others():
        if not member.is_terminated:
            ctx.send(member.member_id, TerminationPosition(ctx.leadership_term_id, ctx.termination_position))


def tick_termination(ctx: Context) -> None:
    """Repeat the order, as the leader, while a follower has not left."""
    if ctx.is_terminating and ctx.now_ns >= ctx.termination_send_ns:
        send_termination_position(ctx)


def on_termination_position(ctx: Context, message: TerminationPosition) -> None:
    """Remember, as a follower, where to stop; the order is a sign of life as well."""
    if ctx.is_following and message.leadership_term_id == ctx.leadership_term_id:
        ctx.termination_position = message.log_position
        ctx.progress.commit_notified(ctx.leadership_term_id, NULL_POSITION, ctx.progress.leader_member_id, ctx.now_ns)


def acknowledge_termination(ctx: Context, position: int) -> None:
    """Acknowledge, as a follower, that everything up to the termination position is executed.

    The services have stopped by then.
    """
    if ctx.is_following and ctx.is_terminating and position >= ctx.termination_position:
        ctx.send(ctx.progress.leader_member_id, TerminationAck(ctx.leadership_term_id, position, ctx.own.member_id))


def on_termination_ack(ctx: Context, message: TerminationAck) -> None:
    """Note, as the leader, that a follower has executed everything and ended."""
    is_valid = ctx.is_leading and ctx.is_terminating and message.leadership_term_id == ctx.leadership_term_id
    if is_valid and message.log_position >= ctx.termination_position:
        ctx.members[message.member_id].is_terminated = True


def termination_is_complete(ctx: Context) -> bool:
    """Return, for the leader, whether all followers have left or the deadline has passed."""
    if not (ctx.is_leading and ctx.is_terminating):
        return False
    return ctx.now_ns >= ctx.termination_deadline_ns or all(member.is_terminated for member in ctx.others())

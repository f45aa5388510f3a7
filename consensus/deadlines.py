"""Deadlines: when a member next has something to do if no message arrives before."""

from collections.abc import Callable

from ordo.consensus.state.context import Context
from ordo.consensus.state.states import ElectionState
from ordo.runtime.native.sentinels import NULL_POSITION

FAR_FUTURE_NS = (1 << 63) - 1
TRANSFER_TICK_NS = 1_000_000
"""Acknowledgements that a leader waits for may have come past the core."""


def next_deadline_ns(ctx: Context) -> int:
    """Return when the next tick has something to do, at the latest (ns)."""
    if ctx.state is ElectionState.INIT:
        return ctx.now_ns if ctx.pending_truncation == NULL_POSITION else FAR_FUTURE_NS
    return min(DEADLINES[ctx.state](ctx))


def leader_deadlines(ctx: Context) -> tuple[int, ...]:
    """Return when a leader next announces itself, and when it next sends its heartbeat (ns)."""
    interval_ns = ctx.config.leader_heartbeat_interval_ns
    if ctx.state is ElectionState.LEADER_INIT:
        return (ctx.state_since_ns + ctx.config.leader_heartbeat_timeout_ns,)
    if ctx.state is ElectionState.LEADER_READY or not ctx.others():
        return (ctx.next_send_ns,)
    if ctx.is_transferring:
        transfer_ns = max(ctx.transfer_send_ns, ctx.now_ns + TRANSFER_TICK_NS)
        return ctx.next_send_ns, ctx.progress.last_sent_ns + interval_ns, ctx.transfer_deadline_ns, transfer_ns
    return ctx.next_send_ns, ctx.progress.last_sent_ns + interval_ns


def follower_deadlines(ctx: Context) -> tuple[int, ...]:
    """Return when the follower next acknowledges and when the leader times out, in ns.

    While joining, the deadline for progress is among them.
    """
    progress, config = ctx.progress, ctx.config
    acknowledge_ns = progress.last_sent_ns + config.leader_heartbeat_interval_ns
    leader_timeout_ns = progress.last_leader_activity_ns + config.leader_heartbeat_timeout_ns
    if ctx.is_closed:
        return acknowledge_ns, leader_timeout_ns
    return acknowledge_ns, leader_timeout_ns, ctx.progress_deadline_ns


def serving_deadlines(ctx: Context) -> tuple[int, ...]:
    """Return the deadlines of a member that serves in its current role."""
    return leader_deadlines(ctx) if ctx.is_leading else follower_deadlines(ctx)


def ballot_deadlines(ctx: Context) -> tuple[int, ...]:
    """Return when a candidate asks for votes next, and when its ballot ends."""
    end_ns = ctx.state_since_ns + ctx.config.election_timeout_ns
    return (end_ns, ctx.next_send_ns) if ctx.state is ElectionState.CANDIDATE_BALLOT else (end_ns,)


DEADLINES: dict[ElectionState, Callable[[Context], tuple[int, ...]]] = {
    ElectionState.CANVASS: lambda ctx: (ctx.next_send_ns,),
    ElectionState.NOMINATE: lambda ctx: (ctx.next_send_ns, ctx.nominate_at_ns),
    ElectionState.CANDIDATE_BALLOT: ballot_deadlines,
    ElectionState.FOLLOWER_BALLOT: ballot_deadlines,
    ElectionState.LEADER_INIT: leader_deadlines,
    ElectionState.LEADER_READY: leader_deadlines,
    ElectionState.FOLLOWER_CATCHUP_INIT: follower_deadlines,
    ElectionState.FOLLOWER_CATCHUP_AWAIT: follower_deadlines,
    ElectionState.FOLLOWER_CATCHUP: follower_deadlines,
    ElectionState.FOLLOWER_READY: follower_deadlines,
    ElectionState.CLOSED: serving_deadlines,
}
"""The deadlines of each state."""

"""Dispatch of each message and tick to its handler, by role and state of this member."""

from collections.abc import Callable
from typing import Any

from ordo.consensus.handlers import election, following, leading, termination, transfer, trust
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import (
    NULL_MEMBER,
    AppendPosition,
    CanvassPosition,
    CatchupPosition,
    CommitPosition,
    Introduction,
    Message,
    NewLeadershipTerm,
    ReadHeartbeat,
    ReadHeartbeatAck,
    ReadIndexRequest,
    ReadIndexResponse,
    RequestVote,
    StandsBack,
    StopCatchup,
    TerminationAck,
    TerminationPosition,
    TimeoutNow,
    TrustAnswer,
    TrustRequest,
    Vote,
)
from ordo.consensus.state.states import ElectionState


def tick(ctx: Context) -> None:
    """Do what has become due by the given time."""
    if ctx.is_leading:
        leading.tick_leading(ctx)
    elif ctx.is_following:
        following.tick_following(ctx)
    else:
        TICKS[ctx.state](ctx)


def on_message(ctx: Context, message: Message) -> None:
    """Pass a message to its handler. Messages of strangers, echoes, and all messages during INIT are ignored."""
    handler, sender_field = HANDLERS[type(message)]
    if ctx.state is ElectionState.INIT or handler is None:
        return
    if not sender_field:
        handler(ctx, message)
        return
    sender_id = getattr(message, sender_field)
    if ctx.is_heard(sender_id) and not (isinstance(message, OF_MEMBERS_ONLY) and ctx.is_removed_member(sender_id)):
        handler(ctx, message)


def on_canvass_position(ctx: Context, message: CanvassPosition) -> None:
    """Handle a CanvassPosition by role: as a leader, as a follower, or as another member that looks for a leader."""
    member = ctx.members[message.follower_member_id]
    member.reported_log_term_id = message.log_leadership_term_id
    if member.member_id == ctx.graceful_leader_id:
        ctx.graceful_leader_id = NULL_MEMBER
    if ctx.is_leading:
        leading.on_canvass(ctx, member, message)
    elif ctx.is_following:
        following.on_canvass(ctx, message)
    else:
        election.on_canvass(ctx, message)


def on_request_vote(ctx: Context, message: RequestVote) -> None:
    """Handle a candidate's request for a vote.

    While there is a leader, only a candidate that the leader asked to stand is listened to.
    """
    if message.is_transfer and (ctx.is_leading or ctx.is_following):
        transfer.on_request_vote(ctx, message)
    else:
        election.on_request_vote(ctx, message)


def on_log_lost(ctx: Context, reason: str, end_of_stream: bool) -> None:
    """Handle the loss of the log publication, the image or its recording, by role."""
    if ctx.is_following:
        following.on_log_lost(ctx, reason, end_of_stream)
    elif ctx.is_leading:
        leading.on_log_lost(ctx, reason)


def on_append_position(ctx: Context, message: AppendPosition) -> None:
    """Count a follower's acknowledgement, if it is of this leader's term."""
    if ctx.is_leading:
        ctx.progress.append_position_received(
            message.follower_member_id, message.leadership_term_id, message.log_position, ctx.now_ns
        )
        leading.tick_leading(ctx)


def on_commit_position(ctx: Context, message: CommitPosition) -> None:
    """Take the leader's commit position, or learn of a higher term."""
    following.on_commit_position(ctx, message)
    if ctx.is_following:
        following.tick_following(ctx)
    elif ctx.is_leading:
        leading.tick_leading(ctx)


Handler = Callable[[Context, Any], None]

HANDLERS: dict[type[Any], tuple[Handler | None, str]] = {
    CanvassPosition: (on_canvass_position, "follower_member_id"),
    RequestVote: (on_request_vote, "candidate_member_id"),
    Vote: (election.on_vote, "follower_member_id"),
    NewLeadershipTerm: (following.on_new_leadership_term, "leader_member_id"),
    AppendPosition: (on_append_position, "follower_member_id"),
    CommitPosition: (on_commit_position, "leader_member_id"),
    TerminationPosition: (termination.on_termination_position, ""),
    TerminationAck: (termination.on_termination_ack, "member_id"),
    TimeoutNow: (transfer.on_timeout_now, "leader_member_id"),
    TrustRequest: (trust.on_trust_request, "member_id"),
    TrustAnswer: (trust.on_trust_answer, "member_id"),
    StandsBack: (trust.on_stands_back, "member_id"),
    CatchupPosition: (None, "follower_member_id"),
    StopCatchup: (None, "follower_member_id"),
    Introduction: (None, "member_id"),
    ReadHeartbeat: (None, "leader_member_id"),
    ReadHeartbeatAck: (None, "follower_member_id"),
    ReadIndexRequest: (None, "follower_member_id"),
    ReadIndexResponse: (None, "leader_member_id"),
}
"""The handler of each message, and the field that names its sender. Messages without a handler are for the shell."""

OF_MEMBERS_ONLY = (RequestVote, Vote, NewLeadershipTerm, CommitPosition, TimeoutNow, TrustAnswer)
"""Messages that do not count when a removed member sends them. Its CanvassPosition still does: the leader's answer
tells it that it was removed."""

TICKS: dict[ElectionState, Callable[[Context], None]] = {
    ElectionState.INIT: election.tick_init,
    ElectionState.CANVASS: election.tick_canvass,
    ElectionState.NOMINATE: election.tick_nominate,
    ElectionState.CANDIDATE_BALLOT: election.tick_candidate_ballot,
    ElectionState.FOLLOWER_BALLOT: election.tick_follower_ballot,
}
"""What a member without a leader does as time passes."""

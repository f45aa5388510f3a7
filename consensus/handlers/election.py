"""Canvass, nomination and ballot: how a leader is found (cluster-consensus.md §5; Raft §5.2, §5.4.1, §9.6)."""

from ordo.consensus.handlers import trust
from ordo.consensus.state import transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import NULL_MEMBER, CanvassPosition, RequestVote, Vote
from ordo.consensus.state.quorum import (
    NEVER_NS,
    Member,
    compare_log,
    have_all_answered,
    is_only_candidate,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
)
from ordo.consensus.state.states import ELECTING_STATES, ElectionState
from ordo.runtime.native.sentinels import NULL_POSITION


def tick_init(ctx: Context) -> None:
    """Leave the state INIT: a single voter leads at once, all others canvass."""
    assert ctx.state is ElectionState.INIT
    if ctx.pending_truncation != NULL_POSITION:
        return
    stands_at_once, ctx.stands_at_once = ctx.stands_at_once, False
    request, ctx.transfer_request = ctx.transfer_request, None
    if ctx.has_unwritten_term:
        transitions.begin_truncation(ctx, ctx.append_position, "a term whose first record was lost")
    elif not (ctx.may_stand and ctx.is_only_voter):
        transitions.canvass(ctx, "looking for a leader")
        if stands_at_once:
            transitions.nominate(ctx, ctx.now_ns, "asked by the leader")
            stand(ctx, is_transfer=True)
        elif request is not None:
            on_request_vote(ctx, request)
        else:
            tick_canvass(ctx)
    else:
        ctx.open_term()
        transitions.become_leader(ctx, "single voter")


# -- canvass and nomination ------------------------------------------------------------------------------------------


def canvass_deadline_ns(ctx: Context) -> int:
    """Return when a quorum of positions is enough to stand for election (ns)."""
    if ctx.is_extended_canvass:
        return ctx.state_since_ns + ctx.config.startup_canvass_timeout_ns
    return ctx.quorum_candidate_at_ns


def last_resort_ns(ctx: Context) -> int:
    """Return when a member that stands back becomes a candidate all the same (ns).

    Nobody else came forward, so its log must be the newest.
    """
    patience_ns = ctx.config.leader_heartbeat_timeout_ns + ctx.config.election_timeout_ns
    return max(canvass_deadline_ns(ctx), ctx.state_since_ns) + patience_ns


def send_canvass(ctx: Context) -> None:
    """Tell all members where this member's log ends, once per interval."""
    trust.send_trust_request(ctx)
    if ctx.now_ns >= ctx.next_send_ns:
        ctx.next_send_ns = ctx.now_ns + ctx.config.election_status_interval_ns
        ctx.broadcast(own_canvass(ctx))


def own_canvass(ctx: Context) -> CanvassPosition:
    """Return the end of this member's log, and the term this member is bound to."""
    return CanvassPosition(ctx.log_term_id, ctx.append_position, ctx.candidate_term_id, ctx.own.member_id)


def recent_voters(ctx: Context) -> list[Member]:
    """Return the voters that may vote now, without those not heard for too long.

    So a quorum is one of members that are present.
    """
    limit_ns = ctx.now_ns - ctx.config.leader_heartbeat_timeout_ns
    voters = [member for member in ctx.voters() if not ctx.is_distrusted(member)]
    return [member if member.heard_ns > limit_ns else Member(member.member_id) for member in voters]


def tick_canvass(ctx: Context) -> None:
    """Stand for election when all would vote for this member, or after the deadline when a quorum would."""
    ctx.refresh_own()
    send_canvass(ctx)
    is_appointed = ctx.config.appointed_leader_id in (NULL_MEMBER, ctx.own.member_id)
    if not (is_appointed and ctx.may_stand) or ctx.leader_was_heard_lately():
        return
    voters = recent_voters(ctx)
    threshold = ctx.quorum_threshold
    if not ctx.is_voter:
        if ctx.now_ns >= canvass_deadline_ns(ctx) and is_only_candidate(voters, ctx.own, threshold):
            nominate(ctx, "only candidate, to get the end of its own vote committed")
    elif ctx.stands_back:
        if ctx.now_ns >= last_resort_ns(ctx) and is_quorum_candidate(voters, ctx.own, threshold):
            nominate(ctx, "nobody else came forward, to get its log to the others")
    elif is_unanimous_candidate(voters, ctx.own, threshold, ctx.graceful_leader_id):
        nominate(ctx, "unanimous candidate")
    elif ctx.now_ns >= canvass_deadline_ns(ctx) and is_quorum_candidate(voters, ctx.own, threshold):
        nominate(ctx, "quorum candidate")


def nominate(ctx: Context, reason: str) -> None:
    """Wait a random part of half the election timeout (Raft §5.2)."""
    delay_ns = ctx.rng.uniform_int(0, ctx.config.election_timeout_ns // 2)
    transitions.nominate(ctx, ctx.now_ns + delay_ns, reason)


def tick_nominate(ctx: Context) -> None:
    """Open a new term with a vote for oneself when the delay is over."""
    send_canvass(ctx)
    if ctx.now_ns >= ctx.nominate_at_ns:
        stand(ctx, is_transfer=False)


def stand(ctx: Context, is_transfer: bool) -> None:
    """Open a new term with a vote for oneself, and ask for the others'."""
    ctx.is_transfer_ballot = is_transfer
    ctx.refresh_own()
    for member in ctx.members.values():
        member.vote = None
    ctx.ballot = [ctx.members[member.member_id] for member in recent_voters(ctx) if member.heard_ns != NEVER_NS]
    transitions.stand(ctx)
    tick_candidate_ballot(ctx)


def on_canvass(ctx: Context, message: CanvassPosition) -> None:
    """Record where the log of another member without a leader ends."""
    assert ctx.state in ELECTING_STATES
    member = ctx.members[message.follower_member_id]
    ctx.note_term(message.leadership_term_id)
    member.log_leadership_term_id = message.log_leadership_term_id
    member.log_position = message.log_position
    member.heard_ns = ctx.now_ns


# -- ballot ----------------------------------------------------------------------------------------------------------


def tick_candidate_ballot(ctx: Context) -> None:
    """Ask those that have not answered; lead once a quorum has voted for this member.

    It waits until all that canvassed lately have answered, or else until the ballot ends.

    A vote against the candidate is an answer, and no veto: where this member alone can be elected, because it alone is
    heard by a quorum, one voter with a newer log would bar the way to any leader for as long as it lives.
    """
    threshold, candidate_term_id = ctx.quorum_threshold, ctx.candidate_term_id
    is_over = ctx.now_ns >= ctx.state_since_ns + ctx.config.election_timeout_ns
    may_lead_with_quorum = is_over or ctx.is_transfer_ballot or have_all_answered(ctx.ballot, candidate_term_id)
    if is_unanimous_leader(ctx.ballot, candidate_term_id, threshold, ctx.graceful_leader_id):
        transitions.become_leader(ctx, f"unanimous vote for term {candidate_term_id}")
    elif may_lead_with_quorum and is_quorum_leader(ctx.voters(), candidate_term_id, threshold):
        transitions.become_leader(ctx, f"quorum vote for term {candidate_term_id}")
    elif is_over:
        transitions.canvass(ctx, f"no quorum for term {candidate_term_id}")
    elif ctx.now_ns >= ctx.next_send_ns:
        ctx.next_send_ns = ctx.now_ns + ctx.config.election_status_interval_ns
        for member in ctx.voters():
            if member.vote is None:
                ctx.send(member.member_id, own_request(ctx))


def own_request(ctx: Context) -> RequestVote:
    """Return the request for votes that this candidate sends."""
    return RequestVote(
        ctx.own.log_leadership_term_id,
        ctx.own.log_position,
        ctx.candidate_term_id,
        ctx.own.member_id,
        is_transfer=ctx.is_transfer_ballot,
    )


def tick_follower_ballot(ctx: Context) -> None:
    """Canvass again when the member voted for does not come to lead."""
    if ctx.now_ns >= ctx.state_since_ns + ctx.config.election_timeout_ns:
        transitions.canvass(ctx, f"no leader emerged in term {ctx.candidate_term_id}")


def on_vote(ctx: Context, message: Vote) -> None:
    """Count a vote of the current ballot; a repeated answer never withdraws a vote."""
    member = ctx.members[message.follower_member_id]
    is_for_this_ballot = (
        ctx.state is ElectionState.CANDIDATE_BALLOT
        and message.candidate_member_id == ctx.own.member_id
        and message.candidate_term_id == ctx.candidate_term_id
    )
    if not is_for_this_ballot or (member.candidate_term_id == message.candidate_term_id and member.vote is True):
        return
    member.reported_log_term_id = message.log_leadership_term_id
    member.candidate_term_id = message.candidate_term_id
    member.vote = message.vote
    tick_candidate_ballot(ctx)


def on_request_vote(ctx: Context, message: RequestVote) -> None:
    """Give at most one vote a term, and only to a log that is not older than the own (Raft §5.2, §5.4.1, §4.2.3).

    A member that may not vote keeps silent: a refusal would count against the candidate.
    """
    is_disturbance = ctx.leader_was_heard_lately() and not message.is_transfer
    if not ctx.may_vote or ctx.state not in ELECTING_STATES or is_disturbance:
        return
    candidate_id, candidate_term_id = message.candidate_member_id, message.candidate_term_id
    ctx.note_term(candidate_term_id)
    ctx.refresh_own()
    if candidate_term_id == ctx.candidate_term_id and candidate_id == ctx.voted_for:
        send_vote(ctx, message, True)
        return
    if candidate_term_id <= ctx.candidate_term_id:
        send_vote(ctx, message, False)
        return
    ctx.raise_candidate_term(candidate_term_id)
    own_is_newer = compare_log(
        ctx.own.log_leadership_term_id, ctx.own.log_position, message.log_leadership_term_id, message.log_position
    )
    if own_is_newer > 0:
        send_vote(ctx, message, False)
        if ctx.state is ElectionState.CANDIDATE_BALLOT:
            transitions.canvass(ctx, f"term {candidate_term_id} overtook the ballot")
        return
    ctx.voted_for = candidate_id
    send_vote(ctx, message, True)
    transitions.await_candidate(ctx)


def send_vote(ctx: Context, request: RequestVote, vote: bool) -> None:
    """Answer a candidate; the term was made durable before."""
    assert request.candidate_term_id <= ctx.candidate_term_id
    answer = Vote(
        request.candidate_term_id,
        ctx.own.log_leadership_term_id,
        ctx.own.log_position,
        request.candidate_member_id,
        ctx.own.member_id,
        vote,
    )
    ctx.send(request.candidate_member_id, answer)

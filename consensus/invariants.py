"""Invariants of one member after every step; tests check them after each, and they are cheap enough for production."""

from dataclasses import dataclass
from itertools import pairwise

from ordo.consensus.state.context import Context
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import NULL_MEMBER
from ordo.consensus.state.states import ELECTING_STATES, JOINING_STATES, LEADING_STATES, ElectionState, Role
from ordo.runtime.native.sentinels import NULL_POSITION


@dataclass
class Watermarks:
    """Values that may only rise, as they were at the last check."""

    candidate_term_id: int = -1
    commit_position: int = 0


def check(ctx: Context, watermarks: Watermarks) -> None:
    """Raise AssertionError, naming the member, if an invariant does not hold."""
    check_positions(ctx)
    check_terms(ctx)
    check_roles(ctx)
    check_configurations(ctx)
    assert ctx.candidate_term_id >= watermarks.candidate_term_id, ctx.own.member_id
    assert ctx.progress.commit_position >= watermarks.commit_position, ctx.own.member_id
    watermarks.candidate_term_id = ctx.candidate_term_id
    watermarks.commit_position = ctx.progress.commit_position


def check_positions(ctx: Context) -> None:
    """Check what may be committed and announced, and how far a follower may be.

    What is committed is durable, what is announced is committed, and a follower never passes what it was told.
    """
    progress = ctx.progress
    assert 0 <= progress.commit_position <= progress.own_position, ctx.own.member_id
    assert ctx.announced_commit_position <= progress.commit_position, ctx.own.member_id
    if ctx.pending_truncation != NULL_POSITION:
        assert progress.commit_position <= ctx.pending_truncation, ctx.own.member_id
        assert ctx.state is ElectionState.INIT, ctx.own.member_id


def check_terms(ctx: Context) -> None:
    """Check that rows rise, and that a member is bound to at least every term it has entries of or takes part in."""
    rows = ctx.terms.rows
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(rows)), rows
    assert ctx.terms.last_term_id <= ctx.candidate_term_id, ctx.own.member_id
    assert ctx.candidate_term_id <= ctx.term_seen, ctx.own.member_id
    if ctx.log_is_open:
        assert ctx.leadership_term_id == ctx.candidate_term_id, ctx.own.member_id
        is_in_current_term = ctx.append_position > ctx.term_base_position
        assert is_in_current_term == (ctx.log_term_id == ctx.leadership_term_id), ctx.own.member_id


def check_configurations(ctx: Context) -> None:
    """Check that the configuration in force is in the durable log, and that those that count in it are known."""
    configuration = ctx.configuration
    assert ctx.configurations.position <= ctx.append_position, ctx.own.member_id
    assert set(configuration.member_ids) <= ctx.members.keys(), ctx.own.member_id
    assert not ctx.strangers & set(configuration.member_ids), ctx.own.member_id


def check_roles(ctx: Context) -> None:
    """Check that state, role and counts agree with each other."""
    assert not (ctx.is_leading and ctx.is_following), ctx.own.member_id
    assert ctx.log_is_open == (ctx.is_leading or ctx.is_following), ctx.own.member_id
    assert (ctx.role is Role.LEADER) == ctx.is_leading, ctx.own.member_id
    assert (ctx.role is Role.CANDIDATE) == (ctx.state is ElectionState.CANDIDATE_BALLOT), ctx.own.member_id
    if ctx.state in ELECTING_STATES or ctx.state is ElectionState.INIT:
        assert not ctx.log_is_open, ctx.own.member_id
    if ctx.state in LEADING_STATES:
        assert ctx.is_leading, ctx.own.member_id
    if ctx.state in JOINING_STATES:
        assert ctx.is_following, ctx.own.member_id
    if Distrust.STATE in ctx.distrust and not ctx.is_only_voter:
        assert not (ctx.is_leading and ctx.is_closed), ctx.own.member_id
    if ctx.distrust.is_loss:
        assert ctx.role is Role.FOLLOWER, ctx.own.member_id
        assert ctx.voted_for == NULL_MEMBER, ctx.own.member_id
        assert ctx.state not in (ElectionState.NOMINATE, ElectionState.FOLLOWER_BALLOT), ctx.own.member_id
    if Distrust.VOTE in ctx.distrust:
        assert not ctx.log_is_open, ctx.own.member_id
    if ctx.is_transferring:
        assert ctx.is_leading, ctx.own.member_id
        assert ctx.is_closed, ctx.own.member_id
    if ctx.role is not Role.FOLLOWER:
        assert ctx.may_stand, ctx.own.member_id
    if ctx.is_closed:
        assert ctx.log_is_open, ctx.own.member_id
        if ctx.is_leading:
            assert ctx.progress.commit_position >= ctx.progress.first_record_end, ctx.own.member_id

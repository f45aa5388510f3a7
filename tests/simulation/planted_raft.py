"""Bugs that break rules of the Raft paper, beside those of `planted`. docs/SIMULATION.md has the table of all rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.consensus import dispatch
from ordo.consensus.handlers import election, following, leading
from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state import quorum, transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import NULL_TERM, CanvassPosition, NewLeadershipTerm, Vote
from ordo.consensus.state.quorum import Member
from tests.simulation.planted import Patch


def _handle(patch: Patch, kind: type[Any], handler: Callable[[Context, Any], None]) -> None:
    patch(dispatch, "HANDLERS", {**dispatch.HANDLERS, kind: (handler, dispatch.HANDLERS[kind][1])})


def leaders_stay_whatever_term_they_hear_of(patch: Patch) -> None:
    """Raft §5.1: a leader leads on although a member is bound to a higher term, and can never follow it."""
    find_reason = leading.find_reason_to_give_up
    on_canvass = leading.on_canvass
    on_new_term = following.on_new_leadership_term

    def find_reason_to_give_up(ctx: Context) -> str:
        ctx.progress.higher_term_seen = NULL_TERM
        return find_reason(ctx)

    def answer_canvass(ctx: Context, member: Member, message: CanvassPosition) -> None:
        term_id = min(message.leadership_term_id, ctx.leadership_term_id)
        log_term_id = min(message.log_leadership_term_id, ctx.leadership_term_id)
        on_canvass(ctx, member, message._replace(leadership_term_id=term_id, log_leadership_term_id=log_term_id))

    def on_new_leadership_term(ctx: Context, message: NewLeadershipTerm) -> None:
        if not ctx.is_leading:
            on_new_term(ctx, message)

    patch(leading, "find_reason_to_give_up", find_reason_to_give_up)
    patch(leading, "on_canvass", answer_canvass)
    _handle(patch, NewLeadershipTerm, on_new_leadership_term)


def candidates_stand_in_a_term_that_they_know(patch: Patch) -> None:
    """Raft §5.2: a candidate votes for itself in the newest term it has met, if its log has nothing of it."""
    original = Context.open_term

    def open_term(self: Context) -> None:
        term_id = max(self.candidate_term_id, self.term_seen)
        if term_id <= self.log_term_id:
            original(self)
            return
        self.raise_candidate_term(term_id)
        self.voted_for = self.own.member_id

    patch(Context, "open_term", open_term)


def logs_a_little_shorter_are_voted_for(patch: Patch) -> None:
    """Raft §5.4.1: a log of the same term counts as the same if it is up to 256 bytes shorter."""
    original = quorum.compare_log

    def compare_log(term_a: int, position_a: int, term_b: int, position_b: int) -> int:
        if term_a == term_b and abs(position_a - position_b) <= 256:
            return 0
        return original(term_a, position_a, term_b, position_b)

    patch(election, "compare_log", compare_log)
    patch(quorum, "compare_log", compare_log)


def refusals_count_as_votes(patch: Patch) -> None:
    """Raft §5.2: whoever answers a candidate has voted for it."""
    original = election.on_vote
    _handle(patch, Vote, lambda ctx, message: original(ctx, message._replace(vote=True)))


def votes_of_earlier_ballots_count(patch: Patch) -> None:
    """Raft §5.2: a vote counts in the term in which the candidate stands when it arrives."""
    original = election.on_vote
    _handle(patch, Vote, lambda ctx, message: original(ctx, message._replace(candidate_term_id=ctx.candidate_term_id)))


def what_is_not_known_to_be_committed_is_thrown_away(patch: Patch) -> None:
    """Raft §5.3, §5.4.3: a member that has lost its leader keeps of its log only what it knows to be committed."""
    original = transitions.canvass

    def canvass(ctx: Context, reason: str) -> None:
        original(ctx, reason)
        if ctx.append_position > ctx.progress.commit_position:
            transitions.begin_truncation(ctx, ctx.progress.commit_position, "not known to be committed")

    patch(transitions, "canvass", canvass)


def leaders_answer_before_their_term_has_begun(patch: Patch) -> None:
    """Raft §8, dissertation §6.4: a leader answers reads before it knows what was committed before it."""

    def look_for_office(self: ReadIndex[Any]) -> None:
        core = self._core
        office = core.leadership_term_id, core.leader_member_id, core.leader_member_id == core.member_id
        if office != self._office:
            self._office = office
            self._drop()

    patch(ReadIndex, "_look_for_office", look_for_office)

"""Log comparison and vote counting (cluster-consensus.md §4) as pure functions over what is known of each member."""

from collections.abc import Collection
from dataclasses import dataclass

from ordo.consensus.state.messages import NULL_MEMBER, NULL_TERM
from ordo.runtime.native.sentinels import NULL_POSITION

NEVER_NS = -(1 << 62)
"""A time before all others."""


@dataclass
class Member:
    """What this member knows of one member, itself included, during an election.

    `log_position` is NULL_POSITION until it was heard in this election; `vote` is None until it answered for
    `candidate_term_id`. `reported_log_term_id` outlives elections: the last log term it ever told; so does
    `distrusted_ns`: when it said last that it may not vote, and `stood_back_ns`: when, that it is not to lead.
    """

    member_id: int
    log_leadership_term_id: int = NULL_TERM
    log_position: int = NULL_POSITION
    candidate_term_id: int = NULL_TERM
    vote: bool | None = None
    heard_ns: int = NEVER_NS
    reported_log_term_id: int | None = None
    is_terminated: bool = False
    distrusted_ns: int = NEVER_NS
    stood_back_ns: int = NEVER_NS

    def reset(self) -> None:
        """Forget what this member has said in the election so far."""
        self.log_leadership_term_id = NULL_TERM
        self.log_position = NULL_POSITION
        self.candidate_term_id = NULL_TERM
        self.vote = None
        self.heard_ns = NEVER_NS


def compare_log(term_a: int, position_a: int, term_b: int, position_b: int) -> int:
    """Return -1, 0 or 1 as log a is older than, as new as, or newer than log b (Raft §5.4.1)."""
    if term_a != term_b:
        return 1 if term_a > term_b else -1
    if position_a != position_b:
        return 1 if position_a > position_b else -1
    return 0


def will_vote_for(member: Member, candidate: Member) -> bool:
    """Return whether a member's log, as far as it is known, allows a vote for the candidate."""
    if member.log_position == NULL_POSITION:
        return False
    return (
        compare_log(
            member.log_leadership_term_id,
            member.log_position,
            candidate.log_leadership_term_id,
            candidate.log_position,
        )
        <= 0
    )


def is_unanimous_candidate(
    members: Collection[Member], candidate: Member, threshold: int, graceful_leader_id: int = NULL_MEMBER
) -> bool:
    """Return whether all members would vote for the candidate, except a leader that closed gracefully."""
    asked = [member for member in members if member.member_id != graceful_leader_id]
    return len(asked) >= threshold and all(will_vote_for(member, candidate) for member in asked)


def is_quorum_candidate(members: Collection[Member], candidate: Member, threshold: int) -> bool:
    """Return whether a quorum of members would vote for the candidate."""
    return sum(will_vote_for(member, candidate) for member in members) >= threshold


def is_only_candidate(members: Collection[Member], candidate: Member, threshold: int) -> bool:
    """Return whether `candidate`, and no other, can be elected by a quorum of `members`.

    The candidate is none of them, and all logs that are known are older than its own.
    """
    heard = [member for member in members if member.log_position != NULL_POSITION]
    return len(heard) >= threshold and not any(will_vote_for(candidate, member) for member in heard)


def is_unanimous_leader(
    members: Collection[Member], candidate_term_id: int, threshold: int, graceful_leader_id: int = NULL_MEMBER
) -> bool:
    """Return whether all members voted for the candidate of this term, a leader that closed gracefully aside."""
    asked = [member for member in members if member.member_id != graceful_leader_id]
    granted = sum(member.candidate_term_id == candidate_term_id and member.vote is True for member in asked)
    return granted == len(asked) and granted >= threshold


def is_quorum_leader(members: Collection[Member], candidate_term_id: int, threshold: int) -> bool:
    """Return whether a quorum voted for the candidate of this term (Raft §5.2), whatever the other votes."""
    return sum(member.candidate_term_id == candidate_term_id and member.vote is True for member in members) >= threshold


def have_all_answered(members: Collection[Member], candidate_term_id: int) -> bool:
    """Return whether no vote of these members is still to come."""
    return all(member.candidate_term_id == candidate_term_id and member.vote is not None for member in members)

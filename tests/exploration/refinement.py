"""Which steps of the specification (tests.exploration.raft) a step of a real member is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ordo.consensus.state.messages import Message, RequestVote, Vote
from tests.consensus.disk import Entry
from tests.exploration.raft import Log, Node, Raft, Refused, end_of, grown, is_prefix
from tests.exploration.space import Action, Outcome, Space, View, Violation


class Seen(NamedTuple):
    """What is seen of a member after a step; positions are bytes."""

    term: int
    log: Log
    durable: int
    commit: int
    leads: bool
    changes: tuple[tuple[int, int, frozenset[int]], ...] = ()
    """Records of its log that say who votes: term, end, voters."""


class Step(NamedTuple):
    """A step of a member: what is seen of it afterwards, and what it told others of votes."""

    member: int
    seen: Seen
    has_crashed: bool = False
    stood_in: tuple[int, ...] = ()
    voted_for: tuple[tuple[int, int], ...] = ()
    """Candidate and term."""


def runs(entries: Iterable[Entry]) -> Log:
    """Return a log as runs of terms."""
    log: Log = ()
    for entry in entries:
        log = grown(log, entry.leadership_term_id, entry.end)
    return log


def changes_in(entries: Iterable[Entry]) -> tuple[tuple[int, int, frozenset[int]], ...]:
    """Return the records of a log that say who votes."""
    return tuple(
        (entry.leadership_term_id, entry.end, frozenset(entry.configuration.voter_ids))
        for entry in entries
        if entry.configuration is not None
    )


def votes_in(sent: Iterable[Message]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return the terms in which messages ask for votes, and whom they give votes in which term."""
    sent = list(sent)
    asked = dict.fromkeys(one.candidate_term_id for one in sent if isinstance(one, RequestVote))
    given = (one for one in sent if isinstance(one, Vote) and one.vote)
    return tuple(asked), tuple(dict.fromkeys((one.candidate_member_id, one.candidate_term_id) for one in given))


def follow(raft: Raft, step: Step) -> Raft:
    """Return the specification's state after a step. Raises Refused if no steps of it lead to what is seen."""
    member, seen = step.member, step.seen
    if step.has_crashed:
        raft = raft.resign(member).lose(member, end_of(seen.log)).crash(member)
    raft = _follow_old_term(raft, member, seen)
    for term in step.stood_in:
        if (term, member) not in raft.requests:
            raft = raft.stand(member, term)
    for candidate, term in step.voted_for:
        raft = raft.vote(member, candidate, term)
    if seen.term > raft.nodes[member].term:
        raft = raft.learn_term(member, seen.term)
    raft = _follow_log(raft, member, seen)
    if raft.nodes[member].durable != seen.durable:
        raft = raft.sync(member, seen.durable)
    if raft.nodes[member].commit != seen.commit:
        raft = raft.commit(member, seen.commit)
    node = raft.nodes[member]
    shown = Node(seen.term, node.vote, seen.log, seen.durable, seen.commit, seen.leads)
    if node != shown:
        raise Refused(f"member {member} shows {shown}, and by Raft it is {node}")
    return raft


def _follow_old_term(raft: Raft, member: int, seen: Seen) -> Raft:
    """Take what a member did before it left a term: its end became durable, or lost, and some of it was committed."""
    node = raft.nodes[member]
    if seen.term == node.term and seen.leads == node.leads:
        return raft
    if is_prefix(node.log, seen.log) and end_of(node.log) >= seen.durable > node.durable:
        raft = raft.sync(member, seen.durable)
    if seen.commit > node.commit:
        with suppress(Refused):  # then it is committed in the new term, or not at all
            raft = raft.commit(member, seen.commit)
    return raft.resign(member) if node.leads and (not seen.leads or seen.term != node.term) else raft


def _follow_log(raft: Raft, member: int, seen: Seen) -> Raft:
    node = raft.nodes[member]
    if not is_prefix(node.log, seen.log):
        shared = end_of(seen.log)
        raft = raft.lose(member, shared) if shared >= node.durable else raft.truncate(member, shared)
    if seen.leads and not raft.nodes[member].leads:
        raft = raft.lead(member)
    node = raft.nodes[member]
    if end_of(seen.log) == end_of(node.log):
        return raft
    if not seen.leads:
        return raft.copy(member, end_of(seen.log))
    new = [voters for term, end, voters in seen.changes if (term, end) not in raft.changes]
    return raft.append(member, end_of(seen.log), new[0] if new else None)


# -- of the exploration -----------------------------------------------------------------------------------------------


class Refinement:
    """Follows an exploration: each of its steps must be one of the specification's, or several, or none."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._seen: dict[int, Seen] = {}
        self.steps = 0

    def begin(self) -> Raft:
        """Return the specification's state before anybody has voted."""
        bounds = self._space.bounds
        voters = frozenset(one for one in bounds.members if one not in bounds.learners)
        return Raft(voters, {one: Node() for one in bounds.members})

    def follow(self, ghost: Raft, member_id: int, request: Action, outcome: Outcome) -> Raft:
        """Follow a step. Raises Violation if it is none of the specification's."""
        stood_in, voted_for = votes_in(self._space.messages[one][2] for one in outcome.sent)
        step = Step(member_id, self._view(outcome.member), request[0] == "crash", stood_in, voted_for)
        self.steps += 1
        try:
            return follow(ghost, step)
        except Refused as error:
            raise Violation(f"not a step of Raft: {error}") from error

    def _view(self, number: int) -> Seen:
        seen = self._seen.get(number)
        if seen is None:
            view: View = self._space.views[number]
            log, changes = runs(view.log), changes_in(view.log)
            seen = Seen(view.bound_to, log, view.durable_position, view.commit_position, view.leads, changes)
            self._seen[number] = seen
        return seen

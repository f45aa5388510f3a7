"""Raft as an executable specification, written from the paper (§5) and the dissertation (chapter 4).

A step is a method; it raises Refused with the rule where Raft does not allow it. States are values: a step returns
the next one. There are no messages: a step may rest on anything that was ever so (who asked for votes with which log,
what a leader had in its log, how far it had committed), as if it had been told late, twice, or out of order.

Where Ordo does otherwise than the paper:

    positions      a log is a row of bytes, not of entries; it is written as runs: (term, where the run ends). Logs are
                   compared by the term of the last run, and then by its end (§5.4.1)
    repeated votes a request that a member has voted for gets the vote again, whatever is in its log by now
    terms          a candidate opens any term above those it knows, not the next one; terms begin with 0
    votes          whom a member voted for is not stored, only in which term: after a crash it has no vote left in it
    terms of others a member that refuses a vote, or joins a leader, is bound to their term; who only hears of a term
                   remembers it for its own next one
    unsynced ends  what is in a log and not durable may be lost at any time, not in a crash alone, but not while its
                   member leads; only what is durable counts for a commit, also at the leader (dissertation §10.2.1)
    truncation     the end of a log that contradicts the leader's is removed in one go, before anything is copied; a
                   member may crash in between
    commit         a member that starts knows of nothing that is committed
    first record   a leader appends a record of its own term first (§8), so that a term without one has no log
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Log = tuple[tuple[int, int], ...]
"""Runs: the term, and where its last byte ends."""
NOBODY = -1
SPENT = -2
"""The vote of a term in which a member may have voted before it crashed."""
NO_TERM = -1


class Refused(AssertionError):
    """A step that Raft does not allow, with the rule."""


class Node(NamedTuple):
    """One member."""

    term: int = NO_TERM
    vote: int = NOBODY
    log: Log = ()
    durable: int = 0
    commit: int = 0
    leads: bool = False


class Request(NamedTuple):
    """What a candidate asked for votes with, and who gave one."""

    log: Log
    voters: frozenset[int]


class Office(NamedTuple):
    """Who leads a term, all that it has had in its log, and how far it has committed."""

    leader: int
    log: Log
    commit: int


def end_of(log: Log) -> int:
    """Return where a log ends."""
    return log[-1][1] if log else 0


def last_term(log: Log) -> int:
    """Return the term of a log's end."""
    return log[-1][0] if log else NO_TERM


def cut(log: Log, end: int) -> Log:
    """Return a log up to a position."""
    kept: list[tuple[int, int]] = []
    for term, run_end in log:
        if not kept or kept[-1][1] < end:
            kept.append((term, min(run_end, end)))
    return tuple(kept) if end > 0 else ()


def grown(log: Log, term: int, end: int) -> Log:
    """Return a log with more of one term."""
    return (*log[:-1], (term, end)) if last_term(log) == term else (*log, (term, end))


def common_end(one: Log, other: Log) -> int:
    """Return up to where two logs are the same."""
    end = 0
    for (term, run_end), (other_term, other_end) in zip(one, other, strict=False):
        if term != other_term:
            break
        end = min(run_end, other_end)
        if run_end != other_end:
            break
    return end


def is_prefix(one: Log, other: Log) -> bool:
    """Return whether a log is the beginning of another."""
    return common_end(one, other) == end_of(one)


def demand(holds: bool, rule: str) -> None:
    """Raise Refused if a rule does not hold."""
    if not holds:
        raise Refused(rule)


class Raft(NamedTuple):
    """All members, and all that was ever so and may still be heard of."""

    voters: frozenset[int]
    """Those that vote before the log says anything of it."""
    nodes: Mapping[int, Node]
    requests: Mapping[tuple[int, int], Request] = {}
    """By term and candidate."""
    offices: Mapping[int, Office] = {}
    """By term."""
    changes: Mapping[tuple[int, int], frozenset[int]] = {}
    """Who votes from a record of the log on: by the record's term and end."""

    def _with(self, member: int, node: Node) -> Raft:
        return self._replace(nodes={**self.nodes, member: node})

    def voters_of(self, log: Log) -> frozenset[int]:
        """Return who votes by a log: by its newest record that says so, committed or not (dissertation §4.1)."""
        found, found_end = self.voters, 0
        for (term, end), voters in self.changes.items():
            if end > found_end and end <= end_of(log) and last_term(cut(log, end)) == term:
                found, found_end = voters, end
        return found

    def _is_quorum(self, members: frozenset[int], log: Log) -> bool:
        voters = self.voters_of(log)
        return 2 * len(members & voters) > len(voters)

    # -- elections (§5.1, §5.2, §5.4.1) -------------------------------------------------------------------------------

    def learn_term(self, member: int, term: int) -> Raft:
        """Bind a member to a higher term that somebody has opened."""
        node = self.nodes[member]
        demand(term > node.term, "§5.1: terms only rise")
        demand(any(opened == term for opened, _ in self.requests), f"§5.1: nobody has opened term {term}")
        return self._with(member, node._replace(term=term, vote=NOBODY, leads=False))

    def stand(self, member: int, term: int) -> Raft:
        """Open a term, with a vote for oneself."""
        node = self.nodes[member]
        demand(term > node.term, "§5.2: a candidate opens a higher term")
        demand(term > last_term(node.log), "§5.2: a candidate's term is above those of its log")
        after = self._with(member, node._replace(term=term, vote=member, leads=False))
        request = Request(node.log, frozenset({member}))
        return after._replace(requests={**self.requests, (term, member): request})

    def vote(self, member: int, candidate: int, term: int) -> Raft:
        """Give a vote: one in a term, and to a log that is as new as the own."""
        node, request = self.nodes[member], self.requests.get((term, candidate))
        demand(request is not None, f"§5.2: member {candidate} did not ask for votes in term {term}")
        assert request is not None
        if term == node.term and node.vote == candidate and member in request.voters:
            return self
        demand(term >= node.term, "§5.1: no votes in lower terms")
        demand(term > node.term or node.vote in (NOBODY, candidate), "§5.2: one vote in a term")
        own, asked = (last_term(node.log), end_of(node.log)), (last_term(request.log), end_of(request.log))
        demand(asked >= own, "§5.4.1: no vote for an older log")
        given = request._replace(voters=request.voters | {member})
        after = self._with(member, node._replace(term=term, vote=candidate, leads=False))
        return after._replace(requests={**self.requests, (term, candidate): given})

    def lead(self, member: int) -> Raft:
        """Become the leader of the term that one stood in."""
        node = self.nodes[member]
        request = self.requests.get((node.term, member))
        demand(request is not None, "§5.2: who leads has asked for votes")
        assert request is not None
        demand(node.vote == member, "§5.2: who leads has voted for itself since its start")
        demand(request.log == node.log, "§5.2: a candidate's log stays as it is")
        demand(self._is_quorum(request.voters, node.log), "§5.2: a quorum has voted for the leader")
        demand(node.term not in self.offices, "§5.2: one leader in a term")
        after = self._with(member, node._replace(leads=True))
        return after._replace(offices={**self.offices, node.term: Office(member, node.log, node.commit)})

    def resign(self, member: int) -> Raft:
        """Give up, for any reason."""
        return self._with(member, self.nodes[member]._replace(leads=False))

    # -- logs (§5.3) --------------------------------------------------------------------------------------------------

    def append(self, member: int, end: int, voters: frozenset[int] | None = None) -> Raft:
        """Append to the own log as the leader; with `voters`, a record that says who votes from now on."""
        node, office = self.nodes[member], self.offices.get(self.nodes[member].term)
        demand(node.leads and office is not None, "§5.3: only a leader appends")
        assert office is not None
        demand(end > end_of(node.log), "§5.3: a leader only appends")
        log = grown(node.log, node.term, end)
        if voters is not None:
            before = self.voters_of(node.log)
            demand(len(before ^ voters) <= 1, "D §4.1: one vote at a time")
            named = [
                at for at in self.changes if at[1] <= end_of(node.log) and last_term(cut(node.log, at[1])) == at[0]
            ]
            demand(all(at[1] <= node.commit for at in named), "D §4.1: the change before is committed")
            demand(last_term(cut(node.log, node.commit)) == node.term, "D §4.1: a record of the own term is committed")
        after = self._with(member, node._replace(log=log))
        changes = self.changes if voters is None else {**self.changes, (node.term, end): voters}
        return after._replace(offices={**self.offices, node.term: office._replace(log=log)}, changes=changes)

    def copy(self, member: int, end: int) -> Raft:
        """Copy more of the log of the own term's leader, of which the own log is the beginning."""
        node = self.nodes[member]
        office = self.offices.get(node.term)
        demand(office is not None and not node.leads, "§5.3: records come from the leader of the own term")
        assert office is not None
        demand(is_prefix(node.log, office.log), "§5.3: the own log is the beginning of the leader's")
        demand(end_of(node.log) < end <= end_of(office.log), "§5.3: the leader has what is copied")
        return self._with(member, node._replace(log=cut(office.log, end)))

    def truncate(self, member: int, end: int) -> Raft:
        """Remove what contradicts the log of the own term's leader."""
        node = self.nodes[member]
        office = self.offices.get(node.term)
        demand(office is not None and not node.leads, "§5.3: a log is cut for the leader of the own term")
        assert office is not None
        demand(end >= common_end(node.log, office.log), "§5.3: nothing is removed that the leader has")
        demand(end >= node.commit, "§5.4.3: nothing is removed that is committed")
        return self._with(member, node._replace(log=cut(node.log, end), durable=min(node.durable, end)))

    def sync(self, member: int, end: int) -> Raft:
        """Have more of the own log durable."""
        node = self.nodes[member]
        demand(node.durable <= end <= end_of(node.log), "what is durable is in the log, and stays durable")
        return self._with(member, node._replace(durable=end))

    def lose(self, member: int, end: int) -> Raft:
        """Lose of the own log what is not durable; who leads would then write something else in its place."""
        node = self.nodes[member]
        demand(not node.leads, "§5.3: the log of a leader only grows")
        demand(node.durable <= end <= end_of(node.log), "§5: what is durable is not lost")
        return self._with(member, node._replace(log=cut(node.log, end)))

    def crash(self, member: int) -> Raft:
        """Start again with what is durable: the term, that a vote may have been given in it, and the log."""
        node = self.nodes[member]
        after = node._replace(vote=SPENT, durable=end_of(node.log), commit=0, leads=False)
        return self._with(member, after)

    # -- commits (§5.3, §5.4.2) ---------------------------------------------------------------------------------------

    def commit(self, member: int, end: int) -> Raft:
        """Commit: as the leader what a quorum has, up to a record of its term; as a follower what its leader has."""
        node = self.nodes[member]
        office = self.offices.get(node.term)
        demand(end > node.commit, "§5.3: a commit position only rises")
        demand(end <= node.durable, "§5.3: what a member commits is durable there")
        demand(office is not None, "§5.3: a commit comes from a leader")
        assert office is not None
        after = self._with(member, node._replace(commit=end))
        log = cut(node.log, end)
        if not node.leads:
            demand(end <= office.commit, "§5.3: a follower commits what its leader has committed")
            demand(is_prefix(log, office.log), "§5.3: a follower commits what its leader has")
            return after
        demand(last_term(log) == node.term, "§5.4.2: a leader commits by a record of its own term")
        holders = frozenset(one for one, other in self.nodes.items() if is_prefix(log, cut(other.log, other.durable)))
        demand(self._is_quorum(holders, cut(node.log, node.durable)), "§5.3: a quorum has what is committed")
        return after._replace(offices={**self.offices, node.term: office._replace(commit=end)})

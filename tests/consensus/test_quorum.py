"""Quorum functions and native counting against slow, obvious models; log verification against whole logs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordo.consensus.handlers.verification import Verdict, compare_with_leader
from ordo.consensus.state.messages import NULL_TERM, NewLeadershipTerm
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.quorum import (
    Member,
    compare_log,
    have_all_answered,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
    will_vote_for,
)
from ordo.consensus.state.term_table import TermTable
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.consensus.harness import Harness

TIMEOUT_NS = 100


def member(member_id: int, term: int = 0, position: int = 0, vote: bool | None = None, candidate: int = 5) -> Member:
    return Member(member_id, term, position, candidate, vote)


# -- quorum functions --------------------------------------------------------------------------------------------------


def test_quorum_is_half_of_the_members_and_one() -> None:
    sizes = [Progress(0, range(count), TIMEOUT_NS).quorum_threshold for count in range(1, 8)]
    assert sizes == [1, 2, 2, 3, 3, 4, 4]


@given(*[st.integers(-1, 4)] * 4)
def test_log_comparison_is_that_of_pairs(term_a: int, position_a: int, term_b: int, position_b: int) -> None:
    a, b = (term_a, position_a), (term_b, position_b)
    assert compare_log(*a, *b) == (a > b) - (a < b)


def test_unknown_position_gives_no_vote() -> None:
    assert not will_vote_for(member(1, position=NULL_POSITION), member(0, position=9))
    assert will_vote_for(member(1, 1, 50), member(0, 1, 50))
    assert not will_vote_for(member(1, 1, 51), member(0, 1, 50))


logs = st.tuples(st.integers(0, 2), st.integers(-1, 3))


@given(st.lists(logs, min_size=1, max_size=7), st.integers(-1, 6))
def test_candidates_against_a_model(known: list[tuple[int, int]], graceful: int) -> None:
    members = [member(index, *log) for index, log in enumerate(known)]
    threshold = len(members) // 2 + 1
    willing = [index for index, log in enumerate(known) if log[1] != -1 and log <= known[0]]
    asked = [index for index in range(len(members)) if index != graceful]
    assert is_quorum_candidate(members, members[0], threshold) == (len(willing) >= threshold)
    unanimous = len(asked) >= threshold and all(index in willing for index in asked)
    assert is_unanimous_candidate(members, members[0], threshold, graceful) == unanimous


@given(
    st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(4, 5)), min_size=1, max_size=7),
    st.integers(-1, 6),
)
def test_leaders_against_a_model(votes: list[tuple[Any, int]], graceful: int) -> None:
    members = [member(index, vote=vote, candidate=candidate) for index, (vote, candidate) in enumerate(votes)]
    threshold = len(members) // 2 + 1
    cast = [vote if candidate == 5 else None for vote, candidate in votes]
    assert is_quorum_leader(members, 5, threshold) == (cast.count(True) >= threshold)
    assert have_all_answered(members, 5) == (None not in cast)
    asked = [vote for index, vote in enumerate(cast) if index != graceful]
    assert is_unanimous_leader(members, 5, threshold, graceful) == (
        len(asked) >= threshold and all(vote is True for vote in asked)
    )


# -- native counting ---------------------------------------------------------------------------------------------------

events = st.lists(
    st.tuples(st.integers(0, 7), st.integers(2, 4), st.integers(-1, 1000), st.integers(0, 60), st.integers(0, 300)),
    max_size=40,
)


class LeaderModel:
    """Counting as one would explain it."""

    def __init__(self, count: int, barrier: int) -> None:
        self.acknowledged: dict[int, int] = {}
        self.heard: dict[int, int] = dict.fromkeys(range(1, count), 0)
        self.count, self.barrier, self.own, self.commit = count, barrier, 0, 0

    def quorum(self, now: int) -> int:
        live = [self.acknowledged.get(m, 0) if now < heard + TIMEOUT_NS else 0 for m, heard in self.heard.items()]
        return min(self.own, sorted([self.own, *live], reverse=True)[self.count // 2])

    def step(self, event: tuple[int, int, int, int, int], now: int) -> None:
        member_id, term, position, _, growth = event
        if term == 3 and member_id in self.heard:
            self.heard[member_id] = now
            self.acknowledged[member_id] = max(self.acknowledged.get(member_id, 0), position)
        self.own += growth
        quorum = self.quorum(now)
        if quorum >= self.barrier:
            self.commit = max(self.commit, quorum)


@given(st.integers(1, 7), st.integers(0, 3), st.integers(1, 500), events)
def test_leader_progress_against_a_model(
    count: int, learners: int, barrier: int, steps: list[tuple[int, int, int, int, int]]
) -> None:
    """Learners acknowledge like voters, and are not counted."""
    known = min(7, count + learners)
    progress = Progress(0, range(count), TIMEOUT_NS)
    progress.configure(range(count), range(count, known))
    progress.lead(3, 0)
    progress.first_record_end = barrier
    model = LeaderModel(count, barrier)
    now = higher = 0
    for event in steps:
        member_id, term, position, passed, _ = event
        now += passed
        higher = max(higher, term if term > 3 and 0 < member_id < known else 0)
        progress.append_position_received(member_id, term, position, now)
        model.step(event, now)
        assert progress.advance_leader_commit(model.own, now) == model.commit
        assert progress.compute_quorum_position(now) == model.quorum(now)
        live = 1 + sum(now < heard + TIMEOUT_NS for heard in model.heard.values())
        assert progress.quorum_is_active(now) == (live > count // 2)
        assert max(0, progress.higher_term_seen) == higher


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(2, 4), st.integers(-1, 1000), st.integers(0, 200)), max_size=40)
)
def test_follower_progress_against_a_model(steps: list[tuple[int, int, int, int]]) -> None:
    progress = Progress(0, range(3), TIMEOUT_NS)
    progress.follow(3, 1, 0)
    told = own = commit = heard = 0
    for now, (leader, term, position, growth) in enumerate(steps):
        own += growth
        if leader == 1 and term == 3:
            told, heard = max(told, position), now
        commit = max(commit, min(told, own))
        progress.commit_notified(term, position, leader, now)
        assert progress.advance_follower_commit(own) == commit
        assert progress.last_leader_activity_ns == heard


@given(st.sets(st.integers(0, 6), min_size=1), st.sets(st.integers(1, 6)), st.lists(st.integers(0, 900), min_size=7))
def test_what_is_known_of_members_that_stay_outlives_a_change(
    voters: set[int], leaving: set[int], positions: list[int]
) -> None:
    progress = Progress(0, {0, *voters}, TIMEOUT_NS)
    progress.lead(3, 0)
    progress.first_record_end, own = 1, 1000
    for member_id in range(7):
        progress.append_position_received(member_id, 3, positions[member_id], 5)
    staying = {0, *voters} - leaving
    joining = set(range(7)) - voters - {0}
    progress.configure(staying, joining)
    acknowledged = [own if one == 0 else positions[one] for one in staying]
    assert progress.advance_leader_commit(own, 6) == sorted(acknowledged, reverse=True)[len(staying) // 2]
    assert all(progress.member_position(one) == positions[one] for one in staying - {0})
    assert all(progress.member_position(one) == NULL_POSITION for one in joining)


def test_nothing_is_counted_without_a_leadership() -> None:
    progress = Progress(0, range(3), TIMEOUT_NS)
    progress.append_position_received(1, -1, 50, 0)
    progress.commit_notified(-1, 50, 1, 0)
    assert progress.advance_leader_commit(90, 0) == progress.advance_follower_commit(90) == 0


# -- is the own log a prefix of the leader's? --------------------------------------------------------------------------


Log = list[tuple[int, int]]
"""Records as (term, number within the term), which names a record in all logs."""


def ends_of(log: Log) -> list[int]:
    """Position before each record and at the end; lengths differ, so that logs part in the middle of records."""
    ends = [0]
    for term, number in log:
        ends.append(ends[-1] + 32 * (1 + (3 * term + number) % 4))
    return ends


def rows_of(log: Log) -> list[tuple[int, int]]:
    """Term rows of a log."""
    return [(term, position) for (term, number), position in zip(log, ends_of(log), strict=False) if number == 0]


@st.composite
def raft_logs(draw: st.DrawFn) -> tuple[Log, Log]:
    """Two logs as Raft makes them: each term appends to a prefix of a log that is there; prefixes of the result."""
    logs: list[Log] = [[]]
    for term in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(logs))
        base = source[: draw(st.integers(0, len(source)))]
        grown = base + [(term, number) for number in range(draw(st.integers(1, 3)))]
        logs.extend(grown[:length] for length in range(len(base) + 1, len(grown) + 1))
    return draw(st.sampled_from(logs)), draw(st.sampled_from(logs))


def common_prefix(own: Log, leader: Log) -> Log:
    """What both logs share."""
    common = 0
    while common < min(len(own), len(leader)) and own[common] == leader[common]:
        common += 1
    return own[:common]


def newly_elected(log: Log) -> Harness:
    """The leader of a new term on top of a log."""
    node = Harness(member_count=2, terms=tuple(rows_of(log)), append_position=ends_of(log)[-1], candidate_term_id=99)
    node.canvassing().canvass_from(1).tick(1).tick(1).vote_from(1)
    node.core.on_log_ready(5, ends_of(log)[-1] + 96, node.now_ns)
    return node.after()


@given(raft_logs(), st.booleans())
def test_exchange_leaves_a_prefix_of_the_leaders_log(pair: tuple[Log, Log], is_told: bool) -> None:
    """Truncation ends with a prefix, cuts between records only, and never removes what is shared."""
    own, leader = pair
    node = newly_elected(leader)
    shared = common_prefix(own, leader)
    verdict = Verdict.NOT_ADDRESSED
    for _ in range(len(own) + 2):
        terms, end = TermTable(rows_of(own)), ends_of(own)[-1]
        if is_told:
            node.canvass_from(1, log_term=terms.last_term_id, position=end)
        else:
            node.tick(50)
            is_told = True
        verdict, position = compare_with_leader(terms, end, node.sent(NewLeadershipTerm)[0][1])
        if verdict is Verdict.PREFIX:
            break
        if verdict is Verdict.TRUNCATE:
            assert position in ends_of(own)
            own = own[: ends_of(own).index(position)]
            assert own[: len(shared)] == shared
    assert verdict is Verdict.PREFIX
    assert own == leader[: len(own)]
    assert len(own) >= len(shared)


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(-1, 30))
def test_term_table_bracket_against_a_model(gaps: list[int], leadership_term_id: int) -> None:
    rows = [(sum(gaps[: index + 1]), 100 * index) for index in range(len(gaps))]
    below = [row for row in rows if row[0] <= leadership_term_id]
    above = [row for row in rows if row[0] > leadership_term_id]
    bracket = TermTable(rows).bracket(leadership_term_id)
    assert bracket.leadership_term_id == (below[-1][0] if below else NULL_TERM)
    assert (bracket.next_term_id, bracket.next_base_position) == (above[0] if above else (NULL_TERM, NULL_POSITION))
    assert bracket.end_position == (above[1][1] if len(above) > 1 else NULL_POSITION)


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 700))
def test_term_table_truncation_and_terms_by_position(gaps: list[int], position: int) -> None:
    rows = [(sum(gaps[: index + 1]), 100 * index) for index in range(len(gaps))]
    table = TermTable(rows)
    before = [term for term, base in rows if base < position]
    assert table.term_before(position) == (before[-1] if before else NULL_TERM)
    table.truncate(position)
    assert table.rows == [row for row in rows if row[1] < position]

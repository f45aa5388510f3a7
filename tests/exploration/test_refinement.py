"""The specification of Raft, and that what the core does is allowed by it (docs/EXPLORATION.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.exploration import raft as specification
from tests.exploration.abstract import COUNTS, OFTEN, count, limits_of
from tests.exploration.checker import CheckerMissingError, build, find_differences, run
from tests.exploration.raft import Node, Raft, Refused, common_end, cut, end_of, is_prefix
from tests.exploration.refinement import Seen, Step, follow
from tests.exploration.traces import SECOND_NS, trace_of, validate
from tests.simulation.plants import BY_NAME

LINES_MAX = 300


def test_the_specification_is_short_enough_to_be_read() -> None:
    assert len(Path(specification.__file__).read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("name", OFTEN)
def test_the_specification_keeps_its_promises_in_all_its_states(name: str) -> None:
    """And has as many as the model in Rust has, which `make explore` counts (tests/exploration/model)."""
    assert count(limits_of(name)) == COUNTS[name]


def test_a_model_that_counts_otherwise_or_breaks_a_rule_is_seen() -> None:
    right, name = [f"{one} {COUNTS[one]} states, depth 9, 0.1 s, broken: []" for one in OFTEN], OFTEN[0]
    assert find_differences(right) == []
    broken = [f'{name} {COUNTS[name] - 1} states, depth 9, 0.1 s, broken: ["a rule"]']
    assert find_differences(broken) == [
        f'{name}: broken: "a rule"',
        f"{name}: {COUNTS[name] - 1} states, and {COUNTS[name]} are expected",
    ]


def test_a_leader_that_loses_a_part_of_its_log_is_refused() -> None:
    """It would write other records in the place of what others may have got of it."""
    raft = Raft(frozenset({0}), {0: Node()}).stand(0, 0).lead(0).append(0, 96)
    with pytest.raises(Refused, match="only grows"):
        raft.lose(0, 0)
    assert raft.resign(0).lose(0, 0).nodes[0].log == ()


@pytest.mark.soak
def test_the_model_in_rust_counts_the_same() -> None:
    """Needs Rust; what takes Python minutes is counted there as well."""
    try:
        program = build()
    except CheckerMissingError as error:
        pytest.skip(str(error))
    lines = run(program, list(COUNTS), threads=2)
    assert len(lines) == len(COUNTS) and find_differences(lines) == []


@pytest.mark.parametrize(("seed", "changes"), [(0, 0), (4, 0), (3, 6), (11, 6)])
def test_a_simulated_cluster_takes_steps_of_the_specification(seed: int, changes: int) -> None:
    steps = trace_of(seed, 6 * SECOND_NS, changes)
    raft = validate(steps)
    assert max(node.commit for node in raft.nodes.values()) > 0
    assert changes or any(step.has_crashed for step in steps)
    assert bool(raft.changes) == bool(changes)


@dataclass
class Alteration:
    """One altered event of a trace: which, and what becomes of it."""

    fits: Callable[[Step], bool]
    change: Callable[[Seen], Seen]
    rule: str


ALTERATIONS = {
    "a commit position goes back": Alteration(
        lambda step: step.seen.commit > 0, lambda seen: seen._replace(commit=0), "only rises"
    ),
    "more is committed than is durable": Alteration(
        lambda step: step.seen.commit > 0, lambda seen: seen._replace(commit=end_of(seen.log) + 32), "durable"
    ),
    "a follower leads": Alteration(
        lambda step: step.seen.commit > 0 and not step.seen.leads, lambda seen: seen._replace(leads=True), "§5.2"
    ),
    "a term goes back": Alteration(
        lambda step: step.seen.term > 0, lambda seen: seen._replace(term=seen.term - 1), r"§5\.2|by Raft it is"
    ),
    "what is durable is lost": Alteration(
        lambda step: step.seen.commit > 0,
        lambda seen: seen._replace(log=cut(seen.log, seen.commit - 32), durable=seen.commit - 32),
        "§5",
    ),
    "a record of another term": Alteration(
        lambda step: step.seen.commit > 0 and not step.seen.leads,
        lambda seen: seen._replace(log=(*seen.log, (seen.term + 1, end_of(seen.log) + 32))),
        r"§5\.3|by Raft it is",
    ),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_a_trace_with_one_altered_event_is_refused(name: str) -> None:
    alteration = ALTERATIONS[name]
    steps = trace_of(0, 2 * SECOND_NS)
    index = max(index for index, step in enumerate(steps) if alteration.fits(step) and not step.has_crashed)
    validate(steps[: index + 1])
    steps[index] = steps[index]._replace(seen=alteration.change(steps[index].seen))
    with pytest.raises(Refused, match=alteration.rule):
        validate(steps[: index + 1])


def test_a_vote_for_another_is_refused() -> None:
    steps = trace_of(0, 2 * SECOND_NS)
    index = next(index for index, step in enumerate(steps) if step.voted_for)
    ((candidate, term),) = steps[index].voted_for
    other = next(one for one in range(3) if one not in (candidate, steps[index].member))
    steps[index] = steps[index]._replace(voted_for=((other, term),))
    with pytest.raises(Refused, match=r"§5\.2"):
        validate(steps[: index + 1])


def test_a_vote_that_is_left_out_is_refused() -> None:
    """Without it the leader has no quorum."""
    steps = trace_of(0, 2 * SECOND_NS)
    silent = [step._replace(voted_for=()) for step in steps]
    with pytest.raises(Refused, match=r"§5\.2: a quorum has voted"):
        validate(silent)


@pytest.mark.parametrize(
    "name",
    [
        "commit_on_a_minority",
        "old_terms_are_committed_by_count",
        "two_votes_in_a_term",
        "older_logs_are_voted_for",
        "what_is_not_known_to_be_committed_is_thrown_away",
    ],
)
def test_a_core_with_a_planted_bug_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_NAME[name](monkeypatch.setattr)
    for seed in range(30):
        try:
            validate(trace_of(seed, 6 * SECOND_NS))
        except Refused:
            return
        except AssertionError:  # the simulation has seen it first
            continue
    pytest.fail(f"{name} was never refused")


def test_logs_are_compared_by_their_runs() -> None:
    log = ((0, 96), (2, 320))
    assert cut(log, 96) == ((0, 96),)
    assert cut(log, 100) == ((0, 96), (2, 100))
    assert cut(log, 0) == ()
    assert common_end(log, ((0, 96), (1, 320))) == 96
    assert common_end(log, ((0, 128),)) == 96
    assert is_prefix(((0, 64),), log)
    assert not is_prefix(((0, 128),), log)


def test_one_member_alone_elects_itself_and_commits() -> None:
    """A whole life, step by step."""
    raft = Raft(frozenset({0}), {0: Node()})
    raft = raft.stand(0, 0).lead(0).append(0, 96)
    with pytest.raises(Refused, match="durable"):
        raft.commit(0, 96)
    raft = raft.sync(0, 96).commit(0, 96)
    raft = raft.append(0, 128).resign(0).lose(0, 96).crash(0)
    assert raft.nodes[0] == Node(term=0, vote=specification.SPENT, log=((0, 96),), durable=96)
    with pytest.raises(Refused, match="higher term"):
        raft.stand(0, 0)


def test_a_step_that_shows_nothing_new_is_none() -> None:
    raft = Raft(frozenset({0}), {0: Node()})
    assert follow(raft, Step(0, Seen(-1, (), 0, 0, False))) == raft

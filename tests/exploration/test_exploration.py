"""Every order of events within bounds (docs/EXPLORATION.md), and proof that the exploration sees."""

from __future__ import annotations

import pytest

from tests.exploration.bounds import BOUNDS, DEPOSED, explore, space_of
from tests.exploration.planted import PLANTED, Planted
from tests.exploration.search import Search
from tests.exploration.space import Bounds, Left, Space
from tests.exploration.visited import Form, Visited
from tests.exploration.walks import walk_often
from tests.thorough import few_of

STATES_OF_EACH = 3_000
STATES_OF_PLANTED = 20_000
WALKS_OF_EACH = 12
STATES_OF_WHOLE = 20_000
ENDING = {
    "transfer": Bounds(Left(transfers=1)),
    "reads": Bounds(Left(reads=2), stages=DEPOSED),
}
"""Bounds in which a search ends that leaves nothing out."""


@pytest.mark.parametrize("name", few_of(BOUNDS, ["elections", "log", "reads", "transfer"]))
def test_no_order_of_events_breaks_a_rule(name: str) -> None:
    report = explore(name, STATES_OF_EACH)
    assert not report.problem, "\n".join([report.problem, *report.path])
    assert report.states >= STATES_OF_EACH or report.is_complete
    assert report.fair_runs > 0


@pytest.mark.parametrize("name", few_of(BOUNDS, ["transfer"]))
def test_no_random_walk_breaks_a_rule(name: str) -> None:
    """Walks go as deep as no search does, and end in a cluster that has come to life."""
    report = walk_often(space_of(name), WALKS_OF_EACH)
    assert not report.problem, "\n".join([report.problem, *report.path])
    assert report.fair_runs == WALKS_OF_EACH


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
@pytest.mark.parametrize("is_reduced", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["reduced", "whole"])
def test_a_planted_bug_is_found_by_the_shortest_way(
    planted: Planted, is_reduced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.plant(monkeypatch.setattr)
    report = explore(planted.bounds, STATES_OF_PLANTED, is_reduced)
    assert report.problem, f"not found in {report.describe()}"
    assert len(report.path) == planted.steps_max, "\n".join([report.problem, *report.path])


def test_small_bounds_are_explored_to_their_end() -> None:
    """One record, and no fault: all states are few, and the record is committed in some of them."""
    space = Space(Bounds(Left(appends=1)))
    commits: set[int] = set()
    search = Search(space, STATES_OF_WHOLE, on_step=lambda before, action, after: commits.add(len(after.committed_in)))
    report = search.run()
    assert report.is_complete, report.describe()
    assert commits == {1, 2}


@pytest.mark.parametrize("name", ENDING)
def test_the_reduction_meets_all_that_the_whole_search_meets(name: str) -> None:
    """Where both come to an end, the same members with the same pasts were met, by far fewer states."""
    whole, reduced = (Search(Space(ENDING[name]), STATES_OF_WHOLE, is_reduced=one) for one in (False, True))
    for search in (whole, reduced):
        report = search.run()
        assert report.is_complete and not report.problem, report.describe()
    assert reduced.visited.cores == whole.visited.cores
    assert len(reduced.visited) < len(whole.visited)


def test_a_state_is_covered_by_one_with_more_on_its_way_and_more_left() -> None:
    visited = Visited(Space(Bounds(Left(timeouts=2, crashes=1))), True)
    forms = Form(1, 0b011, 0x0101), Form(1, 0b001, 0x0100), Form(1, 0b001, 2)
    assert [visited.add(form, -1, ()) for form in forms] == [0, None, 1]
    assert visited.add(Form(1, 0b111, 0x0102), -1, ()) == 2
    assert not visited.is_kept(Form(1, 0b011, 0x0101)) and not visited.is_kept(Form(1, 0b001, 2))
    assert visited.add(Form(2, 0, 0), -1, ()) == 3


def test_members_that_are_exchanged_make_the_same_state() -> None:
    """Of three members that have just started, any one that times out makes the same state."""
    space = Space(Bounds(Left(timeouts=1), stages=()))
    state = space.begin()
    visited = Visited(space, False)
    forms = {visited.form(space.take(state, ("timeout", member_id))) for member_id in (0, 1, 2)}
    assert len(forms) == 1
    assert visited.form(state) not in forms


def test_the_same_exploration_twice_sees_the_same() -> None:
    assert explore("log", 500) == explore("log", 500)

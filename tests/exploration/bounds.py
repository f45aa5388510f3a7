"""What is explored: each with its bounds, and with the place in a cluster's life from which it goes on."""

from __future__ import annotations

from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.messages import Vote
from tests.exploration.refinement import Refinement
from tests.exploration.search import Report, Search
from tests.exploration.space import Bounds, Left, Space, Stage

ALL_FOLLOW = (Stage(),)
DEPOSED = (Stage(appends=4), Stage((0,)))
"""A leader has records that nobody else has, and does not know that the others have elected another."""
FIGURE_8 = (Stage(appends=1), Stage((0,), is_whole=False), Stage((1,), is_whole=False))
"""The first leader is elected anew; its record is of a term before that of a record which another member has."""

UNTOLD = (Stage(appends=1, commits=True), Stage((0,), is_whole=False))
"""A leader has committed a record, and its successor was elected before it heard of that."""
LATE_ANSWERS = (Stage(reads=True), Stage((0,), commits=True, keeps=True))
"""A leader was asked for the read index; others have elected another since, and one of their answers is on its way."""
LATE_VOTES = (Stage(), Stage((0,), until=Vote))
"""A candidate has asked for votes, and one is on its way."""
REMOVED = (Stage(), Stage((0,), changes=True, commits=True))
"""The leader of three was removed by its successor, and has not heard of it."""

BOUNDS: dict[str, Bounds] = {
    "cold": Bounds(Left(timeouts=2, crashes=1), stages=(), terms=2),
    "elections": Bounds(Left(timeouts=3, crashes=1), terms=2),
    "repeated": Bounds(Left(timeouts=2, beats=1), terms=2, in_flight=2, repeats=True),
    "one_crash": Bounds(Left(crashes=1)),
    "one_timeout": Bounds(Left(timeouts=1)),
    "three_terms": Bounds(Left(timeouts=3, crashes=2, appends=4), terms=3),
    "log": Bounds(Left(timeouts=2, crashes=2, appends=2), terms=1),
    "truncation": Bounds(Left(timeouts=2, crashes=1, appends=1), stages=DEPOSED, terms=1),
    "older_terms": Bounds(Left(timeouts=2, crashes=1), stages=FIGURE_8, terms=1),
    "transfer": Bounds(Left(timeouts=1, beats=1, transfers=1, appends=1), terms=2),
    "reads": Bounds(Left(timeouts=1, reads=2, appends=1), stages=DEPOSED, terms=1),
    "late_answers": Bounds(Left(timeouts=1, reads=1, appends=1), stages=LATE_ANSWERS, terms=1),
    "untold": Bounds(Left(timeouts=1, crashes=1, reads=1), stages=UNTOLD, terms=1),
    "late_votes": Bounds(Left(timeouts=2, crashes=1), stages=LATE_VOTES, terms=2),
    "two": Bounds(Left(timeouts=1, crashes=1, appends=1), learners=(2,), alike=(0, 1)),
    "removed": Bounds(Left(timeouts=2, crashes=1), stages=REMOVED, wanted=Configuration((0, 1)), alike=(0, 1), terms=1),
    "learner": Bounds(
        Left(timeouts=2, crashes=1, changes=1, appends=1),
        (0, 1, 2, 3),
        (3,),
        wanted=Configuration((0, 1, 2, 3)),
        alike=(0, 1, 2),
    ),
    "five": Bounds(
        Left(timeouts=2, crashes=1, changes=1), (0, 1, 2, 3, 4), wanted=Configuration((0, 1, 2, 4)), alike=(0, 1, 2)
    ),
}
"""By name."""


def space_of(name: str) -> Space:
    """Return the space of some bounds, in which each step must be one of the specification's."""
    space = Space(BOUNDS[name])
    space.follower = Refinement(space)
    return space


def explore(name: str, states_max: int, is_reduced: bool = True) -> Report:
    """Explore some bounds, up to so many states."""
    return Search(space_of(name), states_max, is_reduced=is_reduced).run()

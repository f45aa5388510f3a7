"""Random walks through a space: far deeper than a search comes that goes through everything, each by one way only."""

from __future__ import annotations

from random import Random

from tests.exploration.fairness import Stuck, begin, come_to_life
from tests.exploration.search import Report, describe
from tests.exploration.space import Action, Left, Space, State, Violation

STEPS_MAX = 80
MORE_OFTEN = 4
"""How many times as often as in a search each thing may happen in a walk."""
PROGRESS = ("deliver", "data", "sync")
PROGRESS_PROBABILITY = 0.85


def walk(space: Space, seed: int) -> Report:
    """Walk once from the beginning, and then on without faults; the report has the way where a rule is broken."""
    rng, actions = Random(seed), list[Action]()
    report = Report()
    state = begin(space)
    state = state._replace(left=Left(*(MORE_OFTEN * each for each in state.left)))
    try:
        for _ in range(STEPS_MAX):
            action = _choose(space, state, rng)
            if action is None:
                break
            actions.append(action)
            state = space.take(state, action)
        come_to_life(space, state)
        report.fair_runs = 1
    except (Violation, Stuck) as error:
        report.problem = str(error)
        report.path = [describe(space, action) for action in actions]
    report.steps = report.depth = len(actions)
    return report


def walk_often(space: Space, walks: int) -> Report:
    """Walk so many times, or until a rule is broken; return a report of all walks together."""
    total = Report()
    for seed in range(walks):
        one = walk(space, seed)
        total.steps += one.steps
        total.depth = max(total.depth, one.depth)
        total.fair_runs += one.fair_runs
        if one.problem:
            total.problem, total.path = f"walk {seed}: {one.problem}", one.path
            break
    total.member_states, total.core_steps = len(space.views), space.steps
    return total


def _choose(space: Space, state: State, rng: Random) -> Action | None:
    actions = [one for one in space.actions(state) if not space.is_idle(state, one)]
    progress = [one for one in actions if one[0] in PROGRESS]
    others = [one for one in actions if one[0] not in PROGRESS]
    if progress and (not others or rng.random() < PROGRESS_PROBABILITY):
        return rng.choice(progress)
    return rng.choice(others) if others else None

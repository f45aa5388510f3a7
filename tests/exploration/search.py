"""Breadth-first search through a space: each state once, and the shortest way to whatever breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.exploration.fairness import Stuck, begin, come_to_life
from tests.exploration.space import Action, Space, State, Violation
from tests.exploration.visited import Form, Visited

FAIR_RUNS = 200
Met = tuple[State, int, Form]
"""A state to go on from, its number, and its form."""


@dataclass
class Report:
    """What a search has seen."""

    states: int = 0
    steps: int = 0
    depth: int = 0
    is_complete: bool = False
    fair_runs: int = 0
    problem: str = ""
    path: list[str] = field(default_factory=list)
    member_states: int = 0
    core_steps: int = 0

    def describe(self) -> str:
        """Return one line."""
        end = "all within the bounds" if self.is_complete else "stopped at the limit"
        return (
            f"{self.states} states, {self.steps} steps, depth {self.depth}, {end};"
            f" {self.member_states} states of a member, {self.core_steps} steps of the core,"
            f" {self.fair_runs} fair runs"
        )


class Search:
    """Goes through a space from its beginning."""

    def __init__(
        self,
        space: Space,
        states_max: int,
        fair_runs: int = FAIR_RUNS,
        on_step: Callable[[State, Action, State], None] | None = None,
        is_reduced: bool = True,
    ) -> None:
        self.space = space
        self.report = Report()
        self.visited = Visited(space, is_reduced)
        self._states_max = states_max
        self._fair_runs = fair_runs
        self._on_step = on_step

    def run(self) -> Report:
        """Search until everything was seen, the limit is reached, or a rule is broken."""
        report = self.report
        try:
            self._run()
        except Violation as error:
            report.problem = str(error)
        report.states = len(self.visited)
        report.member_states, report.core_steps = len(self.space.views), self.space.steps
        return report

    def _run(self) -> None:
        space, report, visited = self.space, self.report, self.visited
        state = begin(space)
        space.term_max = space.bounds.terms + max(space.views[one].bound_to for one in state.members)
        form = visited.form(state)
        visited.add(form, -1, ())
        level: list[Met] = [(state, 0, form)]
        sample, rng = list(level), Random(1)
        while level:
            following: list[Met] = []
            for met in level:
                if len(visited) >= self._states_max:
                    self._check_life(sample)
                    return
                if visited.is_kept(met[2]):
                    following += self._expand(met)
            report.depth += 1
            level = following
            count = min(len(level), max(1, self._fair_runs // 20))
            sample += rng.sample(level, count)
        report.is_complete = True
        report.depth -= 1
        self._check_life(sample)

    def _expand(self, met: Met) -> list[Met]:
        space, visited, found = self.space, self.visited, []
        before, number, _ = met
        for action in space.actions(before):
            self.report.steps += 1
            if space.is_idle(before, action):
                continue
            try:
                after = space.take(before, action)
                if self._on_step is not None:
                    self._on_step(before, action, after)
            except Violation:
                self.report.path = self._path_to(number, action)
                raise
            if not space.is_within(after):
                continue
            form = visited.form(after)
            after_number = visited.add(form, number, action)
            if after_number is not None:
                found.append((after, after_number, form))
        return found

    def _check_life(self, sample: list[Met]) -> None:
        for state, number, _ in sample[-self._fair_runs :]:
            self.report.fair_runs += 1
            try:
                come_to_life(self.space, state)
            except (Stuck, Violation) as error:
                self.report.path = self._path_to(number, None)
                raise Violation(f"from here on, with nothing going wrong any more: {error}") from error

    def _path_to(self, number: int, last: Action | None) -> list[str]:
        actions = [*self.visited.path_to(number), *([] if last is None else [last])]
        return [describe(self.space, action) for action in actions]


def describe(space: Space, action: Action) -> str:
    """Return a step as a line to read."""
    kind, subject, *arguments = action
    if kind == "deliver":
        source_id, target_id, message = space.messages[subject]
        shown = ", ".join(f"{name}={value}" for name, value in zip(message._fields, message, strict=True))
        return f"member {target_id} gets of {source_id}: {type(message).__name__}({shown})"
    words = {
        "timeout": "has waited for longer than every timeout",
        "beat": "sends again what is due",
        "crash": "crashes and starts again; records kept of those not synced: {}",
        "sync": "has its log durable",
        "data": "gets the next record of the log that it joined",
        "append": "appends a client's record",
        "transfer": "hands the leadership to {}",
        "read": "is asked for the read index",
        "change": "appends the new configuration",
    }[kind].format(*arguments)
    return f"member {subject} {words}"

"""Which states a search has seen, and which of them cover others.

A state covers another one if its members and its past are the same, and all that is on its way in the other, or may
still happen there, is on its way or may happen in it as well: it has the other's messages and leaders' logs, and each
kind of event is left at least as often. Messages may always be lost, so that every step from the covered state is one
from the covering state, and the states after it cover each other again. A rule that is broken after the covered state
is broken after the covering one, in as few steps; only the latter is gone on from. Where several messages of a kind are
kept on a link, a new one displaces the least of them, and with more messages before there may be others afterwards: a
state is then covered by its equal alone.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from tests.exploration.space import Action, Space, State

LEFT_BITS = 8
LEFT_MAX = (1 << LEFT_BITS - 1) - 1


class Form(NamedTuple):
    """A state as the search keeps it, the same under every name that its members may have."""

    core: int
    """The members and the past."""
    others: int
    """A bit for each message that is on its way, and for each log that a leader has sent."""
    left: int
    """How often each thing may still happen, in LEFT_BITS bits each, the highest of which is free."""


class Visited:
    """All forms that were met; those that another one covers are forgotten."""

    def __init__(self, space: Space, is_reduced: bool) -> None:
        self._space = space
        self._covers = is_reduced and space.bounds.in_flight == 1
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._parents, self._actions = array("q"), list[Action]()
        self._shared: dict[Action, Action] = {}
        fields = len(space.bounds.left)
        self._guard = sum(1 << (LEFT_BITS * (index + 1) - 1) for index in range(fields))
        assert max(space.bounds.left) <= LEFT_MAX

    @property
    def cores(self) -> frozenset[int]:
        """All members with their pasts that were met, whatever was on its way."""
        return frozenset(self._groups)

    def __len__(self) -> int:
        return len(self._parents)

    def form(self, state: State) -> Form:
        """Return the form of a state."""
        core, others = self._space.canonical_parts(state)
        left = 0
        for index, each in enumerate(state.left):
            left |= each << (LEFT_BITS * index)
        return Form(core, others, left)

    def add(self, form: Form, parent: int, action: Action) -> int | None:
        """Return the number of a state that was not met before, and that no other covers; None for others."""
        _, others, left = form
        group = self._groups.get(form.core)
        if group is None:
            self._groups[form.core] = [(others, left)]
        elif self._covers:
            if any(self._is_covered(others, left, one) for one in group):
                return None
            group[:] = [one for one in group if not self._is_covered(*one, (others, left))]
            group.append((others, left))
        elif (others, left) in group:
            return None
        else:
            group.append((others, left))
        self._parents.append(parent)
        self._actions.append(self._shared.setdefault(action, action))
        return len(self._parents) - 1

    def is_kept(self, form: Form) -> bool:
        """Return whether no state that was met later covers this one."""
        return not self._covers or form[1:] in self._groups[form.core]

    def path_to(self, number: int) -> list[Action]:
        """Return the steps from the beginning to a state."""
        actions = []
        while number > 0:
            actions.append(self._actions[number])
            number = self._parents[number]
        return actions[::-1]

    def _is_covered(self, others: int, left: int, by: tuple[int, int]) -> bool:
        guard = self._guard
        return others | by[0] == by[0] and ((by[1] | guard) - left) & guard == guard

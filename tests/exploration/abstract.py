"""All states that the specification (tests.exploration.raft) allows within bounds, counted one after the other.

The model in `tests/exploration/model` is the same specification in Rust, written a second time for a checker that is
not ours. Where both count the same states within the same bounds, neither allows what the other does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.exploration.raft import Node, Raft, Refused, cut, demand, end_of, is_prefix


class Limits(NamedTuple):
    """Where a count ends."""

    members: int
    terms: int
    records: int
    """How long a log may be; records have the length 1."""
    crashes: int
    changes: int
    """How often a leader may append a record that takes the vote from the last member."""


COUNTS = {
    "2-2-1-1-0": 3_035,
    "2-2-2-0-1": 7_932,
    "3-1-2-0-0": 13_562,
    "3-1-2-1-1": 100_530,
    "3-2-1-0-0": 149_431,
    "3-2-1-1-0": 694_324,
}
"""How many states there are within limits, by their names."""
OFTEN = ("2-2-1-1-0", "2-2-2-0-1", "3-1-2-0-0")
"""Those that are counted in Python each time the tests run."""


State = tuple[Raft, int]
"""The specification's state, and how often members have crashed."""


def limits_of(name: str) -> Limits:
    """Return the limits of a name."""
    return Limits(*map(int, name.split("-")))


def count(limits: Limits) -> int:
    """Go through all states within limits, and check each. Raises Refused where a state breaks a rule."""
    first = Raft(frozenset(range(limits.members)), {one: Node() for one in range(limits.members)}), 0
    seen, todo = {_key(first)}, [first]
    while todo:
        state = todo.pop()
        check(state[0])
        for after in _steps(state, limits):
            key = _key(after)
            if key not in seen:
                seen.add(key)
                todo.append(after)
    return len(seen)


def check(raft: Raft) -> None:
    """Check what must be so in each state: what is committed is the same everywhere, and later leaders have it."""
    nodes = list(raft.nodes.values())
    for one in nodes:
        for other in nodes:
            end = min(one.commit, other.commit)
            demand(cut(one.log, end) == cut(other.log, end), "§5.4.3: what is committed is the same everywhere")
    for term, office in raft.offices.items():
        for later, other_office in raft.offices.items():
            committed = cut(office.log, office.commit)
            demand(later < term or is_prefix(committed, other_office.log), "§5.4: later leaders have what is committed")


def _key(state: State) -> Any:
    raft, crashes = state
    nodes = tuple(raft.nodes.values())
    others = tuple(tuple(sorted(each.items())) for each in (raft.requests, raft.offices, raft.changes))
    return nodes, others, crashes


def _steps(state: State, limits: Limits) -> Iterator[State]:
    raft, crashes = state
    for member in raft.nodes:
        if crashes < limits.crashes:
            yield raft.crash(member), crashes + 1
        for take in _offers(raft, member, limits):
            try:
                after = take()
            except Refused:
                continue
            yield after, crashes


def _offers(raft: Raft, member: int, limits: Limits) -> Iterator[Callable[[], Raft]]:
    """Yield every step that there could be; the specification says which there are."""
    node = raft.nodes[member]
    for term in range(limits.terms):
        yield lambda term=term: raft.learn_term(member, term)  # type: ignore[misc]
        yield lambda term=term: raft.stand(member, term)  # type: ignore[misc]
        for candidate in raft.nodes:
            yield lambda term=term, candidate=candidate: raft.vote(member, candidate, term)  # type: ignore[misc]
    yield lambda: raft.lead(member)
    yield lambda: raft.resign(member)
    end = end_of(node.log)
    if end < limits.records:
        yield lambda: raft.append(member, end + 1)
        if len(raft.changes) < limits.changes:
            yield lambda: raft.append(member, end + 1, raft.voters - {limits.members - 1})
    for position in range(limits.records + 1):
        yield lambda position=position: raft.copy(member, position)  # type: ignore[misc]
        if position < end:
            yield lambda position=position: raft.truncate(member, position)  # type: ignore[misc]
        yield lambda position=position: raft.sync(member, position)  # type: ignore[misc]
        yield lambda position=position: raft.lose(member, position)  # type: ignore[misc]
        yield lambda position=position: raft.commit(member, position)  # type: ignore[misc]

"""Which streams a turn looks at, however many strangers open."""

from __future__ import annotations

from cluster.module.sources import Allowance, Source, Sources
from tests.archive.streams import Stream

STRANGERS = 100
PER_TURN = 8


def test_who_is_proven_is_looked_at_each_turn_and_strangers_in_turns() -> None:
    sources, known = Sources(), [Source(Stream().image) for _ in range(STRANGERS + 2)]
    for one in known:
        sources.add(one)
    members = known[-2:]
    for one in members:
        sources.promote(one)
    turns = [sources.turn() for _ in range(-(-STRANGERS // PER_TURN))]
    assert all(turn[:2] == members and len(turn) == 2 + PER_TURN for turn in turns)
    assert {id(one) for turn in turns for one in turn} == {id(one) for one in known}

    sources.remove(members[0].image)
    for one in known[5:-2]:
        sources.remove(one.image)
    assert [set(map(id, sources.turn())) for _ in range(3)] == [set(map(id, [members[1], *known[:5]]))] * 3
    for one in known:
        sources.remove(one.image)
    assert sources.turn() == []


def test_strangers_have_an_allowance_that_fills_up_again() -> None:
    allowance = Allowance(1000, 4)
    assert [allowance.ask(10_000_000) for _ in range(6)] == [True] * 4 + [False] * 2
    assert [allowance.ask(at) for at in (10_999_999, 11_000_000, 11_000_000)] == [False, True, False]
    assert [allowance.ask(60_000_000) for _ in range(5)] == [True] * 4 + [False], "no more is saved than a burst"

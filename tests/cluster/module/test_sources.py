"""Which streams a turn looks at, however many strangers open."""

from __future__ import annotations

from ordo.sequencer.sources import Allowance, Source, Sources
from tests.archive.streams import Stream

STRANGERS = 100
PER_TURN = 8
INTERVAL_NS = 100_000


def test_who_is_proven_is_looked_at_each_turn_and_strangers_in_turns() -> None:
    sources, known = Sources(), [Source(Stream().image) for _ in range(STRANGERS + 2)]
    for one in known:
        sources.add(one)
    members = known[-2:]
    for one in members:
        sources.promote(one)
    turns = [sources.turn(INTERVAL_NS * turn) for turn in range(1, 1 - (-STRANGERS // PER_TURN))]
    assert all(turn[:2] == members and len(turn) == 2 + PER_TURN for turn in turns)
    assert {id(one) for turn in turns for one in turn} == {id(one) for one in known}

    sources.remove(members[0].image)
    for one in known[5:-2]:
        sources.remove(one.image)
    assert [set(map(id, sources.turn(0))) for _ in range(3)] == [set(map(id, [members[1], *known[:5]]))] * 3
    for one in known:
        sources.remove(one.image)
    assert sources.turn(0) == []


def test_many_strangers_are_looked_at_now_and_then_and_few_each_turn() -> None:
    """A leader without work turns as often as a flood wakes it: what it looks at each time is the flood's to say."""
    sources, known = Sources(), [Source(Stream().image) for _ in range(PER_TURN + 1)]
    for one in known:
        sources.add(one)
    sources.promote(known[0])
    assert [len(sources.turn(1)) for _ in range(3)] == [1 + PER_TURN] * 3

    sources.add(Source(Stream().image))
    looked = [len(sources.turn(INTERVAL_NS * tenth // 10)) for tenth in range(10, 40)]
    assert looked == ([1 + PER_TURN] + [1] * 9) * 3


def test_strangers_have_an_allowance_that_fills_up_again() -> None:
    allowance = Allowance(1000, 4)
    assert [allowance.ask(10_000_000) for _ in range(6)] == [True] * 4 + [False] * 2
    assert [allowance.ask(at) for at in (10_999_999, 11_000_000, 11_000_000)] == [False, True, False]
    assert [allowance.ask(60_000_000) for _ in range(5)] == [True] * 4 + [False], "no more is saved than a burst"


def test_each_turn_begins_with_another_source_and_the_first_lane_goes_before_all() -> None:
    sources, (one, two, three, first) = Sources(), [Source(Stream().image) for _ in range(4)]
    for source in (one, two, three, first):
        sources.promote(source)
    sources.set_lane(first, 1, True)
    assert [sources.end_round() for _ in range(4)] == [
        [first, one, two, three], [first, two, three, one], [first, three, one, two], [first, one, two, three]
    ]  # fmt: skip


def test_sources_of_the_first_lane_take_turns_among_themselves() -> None:
    """One that sends more than its principal's quota, or than there is room for, left nothing for the one behind it."""
    sources, (one, first, second) = Sources(), [Source(Stream().image) for _ in range(3)]
    for source in (one, second, first):
        sources.set_lane(source, 1, source is not one)
        sources.promote(source)
    assert [sources.end_round() for _ in range(3)] == [
        [first, second, one], [second, first, one], [first, second, one]
    ]  # fmt: skip
    assert sources.end_round(cut=0) == [second, first, one], "it is still its turn"
    assert sources.end_round(cut=1) == [second, first, one]
    assert sources.end_round() == [first, second, one]


def test_who_found_no_room_begins_the_next_turn() -> None:
    """A light client would otherwise wait for its turn to come round while floods take what room there is."""
    sources, known = Sources(), [Source(Stream().image) for _ in range(3)]
    for source in known:
        sources.promote(source)
    one, two, three = known
    assert sources.end_round(cut=1) == [one, two, three]
    assert sources.end_round(cut=0) == [two, three, one], "it is still its turn"
    assert sources.end_round() == [two, three, one]
    assert sources.end_round() == [three, one, two]
    sources.remove(three.image)
    assert {*sources.end_round()} == {one, two}

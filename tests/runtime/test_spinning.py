"""A thread looks for more before it parks while what it waits for comes fast, and parks at once otherwise."""

from __future__ import annotations

from ordo.runtime.agents.spinning import Spinning

TURNS = 3
FAST_NS, SLOW_NS = 100_000, 1_000_000


def step(spinning: Spinning, moved: int, now_ns: int) -> int:
    """How many turns there are behind a turn that did something."""
    spinning.note(moved, now_ns)
    return spinning.turns_left


def test_a_log_that_stands_still_or_moves_slowly_has_no_turns() -> None:
    spinning = Spinning(TURNS)
    assert not spinning.take()
    now_ns = 5
    for moved in range(1, 6):
        now_ns += SLOW_NS
        assert step(spinning, moved, now_ns) == 0
        assert step(spinning, moved, now_ns + 1) == 0, "work that does not move the log"


def test_each_fast_step_gives_so_many_turns_and_no_more() -> None:
    spinning = Spinning(TURNS)
    step(spinning, 1, 0)
    assert step(spinning, 2, FAST_NS) == TURNS
    assert [spinning.take() for _ in range(TURNS + 1)] == [True] * TURNS + [False]
    assert step(spinning, 2, FAST_NS + 1) == 0, "nothing has moved"
    assert step(spinning, 3, 2 * FAST_NS) == TURNS


def test_one_message_at_a_time_has_a_leader_look_for_the_acknowledgement_and_a_follower_park() -> None:
    leader, follower = Spinning(TURNS), Spinning(TURNS)
    for number in range(20):
        at_ns = number * SLOW_NS
        step(leader, 2 * number + 1, at_ns)
        step(follower, number + 1, at_ns)
        assert step(leader, 2 * number + 2, at_ns + FAST_NS) == TURNS, "the commit, soon behind the message"
    assert (step(leader, 100, 20 * SLOW_NS), step(follower, 100, 20 * SLOW_NS)) == (TURNS, 0)


def test_turns_end_soon_after_a_burst() -> None:
    spinning = Spinning(TURNS)
    for moved in range(1, 1000):
        step(spinning, moved, moved * 1000)
    turns = [step(spinning, 1000 + number, (number + 1) * SLOW_NS * 2) for number in range(20)]
    assert turns[0] == TURNS and turns[-1] == 0


def test_none_are_taken_where_none_are_configured() -> None:
    spinning = Spinning(0)
    assert [step(spinning, moved, moved) for moved in range(1, 5)] == [0, 0, 0, 0]
    assert not spinning.take()

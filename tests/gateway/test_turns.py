"""Appends of one session go in their order, few at a time where a quota holds the session back."""

from __future__ import annotations

from functools import partial

from ordo.gateway.doors.turns import BYTES_MAX, HELD_ORDERS_MAX, ORDERS_MAX, Turn, Turns


class Line:
    """Appends that wait for their turns."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.begun: list[int] = []
        self.asked: list[Turn] = []

    def add(self, count: int, length: int = 1, line: object = None) -> None:
        for number in range(len(self.asked), len(self.asked) + count):
            self.asked.append(self.turns.ask(length, line, partial(self.begun.append, number)))


def test_as_many_appends_are_under_way_as_may_be_and_the_others_follow_in_their_order() -> None:
    line = Line()
    line.add(ORDERS_MAX + 3)
    assert line.begun == list(range(ORDERS_MAX))
    for _ in range(3):
        line.turns.give_back(1)
    assert line.begun == list(range(ORDERS_MAX + 3))


def test_bytes_are_bounded_and_one_append_is_never_too_long() -> None:
    line = Line()
    line.add(1, 2 * BYTES_MAX)
    line.add(3, BYTES_MAX // 2)
    assert line.begun == [0]
    line.turns.give_back(2 * BYTES_MAX)
    assert line.begun == [0, 1, 2], "a short one does not go before a longer one, and two fill it"


def test_few_are_under_way_while_the_session_is_held_back() -> None:
    line = Line()
    line.turns.hold(True)
    line.add(5)
    assert line.begun == list(range(HELD_ORDERS_MAX))
    line.turns.give_back(1)
    assert len(line.begun) == HELD_ORDERS_MAX + 1
    line.turns.hold(False)
    assert line.begun == list(range(5))


def test_one_that_is_given_up_takes_no_turn_and_those_behind_it_go_on() -> None:
    line = Line()
    line.add(1, BYTES_MAX - 1)
    line.add(1, BYTES_MAX)
    line.add(1, 1)
    assert line.begun == [0] and line.asked[1].is_waiting
    line.turns.give_up(line.asked[1:2])
    assert line.begun == [0, 2]
    line.turns.give_up(line.asked[1:2])
    line.turns.give_up(line.asked[:1])  # its turn has come: it is under way
    line.add(1, BYTES_MAX)
    assert line.begun == [0, 2]


def test_who_begins_may_give_its_turn_back_at_once_and_ask_again() -> None:
    """As one does of which another try was sent meanwhile. However many there are, none is called within another."""
    line, depth, deepest = Line(), 0, 0

    def begin(number: int) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        line.begun.append(number)
        line.turns.give_back(BYTES_MAX)
        if number < 2_000:
            line.turns.ask(BYTES_MAX, "line", partial(begin, number + 1_000))
        depth -= 1

    line.turns.ask(BYTES_MAX, None, lambda: None)
    for number in range(1_000):
        line.turns.ask(BYTES_MAX, "line", partial(begin, number))
    line.turns.give_back(BYTES_MAX)
    assert line.begun == list(range(3_000)) and deepest == 1


def test_who_comes_while_others_wait_goes_after_them() -> None:
    line = Line()
    line.add(1, BYTES_MAX)
    line.add(1, BYTES_MAX)
    line.add(1)
    assert line.begun == [0]
    line.turns.give_back(BYTES_MAX)
    assert line.begun == [0, 1]
    line.turns.give_back(BYTES_MAX)
    assert line.begun == [0, 1, 2]


def test_lines_take_turns_and_each_keeps_its_order() -> None:
    line = Line()
    line.add(1, BYTES_MAX)
    line.add(3, BYTES_MAX, "big")
    line.add(2, BYTES_MAX, "another")
    line.add(1, 1, "small")
    for _ in range(6):
        line.turns.give_back(BYTES_MAX if line.begun[-1] != 6 else 1)
    assert line.begun == [0, 1, 4, 6, 2, 5, 3]


def test_a_line_whose_appends_are_given_up_holds_up_no_other() -> None:
    line = Line()
    line.add(1, BYTES_MAX)
    line.add(2, BYTES_MAX, "gone")
    line.add(1, BYTES_MAX, "there")
    line.turns.give_up(line.asked[1:3])
    line.turns.give_back(BYTES_MAX)
    assert line.begun == [0, 3]

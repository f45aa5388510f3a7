"""Appends of one session go in their order, few at a time where a quota holds the session back."""

from __future__ import annotations

import asyncio

from ordo.gateway.doors.turns import BYTES_MAX, HELD_ORDERS_MAX, ORDERS_MAX, Turns


async def settle() -> None:
    """Have everybody who can go on do so."""
    for _ in range(3):
        await asyncio.sleep(0)


class Line:
    """Appends that wait for their turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.begun: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def take(self, number: int, length: int = 1, line: object = None) -> None:
        await self.turns.take(length, line)
        self.begun.append(number)

    async def add(self, count: int, length: int = 1, line: object = None) -> None:
        for _ in range(count):
            self.tasks.append(asyncio.create_task(self.take(len(self.tasks), length, line)))
        await settle()


def test_as_many_appends_are_under_way_as_may_be_and_the_others_follow_in_their_order() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(ORDERS_MAX + 3)
        assert line.begun == list(range(ORDERS_MAX))
        for _ in range(3):
            line.turns.give_back(1)
        await settle()
        assert line.begun == list(range(ORDERS_MAX + 3))

    asyncio.run(work())


def test_bytes_are_bounded_and_one_append_is_never_too_long() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, 2 * BYTES_MAX)
        await line.add(3, BYTES_MAX // 2)
        assert line.begun == [0]
        line.turns.give_back(2 * BYTES_MAX)
        await settle()
        assert line.begun == [0, 1, 2], "a short one does not go before a longer one, and two fill it"

    asyncio.run(work())


def test_few_are_under_way_while_the_session_is_held_back() -> None:
    async def work() -> None:
        line = Line(Turns())
        line.turns.hold(True)
        await line.add(5)
        assert line.begun == list(range(HELD_ORDERS_MAX))
        line.turns.give_back(1)
        await settle()
        assert len(line.begun) == HELD_ORDERS_MAX + 1
        line.turns.hold(False)
        await settle()
        assert line.begun == list(range(5))

    asyncio.run(work())


def test_one_that_is_given_up_takes_no_turn_and_those_behind_it_go_on() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX - 1)
        await line.add(1, BYTES_MAX)
        await line.add(1, 1)
        line.tasks[1].cancel()
        await settle()
        assert line.begun == [0, 2]

    asyncio.run(work())


def test_a_turn_that_came_when_it_was_given_up_goes_to_the_next() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX)
        await line.add(2, BYTES_MAX)
        line.turns.give_back(BYTES_MAX)
        line.tasks[1].cancel()  # before it has noticed that its turn has come
        await settle()
        assert line.begun == [0, 2]

    asyncio.run(work())


def test_who_comes_before_one_that_has_been_called_has_run_goes_after_it() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX)
        await line.add(1)
        newcomers = [asyncio.create_task(line.take(2 + index)) for index in range(3)]  # they run first
        line.turns.give_back(BYTES_MAX)
        newcomers[1].cancel()
        await settle()
        assert line.begun == [0, 1, 2, 4]

    asyncio.run(work())


def test_one_that_is_given_up_when_it_has_been_called_lets_newcomers_go() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX)
        await line.add(1)
        newcomer = asyncio.create_task(line.take(2))
        line.turns.give_back(BYTES_MAX)
        line.tasks[1].cancel()
        await settle()
        assert newcomer.done() and line.begun == [0, 2]

    asyncio.run(work())


def test_lines_take_turns_and_each_keeps_its_order() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX)
        await line.add(3, BYTES_MAX, "big")
        await line.add(2, BYTES_MAX, "another")
        await line.add(1, 1, "small")
        for _ in range(6):
            line.turns.give_back(BYTES_MAX if line.begun[-1] != 6 else 1)
            await settle()
        assert line.begun == [0, 1, 4, 6, 2, 5, 3]

    asyncio.run(work())


def test_a_line_whose_appends_are_given_up_holds_up_no_other() -> None:
    async def work() -> None:
        line = Line(Turns())
        await line.add(1, BYTES_MAX)
        await line.add(2, BYTES_MAX, "gone")
        await line.add(1, BYTES_MAX, "there")
        for task in line.tasks[1:3]:
            task.cancel()
        await settle()
        line.turns.give_back(BYTES_MAX)
        await settle()
        assert line.begun == [0, 3]

    asyncio.run(work())

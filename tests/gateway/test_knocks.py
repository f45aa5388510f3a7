"""Whether others listen, by sockets of this process."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import Any

import pytest

from ordo.gateway.doors import knocks as knocks_module
from ordo.gateway.doors.knocks import LOOKUPS_MAX, Knocks


async def listen(port: int = 0) -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def test_one_that_was_reached_and_is_refused_is_gone_until_it_answers_again() -> None:
    async def work() -> None:
        knocks = Knocks()
        server, address = await listen()
        assert await knocks.ask({"a": address}) == ({"a"}, set())
        assert await knocks.ask({"a": address}) == (set(), set()) and not knocks.is_gone("a")
        server.close()
        assert await knocks.ask({"a": address}) == (set(), {"a"}) and knocks.is_gone("a")
        assert await knocks.ask({"a": address}) == (set(), set()), "it is told once"
        again, _ = await listen(int(address.rpartition(":")[2]))
        await knocks.ask({"a": address})
        assert not knocks.is_gone("a")
        again.close()

    asyncio.run(work())


def test_a_refusal_of_one_that_was_never_reached_says_nothing() -> None:
    async def work() -> None:
        knocks = Knocks()
        server, address = await listen()
        server.close()
        assert await knocks.ask({"a": address, "b": "no such host:1"}) == (set(), set())
        assert not knocks.is_gone("a") and not knocks.is_gone("b")

    asyncio.run(work())


def test_another_process_at_the_address_of_one_that_is_gone_is_not_gone() -> None:
    async def work() -> None:
        knocks = Knocks()
        server, address = await listen()
        await knocks.ask({"a": address})
        server.close()
        await knocks.ask({"a": address})
        await knocks.ask({"b": address})
        assert not knocks.is_gone("b") and not knocks.is_gone("a"), "who is not asked for any more is forgotten"

    asyncio.run(work())


class SlowNames(asyncio.SelectorEventLoop):
    """An event loop whose names have addresses once `answer` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._answers: list[asyncio.Future[None]] = []

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        self.asked.append(host)
        self._answers.append(self.create_future())
        await self._answers[-1]
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in ("127.0.0.2", "127.0.0.1")
        ]

    def fail(self) -> None:
        for one in self._answers:
            if not one.done():
                one.set_exception(socket.gaierror(socket.EAI_AGAIN, "no server answers"))

    def answer(self) -> None:
        for one in self._answers:
            if not one.done():
                one.set_result(None)


def test_a_name_that_no_server_answers_for_is_looked_up_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = SlowNames()

    async def work() -> None:
        knocks = Knocks()
        server, address = await listen()
        port = address.rpartition(":")[2]
        names = {name: f"{name}.example:{port}" for name in "abcd"}
        monkeypatch.setattr(knocks_module, "KNOCK_S", 0.01)
        for _ in range(3):
            assert await knocks.ask(names) == (set(), set())
        assert loop.asked == ["a.example", "b.example"] and len(loop.asked) == LOOKUPS_MAX
        monkeypatch.setattr(knocks_module, "KNOCK_S", 60.0)
        asking = asyncio.create_task(knocks.ask(names))
        while not asking.done():
            loop.answer()
            await asyncio.sleep(0)
        assert await asking == (set(names), set()), "one of the addresses is enough"
        assert set(loop.asked) == {f"{name}.example" for name in "abcd"}
        server.close()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work())


async def end_of_lookups() -> None:
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})


def test_addresses_of_the_last_lookup_do_while_the_next_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups that hang leave no turn to others: who can be reached by what is known is not waited for."""
    loop = SlowNames()

    async def work() -> None:
        knocks = Knocks()
        server, address = await listen()
        names = {"a": f"a.example:{address.rpartition(':')[2]}"}
        monkeypatch.setattr(knocks_module, "KNOCK_S", 0.01)
        assert await knocks.ask(names) == (set(), set())
        loop.answer()
        await end_of_lookups()
        monkeypatch.setattr(knocks_module, "KNOCK_S", 60.0)
        monkeypatch.setattr(knocks_module, "LOOKUP_S", 0.0)
        assert await knocks.ask(names) == ({"a"}, set()), "found when nobody waited for it"
        server.close()
        assert await knocks.ask(names) == (set(), {"a"})
        assert loop.asked == ["a.example"] * 2, "the second one is still under way"

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work())


def test_a_lookup_that_fails_when_nobody_waits_for_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = SlowNames()
    told: list[Any] = []

    async def work() -> None:
        loop.set_exception_handler(lambda _, context: told.append(context))
        monkeypatch.setattr(knocks_module, "KNOCK_S", 0.01)
        assert await Knocks().ask({"a": "a.example:1"}) == (set(), set())
        loop.fail()
        await end_of_lookups()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work())
    gc.collect()
    assert told == []

"""Whether others listen, by sockets of this process."""

from __future__ import annotations

import asyncio

from ordo.gateway.doors.knocks import Knocks


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

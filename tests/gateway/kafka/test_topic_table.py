"""Where topics end: as the cluster says it, whatever was known of another one, and never behind what was read since."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.gateway.kafka.topic_table import TopicTable


class Asked:
    """A session whose questions are answered when the test says so, in any order."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[dict[str, int]]] = []

    async def query(self, *_: Any) -> dict[str, int]:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def refresh(table: TopicTable, session: Asked, numbers: dict[str, int]) -> None:
    """Ask, and have it answered with the last numbers of topics."""
    asking = await begin(table, session)
    session.answers[-1].set_result(numbers)
    await asking


async def begin(table: TopicTable, session: Asked) -> asyncio.Task[None]:
    """Ask, and return what ends with the answer."""
    asking = asyncio.create_task(table.refresh(cast(ClusterSession, session)))
    await asyncio.sleep(0)
    return asking


def test_topics_are_shorter_once_a_standby_without_their_ends_was_promoted() -> None:
    """A client that wanted the end of a topic was told one that the topic came to later, and read nothing before it."""

    async def work() -> None:
        table, session = TopicTable(), Asked()
        await refresh(table, session, {"orders": 10, "trades": 3, LOG_TOPIC: 7})
        table.note_end("orders", 13)
        await refresh(table, session, {"orders": 12, "trades": 2})
        assert (table.end_of("orders"), table.end_of("trades"), table.names) == (13, 3, ["orders", "trades"])
        await refresh(table, session, {"orders": 5})
        assert (table.end_of("orders"), table.names) == (6, ["orders"])

    asyncio.run(work())


def test_what_is_read_while_the_cluster_is_asked_counts_whatever_it_answers() -> None:
    async def work() -> None:
        table, session = TopicTable(), Asked()
        await refresh(table, session, {"orders": 10})
        asking = await begin(table, session)
        table.note_end("orders", 14)
        table.note_end("orders", 12)
        table.note_end("unknown", 9)
        session.answers[-1].set_result({"orders": 10})
        await asking
        assert (table.end_of("orders"), table.end_of("unknown")) == (14, 1)

    asyncio.run(work())


def test_an_answer_that_comes_after_that_to_a_later_question_says_nothing_new() -> None:
    async def work() -> None:
        table, session = TopicTable(), Asked()
        late = await begin(table, session)
        await refresh(table, session, {"orders": 11})
        session.answers[0].set_result({"orders": 10})
        await late
        assert table.end_of("orders") == 12

    asyncio.run(work())

"""Producers that a quota of the cluster holds back: what they are told, and how the door waits with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo.gateway.kafka.connection import THROTTLE_S_MAX
from ordo.gateway.kafka.service.orders import KafkaError, OrderAnswer
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.messages import Api
from ordo.runtime.errors import ClusterTimeoutError, RequestOutcome
from tests.gateway.kafka.batches import response_of
from tests.gateway.kafka.conftest import BOUNDED_TOKEN, StartDoor
from tests.gateway.kafka.memory import MemoryDoor, framed, pass_time, run
from tests.gateway.kafka.test_connection import METADATA, fetch, produce

REQUESTS = [produce([(None, b"%d" % number, [])], number) for number in range(2, 6)]


class Slow:
    """A cluster that takes a while to answer each order of a producer."""

    def __init__(self, door: MemoryDoor, seconds: float) -> None:
        self._door = door
        self._seconds = seconds
        self.begun_s: list[float] = []

    async def answer(self, payload: bytes) -> OrderAnswer:
        self.begun_s.append(asyncio.get_running_loop().time())
        await pass_time(self._seconds)
        return OrderAnswer(KafkaError.NONE, len(self.begun_s))


async def told(seconds: float, is_held: bool, acks: int = -1) -> tuple[list[int], list[float]]:
    """Return the throttle time of each of some requests in ms, and when each began, in seconds after the first one."""
    door = MemoryDoor()
    await door.serve(framed(METADATA))  # which creates the topic
    slow = Slow(door, seconds)
    door.session.answer_client = slow.answer
    door.session.turns.hold(is_held)
    requests = [produce([(None, b"x", [])], number, acks) for number in range(2, 6)]
    # The first one lets the client in: a door knows who is held back from then on.
    frames = (await door.serve(*map(framed, [METADATA, *requests, fetch(1, 9)]))).frames()[1:]
    assert response_of(Api.FETCH, 11, frames.pop())[1].throttle_time.total_seconds() == 0, "consumers are not held back"
    milliseconds = [round(response_of(Api.PRODUCE, 8, one)[1].throttle_time.total_seconds() * 1_000) for one in frames]
    return milliseconds, [round(one - slow.begun_s[0], 3) for one in slow.begun_s]


def test_who_is_not_held_back_is_told_nothing_and_its_requests_are_under_way_together() -> None:
    assert run(told(2.0, is_held=False)) == ([0] * 4, [0.0] * 4)


def test_who_is_held_back_is_told_how_long_it_is_not_read() -> None:
    longest_ms = round(THROTTLE_S_MAX * 1_000)
    assert run(told(0.04, is_held=True)) == ([40] * 4, [0.0, 0.08, 0.16, 0.24])
    assert run(told(2.0, is_held=True)) == ([longest_ms] * 4, [0.0, 2.1, 4.2, 6.3])


def test_who_asks_for_no_answer_is_held_back_all_the_same() -> None:
    assert run(told(2.0, is_held=True, acks=0)) == ([], [0.0, 2.1, 4.2, 6.3])


class OfMemory(ClusterSession):
    """A session whose orders are noted, and answered when the test says so."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(KafkaSettings(endpoints=["127.0.0.1:9"], timeout_s=timeout_s), b"")
        self.sent: list[tuple[bytes, float | None]] = []
        self.answered = asyncio.Event()

    async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
        self.sent.append((payload, timeout_s))
        await self.answered.wait()
        return OrderAnswer(KafkaError.NONE, 1)


def test_what_has_no_turn_in_time_is_not_sent_and_what_has_one_late_is_waited_for_the_rest_of_the_time() -> None:
    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.turns.hold(True)
        await session.turns.take(1)
        one = asyncio.create_task(session.append(b"one"))
        await pass_time(4.0)
        two = asyncio.create_task(session.append(b"two"))
        three = asyncio.create_task(session.append(b"three"))
        await pass_time(4.0)
        session.turns.give_back(1)
        await pass_time(0.0)
        assert session.sent == [(b"one", 10.0), (b"two", 6.0)]
        with pytest.raises(ClusterTimeoutError, match="not sent") as trouble:
            await three
        assert trouble.value.outcome is RequestOutcome.NOT_EXECUTED
        session.answered.set()
        await asyncio.gather(one, two)
        assert [payload for payload, _ in session.sent] == [b"one", b"two"]

    run(work())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_client_as_it_is_slows_down_and_loses_nothing(start_door: StartDoor, topic: str, tmp_path: Path) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from tests.gateway.kafka.test_clients import Sent, read_all

    token_file = tmp_path / "bounded.token"
    token_file.write_text(BOUNDED_TOKEN)
    token_file.chmod(0o600)
    address = start_door("--token-file", str(token_file)).address
    throttled: list[float] = []

    def note(event: Any) -> None:
        throttled.append(event.throttle_time)

    sent = Sent(address, **{"batch.num.messages": 1, "linger.ms": 0, "throttle_cb": note})
    payloads = [b"%d" % index for index in range(300)]
    sent.send(topic, payloads)
    sent.await_some(150)
    reader = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": topic, "log_level": 0})
    assert reader.list_topics(topic, 5.0).topics[topic].error is None, "what it asks is not behind all of that"
    reader.close()
    sent.await_all()
    assert sent.offsets == list(range(1, 301))
    assert throttled and 0 < max(throttled) <= THROTTLE_S_MAX
    assert read_all(address, topic, 300) == list(enumerate(payloads, 1))

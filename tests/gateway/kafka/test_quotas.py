"""Producers that a quota of the cluster holds back: what they are told, and how the door waits with them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo.cluster.client.requests.request_window import Answer
from ordo.gateway.doors.known_orders import KNOWN_MAX, KnownOrders
from ordo.gateway.doors.turns import BYTES_MAX, HELD_ORDERS_MAX
from ordo.gateway.kafka import sessions
from ordo.gateway.kafka.connection import THROTTLE_S_MAX
from ordo.gateway.kafka.service.orders import Append, KafkaError, OrderAnswer
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.messages import Api
from ordo.runtime.errors import ClusterTimeoutError, OrdoError, RequestOutcome
from tests.gateway.kafka.appends import encode_appends
from tests.gateway.kafka.batches import response_of
from tests.gateway.kafka.conftest import BOUNDED_TOKEN, StartDoor
from tests.gateway.kafka.memory import MemoryDoor, framed, pass_time, run
from tests.gateway.kafka.test_connection import METADATA, fetch, produce
from tests.patience import patient

DONE = OrderAnswer(KafkaError.NONE, 1)
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
        self.sent: list[bytes] = []
        self.answered = asyncio.Event()

    async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
        self.sent.append(payload)
        try:
            async with asyncio.timeout(timeout_s):
                await self.answered.wait()
        except TimeoutError:
            raise ClusterTimeoutError("still under way", outcome=RequestOutcome.UNKNOWN) from None
        return OrderAnswer(KafkaError.NONE, 1)


def test_what_has_no_turn_early_enough_to_be_answered_is_not_sent() -> None:
    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.answered.set()
        session.turns.ask(BYTES_MAX, None, lambda: None)
        one = asyncio.create_task(session.append([b"one"]))
        await pass_time(2.0)
        two = asyncio.create_task(session.append([b"two"]))
        await pass_time(6.0)
        session.turns.give_back(BYTES_MAX)
        (trouble,) = await one
        assert isinstance(trouble, ClusterTimeoutError) and "not sent" in str(trouble)
        assert trouble.outcome is RequestOutcome.NOT_EXECUTED
        assert await two == [DONE]
        assert session.sent == [b"two"]

    run(work())


@pytest.mark.parametrize("is_given_up", [False, True])
def test_what_is_not_answered_in_time_keeps_its_turn_until_it_is(is_given_up: bool) -> None:
    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.turns.hold(True)
        session.turns.ask(1, None, lambda: None)
        one = asyncio.create_task(session.append([b"one"]))
        await pass_time(1.0)
        if is_given_up:
            one.cancel()  # its client has gone
        else:
            (trouble,) = await one
            assert isinstance(trouble, ClusterTimeoutError) and "still under way" in str(trouble)
            assert trouble.outcome is RequestOutcome.UNKNOWN
        two = asyncio.create_task(session.append([b"two"]))
        await pass_time(7.0)
        assert session.sent == [b"one"], "it is in the stream still"
        session.answered.set()
        await two
        assert session.sent == [b"one", b"two"]

    run(work())


def test_of_a_client_that_is_gone_nothing_more_is_sent_and_those_behind_it_go_on() -> None:
    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.turns.hold(True)
        gone = asyncio.create_task(session.append([b"1", b"2", b"3", b"4"], "gone"))
        there = asyncio.create_task(session.append([b"5"], "there"))
        await pass_time(1.0)
        gone.cancel()
        session.answered.set()
        assert await there == [DONE] and session.sent == [b"1", b"2", b"5"]

    run(work())


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_short_end_of_a_batch_that_is_given_up_does_not_go_without_what_comes_before_it(is_gone: bool) -> None:
    """There was room for it in the stream, once the longer part before it waited no more."""

    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.answered.set()
        session.turns.ask(BYTES_MAX - 2, None, lambda: None)
        batch = asyncio.create_task(session.append([b"long", b"x", b"y"]))
        await pass_time(5.0)
        if is_gone:
            batch.cancel()
            await asyncio.wait([batch])
        else:
            outcomes = [isinstance(one, OrdoError) and one.outcome for one in await batch]
            assert outcomes == [RequestOutcome.NOT_EXECUTED] * 3
        assert session.sent == []
        assert await session.append([b"z"]) == [DONE]

    run(work())


class Order(bytearray):
    """An order of which a test sees whether somebody still has it."""


def test_an_order_that_is_done_or_given_up_is_not_kept() -> None:
    """Whoever asked again while the cluster was away left each try behind in the door, which no limit counted."""

    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.answered.set()
        one = Order(b"one")
        done = weakref.ref(one)
        orders = cast("list[bytes]", [one])
        assert await session.append(orders) == [DONE]
        del one, orders[:], session.sent[:]
        assert done() is None
        session.turns.ask(BYTES_MAX, "first", lambda: None)
        session.turns.ask(BYTES_MAX, "first", lambda: None)  # its line is the one whose turn is next
        two = Order(b"two")
        given_up = weakref.ref(two)
        orders.append(cast("bytes", two))
        (trouble,) = await session.append(orders, "second")
        assert isinstance(trouble, ClusterTimeoutError)
        del two, orders[:]
        assert given_up() is None

    gc.disable()
    try:
        run(work())
    finally:
        gc.enable()


def test_two_tries_of_an_order_that_wait_for_their_turns_send_it_once_and_both_are_told() -> None:
    async def work() -> None:
        session, orders = OfMemory(timeout_s=10.0), parts_of(2, producer_id=7)
        session.answered.set()
        session.turns.ask(BYTES_MAX, None, lambda: None)
        tries = [asyncio.create_task(session.append(orders, line)) for line in ("first", "second")]
        await pass_time(1.0)
        session.turns.give_back(BYTES_MAX)
        assert await asyncio.gather(*tries) == [[DONE, DONE]] * 2 and session.sent == orders

    run(work())


def test_what_is_under_way_when_the_session_is_closed_is_told_to_those_who_wait() -> None:
    async def work() -> None:
        session = OfMemory(timeout_s=10.0)
        session.turns.hold(True)
        tries = [asyncio.create_task(session.append([number])) for number in (b"1", b"2")]
        await pass_time(1.0)
        session.close()
        assert [type(one) for one in await asyncio.gather(*tries, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 2

    run(work())


class Opening:
    """A client of a cluster that opens when the test says so."""

    session_id = 1

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.asked: list[bytes] = []

    async def open(self) -> None:
        await self.opened.wait()

    async def request(self, payload: bytes, timeout_s: float) -> Answer:
        self.asked.append(payload)
        raise ClusterTimeoutError("late", outcome=RequestOutcome.UNKNOWN)


def test_nobody_goes_before_those_who_have_waited_for_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        client = Opening()
        monkeypatch.setattr(sessions, "AsyncClusterClient", lambda *_, **__: client)
        session = ClusterSession(KafkaSettings(endpoints=["127.0.0.1:9"]), b"")
        orders = [asyncio.create_task(session.order(one)) for one in (b"1", b"2", b"3")]
        await pass_time(0.0)
        client.opened.set()
        orders.append(asyncio.create_task(session.order(b"4")))  # runs when the first one has opened it
        await asyncio.gather(*orders, return_exceptions=True)
        assert client.asked == [b"1", b"2", b"3", b"4"]

    run(work())


@pytest.mark.parametrize("count", [20, 21, 22, 40])
def test_many_who_send_again_what_was_late_have_few_orders_under_way_and_each_is_told_done(count: int) -> None:
    counts = {"executed": 0, "told": 0, "in the stream": 0}

    class Bounded(OfMemory):
        stream = asyncio.Lock()

        async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
            counts["in the stream"] += 1
            assert counts["in the stream"] <= HELD_ORDERS_MAX
            executed = asyncio.create_task(self._execute())
            if not (await asyncio.wait([executed], timeout=timeout_s))[0]:
                raise ClusterTimeoutError("still under way", outcome=RequestOutcome.UNKNOWN)
            return OrderAnswer(KafkaError.NONE, 1)

        async def _execute(self) -> None:
            async with self.stream:
                await pass_time(0.5)
            counts["executed"] += 1
            counts["in the stream"] -= 1

    async def produce_on(session: ClusterSession, number: int) -> None:
        await pass_time(number / 100)
        while True:
            found = await session.append([b"record"])
            counts["told"] += found == [DONE]

    async def work() -> None:
        session = Bounded(timeout_s=10.0)
        session.turns.hold(True)
        producers = [asyncio.create_task(produce_on(session, number)) for number in range(count)]
        await pass_time(100.0)
        for one in producers:
            one.cancel()
        await asyncio.gather(*producers, return_exceptions=True)

    run(work())
    assert counts["executed"] >= 190 and counts["told"] >= counts["executed"] - HELD_ORDERS_MAX


class Quota(OfMemory):
    """A session of which a quota lets two orders a second through."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.turns.hold(True)
        self._stream = asyncio.Lock()

    async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
        async with self._stream:
            self.sent.append(payload)
            await pass_time(0.5)
        return OrderAnswer(KafkaError.NONE, 1)


async def send_again(session: ClusterSession, orders: Sequence[bytes]) -> int:
    """Send the parts of a batch until all are answered in one try, and return how many tries it took."""
    for count in range(1, 10):
        found = await session.append(orders, "line")
        if not any(isinstance(one, OrdoError) for one in found):
            return count
    return 0


def parts_of(count: int, producer_id: int) -> Sequence[bytes]:
    payloads = [number.to_bytes(4, "big") for number in range(count)]
    return encode_appends(Append("orders", producer_id, 0, 0, payloads), 1)


def test_a_batch_that_is_sent_again_goes_on_with_what_is_not_in_yet() -> None:
    async def work() -> None:
        session, orders = Quota(timeout_s=10.0), parts_of(40, producer_id=7)
        assert await send_again(session, orders) == 3
        assert session.sent == orders, "each part is paid for once"
        await session.append(parts_of(1, producer_id=8))
        assert len(session.sent) == len(orders) + 1, "another producer's"

    run(work())


def test_what_nobody_can_tell_from_another_is_sent_each_time() -> None:
    async def work() -> None:
        session, orders = Quota(timeout_s=10.0), parts_of(1, producer_id=-1)
        for _ in range(2):
            await session.append(orders)
        assert session.sent == [*orders, *orders]

    run(work())


@pytest.mark.parametrize("answer", [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, None])
def test_what_was_not_appended_is_sent_again(answer: int | None) -> None:
    class Refusing(Quota):
        async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
            found = await super().order(payload, timeout_s)
            if len(self.sent) > 1:
                return found
            if answer is None:
                raise ClusterTimeoutError("late", outcome=RequestOutcome.UNKNOWN)
            return OrderAnswer(answer, -1)

    async def work() -> None:
        session, orders = Refusing(timeout_s=10.0), parts_of(1, producer_id=7)
        (first,) = await session.append(orders)
        assert isinstance(first, ClusterTimeoutError) if answer is None else first == OrderAnswer(answer, -1)
        assert await session.append(orders) == [DONE]
        assert session.sent == [*orders, *orders]

    run(work())


def test_what_is_known_of_appends_is_bounded() -> None:
    async def work() -> None:
        known, order = KnownOrders[OrderAnswer](bool), asyncio.create_task(OfMemory(1.0).order(b""))
        for number in range(KNOWN_MAX + 1):
            known.note(b"%d" % number, order)
        assert [known.find(b"%d" % number) for number in (0, 1, KNOWN_MAX)] == [None, order, order]
        order.cancel()

    run(work())


def test_a_producer_that_sends_much_does_not_hold_up_others_with_its_token() -> None:
    async def send_much(session: ClusterSession, line: str) -> None:
        while True:
            await session.append([b"x" * 65_000] * 64, line)

    async def work() -> float:
        session = Quota(timeout_s=30.0)
        big = [asyncio.create_task(send_much(session, line)) for line in ("one", "two")]
        await pass_time(10.0)
        begun_s = asyncio.get_running_loop().time()
        await session.append([b"small"], "three")
        for one in big:
            one.cancel()
        await asyncio.gather(*big, return_exceptions=True)
        return asyncio.get_running_loop().time() - begun_s

    assert run(work()) <= 3.0, "it waits for those in the stream, and for one of each other line"


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
    assert reader.list_topics(topic, patient(5.0)).topics[topic].error is None, "what it asks is not behind all of that"
    reader.close()
    sent.await_all()
    assert sent.offsets == list(range(1, 301))
    assert throttled and 0 < max(throttled) <= THROTTLE_S_MAX
    assert read_all(address, topic, 300) == list(enumerate(payloads, 1))

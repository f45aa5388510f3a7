"""`Consumers.Consume` without a cluster: steps in, messages out, no faster than they are taken, and every end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import grpc
import pytest

from ordo.consumers.async_consumer import AsyncFace
from ordo.gateway.callers.batches import BATCH_BYTES_MAX, ITEM_OVERHEAD_BYTES
from ordo.gateway.callers.bounds import CallPlaces, NoPlaceError
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.services.consume_members import (
    ACKNOWLEDGEMENTS_MAX,
    ExclusiveCall,
    SharedCall,
    Standing,
    open_member,
    settings_of,
)
from ordo.gateway.services.consume_streams import ConsumeStreams
from ordo.runtime.errors import ClusterError, ConfigurationError, NotPermittedError, OrdoError
from ordo.service_api import ordo_pb2 as pb

SETTINGS = GatewaySettings(endpoints=["127.0.0.1:9"])
BEGIN = pb.ConsumeRequest(begin=pb.BeginConsuming(name="billing"))
T = TypeVar("T")


class Refused(Exception):
    """A call that the gateway has ended."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class MemoryMember:
    """A member whose messages a test puts in; a commit and an acknowledgement settle with the next change."""

    def __init__(self, *payloads: bytes) -> None:
        self.messages = deque(
            pb.ConsumedEntry(entry=pb.LogEntry(position=64 * (1 + index), payload=payload), try_count=1)
            for index, payload in enumerate(payloads)
        )
        self.steps: list[object] = []
        self.state = Standing(0, is_active=True, epoch=7)
        self.wanted = 0
        self.failure: OrdoError | None = None
        self.is_open = False

    async def __aenter__(self) -> Self:
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open = False

    def take(self) -> pb.ConsumedEntry | None:
        if self.failure is not None:
            raise self.failure
        return self.messages.popleft() if self.messages else None

    def standing(self) -> Standing:
        return self.state

    def carry_out(self, request: pb.ConsumeRequest) -> None:
        step = request.WhichOneof("step")
        if step == "acknowledgements":
            found = request.acknowledgements.acknowledgements
            self.steps += [(one.position, one.try_count, one.is_given_back, one.delay_ms) for one in found]
        elif step == "commit_position":
            self.steps.append(request.commit_position)
            self.wanted = request.commit_position
            self.state = self.state._replace(unsent_count=1)
        else:
            raise ClusterError("that was not handed out in this epoch")

    async def await_change(self) -> None:
        await asyncio.sleep(0)
        self.state = self.state._replace(committed_position=self.wanted, unsent_count=0)


class Call:
    """A caller: what it sends, what it was sent, and for how many responses it has room."""

    def __init__(self, *requests: pb.ConsumeRequest, room: int = 1_000, stays: bool = False) -> None:
        self.responses: list[pb.ConsumeResponse] = []
        self._requests = requests
        self._stays = stays
        self.room = asyncio.Semaphore(room)
        self.left = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[pb.ConsumeRequest]:
        for one in self._requests:
            yield one
        if self._stays:
            await self.left.wait()

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return [("authorization", "Bearer secret")]

    def peer(self) -> str:
        return "ipv4:127.0.0.1:50052"

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: object) -> None:
        raise Refused(code, details)

    async def write(self, message: Any) -> None:
        await self.room.acquire()
        self.responses.append(message)

    @property
    def payloads(self) -> list[bytes]:
        return [one.entry.payload for response in self.responses for one in response.entries]


class World:
    """Streams in front of one member."""

    def __init__(self, member: MemoryMember, places_max: int = 1) -> None:
        self.member = member
        self.credentials: list[bytes] = []
        self.stopping = asyncio.Event()
        self.places = CallPlaces(places_max, "subscriptions", "--subscriptions-max")
        sessions: Any = SimpleNamespace(get=self._session)
        self.streams = ConsumeStreams(SETTINGS, sessions, self.places, self.stopping, self._open)

    async def _session(self, credentials: bytes | None, timeout_s: float, host: str) -> object:
        return object()

    def _open(self, begin: pb.BeginConsuming, settings: GatewaySettings, credentials: bytes) -> MemoryMember:
        self.credentials.append(credentials)
        return self.member

    async def refusal(self, call: Call) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(Refused) as refused:
            await self.streams.serve(call, call)
        assert not self.member.is_open
        assert self.places.taken == 0
        return refused.value.code, str(refused.value)


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await work()

    return asyncio.run(bounded())


async def until(is_true: Callable[[], bool]) -> None:
    """Return once it is; turns of the loop are counted, not time."""
    for _ in range(10_000):
        if is_true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come true")


def commit(position: int) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(commit_position=position)


def test_messages_come_and_what_is_committed_is_told_before_the_end() -> None:
    async def work() -> tuple[World, Call]:
        world, call = World(MemoryMember(b"a", b"b")), Call(BEGIN, commit(128))
        await world.streams.serve(call, call)
        return world, call

    world, call = run(work)
    assert world.credentials == [b"secret"]
    assert world.member.steps == [128]
    assert call.responses[-1].committed_position == 128
    assert (call.responses[-1].is_active, call.responses[-1].epoch) == (True, 7)
    assert not world.member.is_open


def test_acknowledgements_reach_the_member_as_they_were_sent() -> None:
    done = pb.Acknowledgement(position=64, try_count=1)
    back = pb.Acknowledgement(position=128, try_count=3, is_given_back=True, delay_ms=500)
    sent = pb.ConsumeRequest(acknowledgements=pb.Acknowledgements(acknowledgements=[done, back]))

    async def work() -> list[object]:
        world, call = World(MemoryMember()), Call(BEGIN, sent)
        await world.streams.serve(call, call)
        return world.member.steps

    assert run(work) == [(64, 1, False, 0), (128, 3, True, 500)]


def test_a_caller_that_takes_nothing_is_sent_nothing_more() -> None:
    half = b"x" * (BATCH_BYTES_MAX // 2 - ITEM_OVERHEAD_BYTES)

    async def work() -> None:
        world, call = World(MemoryMember(*[half] * 6)), Call(BEGIN, room=1, stays=True)
        serving = asyncio.create_task(world.streams.serve(call, call))
        await until(lambda: len(call.responses) == 1)
        await until(lambda: len(world.member.messages) == 2)
        assert len(call.payloads) == 2, "a batch is no longer than one is"
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(world.member.messages) == 2, "the second batch is under way, and no third"
        for _ in range(10):
            call.room.release()
        await until(lambda: len(call.payloads) == 6)
        call.left.set()
        await serving

    run(work)


def test_a_long_message_is_sent_alone() -> None:
    """With others in front of it, it would be longer than callers take by default, at each new call."""
    short, long = b"x" * (BATCH_BYTES_MAX - 100), b"y" * (4 * BATCH_BYTES_MAX - 200)

    async def work() -> Call:
        world, call = World(MemoryMember(short, long, short, short)), Call(BEGIN, stays=True)
        serving = asyncio.create_task(world.streams.serve(call, call))
        await until(lambda: len(call.payloads) == 4)
        call.left.set()
        await serving
        return call

    call = run(work)
    assert call.payloads == [short, long, short, short]
    assert max(one.ByteSize() for one in call.responses) < 4 << 20


def test_what_waits_is_of_its_time() -> None:
    """An entry that was taken while this member was the active one is not sent with the number of a later time."""
    most = b"x" * (BATCH_BYTES_MAX - 100)

    async def work() -> Call:
        member = MemoryMember(most, most)
        world, call = World(member), Call(BEGIN, room=0, stays=True)
        serving = asyncio.create_task(world.streams.serve(call, call))
        await until(lambda: not member.messages)
        member.state = member.state._replace(epoch=9)
        member.messages.append(pb.ConsumedEntry(entry=pb.LogEntry(position=64, payload=b"again")))
        for _ in range(10):
            call.room.release()
        await until(lambda: len(call.payloads) == 2)
        call.left.set()
        await serving
        return call

    call = run(work)
    assert call.payloads == [most, b"again"]
    assert [(one.epoch, len(one.entries)) for one in call.responses if one.entries] == [(7, 1), (9, 1)]


class SeekConsumer:
    """What an exclusive call holds: a consumer that an operator moves."""

    position, is_active, epoch, is_paused = 100, True, 7, False

    def begin_commit(self, position: int) -> Callable[[], bool]:
        epoch = self.epoch

        def is_committed() -> bool:
            if self.position < position and self.epoch != epoch:
                raise ClusterError("the consumer was moved")
            return self.position >= position

        return is_committed


def test_a_consumer_that_is_moved_back_behind_what_is_committed_goes_on() -> None:
    consumer: Any = SeekConsumer()
    call = ExclusiveCall(consumer)
    call.carry_out(commit(200))
    assert call.standing().unsent_count == 1
    consumer.position = 200
    assert call.standing().unsent_count == 0
    consumer.position, consumer.epoch = 0, 9
    assert call.standing() == Standing(0, is_active=True, epoch=9)
    call.carry_out(commit(100))
    consumer.epoch = 11
    with pytest.raises(ClusterError, match="was moved"):
        call.standing()


def test_the_end_of_the_gateway_is_told() -> None:
    async def work() -> tuple[grpc.StatusCode, str]:
        world, call = World(MemoryMember(b"a")), Call(BEGIN, stays=True)
        serving = asyncio.create_task(world.refusal(call))
        await until(lambda: call.payloads == [b"a"])
        world.stopping.set()
        return await serving

    code, text = run(work)
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "begin again" in text


@pytest.mark.parametrize(
    ("requests", "code", "text"),
    [
        ([], grpc.StatusCode.INVALID_ARGUMENT, "must have `begin`"),
        ([commit(64)], grpc.StatusCode.INVALID_ARGUMENT, "must have `begin`"),
        ([BEGIN, BEGIN], grpc.StatusCode.FAILED_PRECONDITION, "was not handed out in this epoch"),
    ],
)
def test_steps_that_cannot_be(requests: list[pb.ConsumeRequest], code: grpc.StatusCode, text: str) -> None:
    async def work() -> tuple[grpc.StatusCode, str]:
        return await World(MemoryMember()).refusal(Call(*requests))

    found = run(work)
    assert found[0] is code
    assert text in found[1]


def test_a_member_that_cannot_go_on_ends_its_call() -> None:
    async def work() -> tuple[grpc.StatusCode, str]:
        member = MemoryMember()
        member.failure = NotPermittedError("consumers: the role is missing")
        return await World(member).refusal(Call(BEGIN, stays=True))

    assert run(work) == (grpc.StatusCode.PERMISSION_DENIED, "consumers: the role is missing")


def test_as_many_calls_as_there_are_places() -> None:
    async def work() -> tuple[grpc.StatusCode, str]:
        return await World(MemoryMember(), places_max=0).refusal(Call(BEGIN))

    code, text = run(work)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "--subscriptions-max" in text
    places = CallPlaces(1, "subscriptions", "--subscriptions-max")
    with places.one(), pytest.raises(NoPlaceError), places.one():
        pass
    assert places.taken == 0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "a/b"),
        ({"name": "b", "kinds": ["nonsense"]}, "kind 'nonsense'"),
        ({"name": "b", "from_position": -1}, "start=-1"),
        ({"name": "b", "from_timestamp": 1 << 62}, "from_timestamp"),
        ({"name": "b", "tries_max": 3}, "are for shared consumers"),
        ({"name": "b", "is_shared": True, "tries_max": 0}, "tries_max=0"),
        ({"name": "b", "is_shared": True, "in_flight_max": 257}, "in_flight_max=257"),
        ({"name": "b", "is_shared": True, "ack_timeout_ms": 0}, "ack_timeout_s=0"),
    ],
)
def test_beginnings_that_cannot_be(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        open_member(pb.BeginConsuming(**fields), SETTINGS, b"")


def test_what_is_named_more_than_once_is_named_once() -> None:
    begin = pb.BeginConsuming(name="b", kinds=["message", "timer", "message"], session_ids=[3, 1, 3])
    once = pb.BeginConsuming(name="b", kinds=["timer", "message"], session_ids=[1, 3])
    found = settings_of(begin, SETTINGS, b"")
    assert (len(found.kinds), found.session_ids) == (2, {1, 3})
    assert found.filter_hash == settings_of(once, SETTINGS, b"").filter_hash


class LateConsumer:
    """What a shared call holds: all messages are with others by now."""

    position, is_paused, unsent, late = 100, False, 0, 0

    def ack(self, delivery: object) -> bool:
        return False


def test_a_request_has_no_more_acknowledgements_than_are_carried_out_at_once() -> None:
    consumer: Any = LateConsumer()
    call = SharedCall(consumer)
    most = [pb.Acknowledgement(position=64, try_count=1)] * ACKNOWLEDGEMENTS_MAX
    call.carry_out(pb.ConsumeRequest(acknowledgements=pb.Acknowledgements(acknowledgements=most)))
    assert call.standing().late_count == ACKNOWLEDGEMENTS_MAX
    with pytest.raises(ConfigurationError, match="1025 acknowledgements: at most 1024 at once"):
        call.carry_out(pb.ConsumeRequest(acknowledgements=pb.Acknowledgements(acknowledgements=[*most, *most[:1]])))
    assert call.standing().late_count == ACKNOWLEDGEMENTS_MAX


@pytest.mark.parametrize(
    ("is_shared", "step", "why"),
    [
        (False, BEGIN, "an exclusive consumer, after the first one, have commit_position"),
        (False, pb.ConsumeRequest(acknowledgements=pb.Acknowledgements()), "have commit_position"),
        (True, commit(64), "a shared consumer, after the first one, have acknowledgements"),
        (True, pb.ConsumeRequest(), "have acknowledgements"),
    ],
)
def test_steps_of_the_other_kind(is_shared: bool, step: pb.ConsumeRequest, why: str) -> None:
    async def work() -> None:
        async with open_member(pb.BeginConsuming(name="b", is_shared=is_shared, live=True), SETTINGS, b"") as member:
            member.carry_out(step)

    with pytest.raises(ConfigurationError, match=why):
        run(work)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_beginning_at_the_end_of_the_calendar_is_searched_for(is_shared: bool) -> None:
    """No log has times after the year 2262, in nanoseconds: such a consumer begins with what comes next."""
    begin = pb.BeginConsuming(name="billing", is_shared=is_shared, from_timestamp=253_402_300_799_999)

    async def enter() -> None:
        async with open_member(begin, SETTINGS, b"") as member:
            assert member.take() is None
            await member.await_change()

    run(enter)


def test_whatever_ends_the_duty_cycles_of_a_consumer_is_raised_to_whom_it_serves() -> None:
    """Raised into the event loop it would be written down, and the caller would wait for ever."""

    def fail() -> int:
        raise ValueError("a fault of the consumer")

    face: Any = SimpleNamespace(
        descriptor=None, timeout_s=30, begin_close=lambda: None, keep_alive=fail, abandon=lambda: None
    )

    async def wait() -> None:
        async with AsyncFace[object](face) as consumer:
            with pytest.raises(ValueError, match="a fault of the consumer"):
                await anext(consumer)

    run(wait)

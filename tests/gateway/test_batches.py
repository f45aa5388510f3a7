"""What a gateway sends a caller fits into what a caller takes by default, and quiet callers stay connected."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ordo.archive.segments.reader import RecordedMessage
from ordo.follow.beginnings import AtSequence, Beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway import server
from ordo.gateway.callers.batches import BATCH_BYTES_MAX, LogBatches, TopicBatches, beginning_of
from ordo.gateway.callers.settings import MESSAGE_BYTES_DEFAULT, GatewaySettings
from ordo.gateway.server import Gateway
from ordo.gateway.services.archive_calls import _batches
from ordo.gateway.services.subscriptions import problem_of
from ordo.runtime.errors import ConfigurationError
from ordo.service_api import ordo_pb2 as pb

PING_INTERVAL_MS = 1_000
MIB = 1 << 20
LENGTHS = [1000] * 3000 + [3 * MIB + MIB // 2] + [200_000] * 30 + [5 * MIB, 10, MIB, MIB, 900_000, 900_000]


class FakeReader:
    """Hands out items as a reader of a log or a topic does: up to so many at a time, its place after all of them."""

    def __init__(self, items: list[Any]) -> None:
        self._items = deque(items)
        self.is_reading = True
        self.position = 0
        self.next_sequence = 1

    def poll(self, handler: Callable[[Any], object], limit: int) -> int:
        count = min(limit, len(self._items))
        for _ in range(count):
            item = self._items.popleft()
            self.position = item.position
            self.next_sequence = getattr(item, "sequence", 0) + 1
            handler(item)
        return count

    def close(self) -> None:
        """Nothing is open."""


def batches_of(kind: Any, request: Any, items: list[Any]) -> Any:
    """With a reader of these items in the place of its own."""
    found = kind(request, ["127.0.0.1:1"], b"")
    found.reader.close()
    found.reader = found._filler._reader = FakeReader(items)
    return found


def demand_that_default_callers_take(batch: Any, item_count: int) -> None:
    size = batch.ByteSize()
    assert size < BATCH_BYTES_MAX + 1000 or item_count == 1, "only what is longer alone comes alone"


def test_batches_of_the_log_are_cut_and_their_positions_are_of_what_was_sent() -> None:
    items = [LogEntry(64 * (at + 1), EntryKind.MESSAGE, 1, 1, 1, bytes(length)) for at, length in enumerate(LENGTHS)]
    batches = batches_of(LogBatches, pb.SubscribeRequest(until_position=items[-1].position), items)
    got: list[tuple[int, int]] = []
    while not batches.has_ended:
        polled = batches.poll()
        demand_that_default_callers_take(polled.batch, polled.item_count)
        got += [(one.position, len(one.payload)) for one in polled.batch.entries]
        assert polled.batch.position == got[-1][0] == batches.place
        assert polled.fragment_count > 0 or not batches._filler.waiting, "what waits is not slept over"
    assert got == [(one.position, len(one.payload)) for one in items]


@pytest.mark.parametrize("until", [64 * 30, 64 * 30 + 32, 64 * 299])
def test_nothing_beyond_the_wanted_end_is_sent(until: int) -> None:
    items = [LogEntry(64 * (at + 1), EntryKind.MESSAGE, 1, 1, 1, bytes(10_000)) for at in range(300)]
    batches = batches_of(LogBatches, pb.SubscribeRequest(until_position=until), items)
    got: list[int] = []
    while not batches.has_ended:
        batch = batches.poll().batch
        got += [one.position for one in batch.entries]
        assert batch.position == got[-1] == batches.place, "a caller may go on from there"
    assert got == [one.position for one in items if one.position <= until]
    assert until > 64 * 200 or len(batches.reader._items) < 300, "the reader has read beyond it"


def test_a_subscription_whose_end_has_passed_sends_nothing() -> None:
    items = [LogEntry(64 * (at + 1), EntryKind.MESSAGE, 1, 1, 1, b"x") for at in range(20)]
    batches = batches_of(LogBatches, pb.SubscribeRequest(from_position=640, until_position=650), items[10:])
    polled = batches.poll()
    assert (polled.item_count, polled.batch.position, batches.has_ended) == (0, 640, True)


def test_entries_say_whether_they_are_copies_where_that_is_known() -> None:
    values: Any = SimpleNamespace(number=7, open_position=640)
    request = LogEntry(64, EntryKind.REQUEST, 1, 1, 1, b"x", values)
    items = [
        request._replace(is_repeat=True, identity=bytes(16)),
        request._replace(is_repeat=False),
        request._replace(is_repeat=None),
        LogEntry(64, EntryKind.MESSAGE, 1, 1, 1, b"x"),
    ]
    batches = batches_of(LogBatches, pb.SubscribeRequest(repeats=True), items)
    found = batches.poll().batch.entries
    assert [(one.is_repeat, one.HasField("is_repeat"), one.number) for one in found] == [
        (True, True, 7),
        (False, True, 7),
        (False, False, 7),
        (False, False, 0),
    ]
    assert [one.identity for one in found] == [bytes(16), b"", b"", b""]


def test_entries_have_their_numbers_where_these_are_known() -> None:
    message = LogEntry(64, EntryKind.MESSAGE, 1, 1, 1, b"x")
    batches = batches_of(LogBatches, pb.SubscribeRequest(), [message, message._replace(sequence=7)])
    found = batches.poll().batch.entries
    assert [(one.HasField("sequence"), one.sequence) for one in found] == [(False, 0), (True, 7)]


@pytest.mark.parametrize(
    ("request_", "begin"),
    [
        (pb.SubscribeRequest(), 0),
        (pb.SubscribeRequest(from_position=64), 64),
        (pb.SubscribeRequest(live=True), "live"),
        (pb.SubscribeRequest(from_sequence=7), AtSequence(7)),
    ],
)
def test_a_subscription_begins_where_it_says(request_: pb.SubscribeRequest, begin: Beginning) -> None:
    assert beginning_of(request_) == begin


@pytest.mark.parametrize("more", [{"from_position": 64}, {"live": True}])
def test_a_subscription_begins_at_one_place(more: dict[str, Any]) -> None:
    assert "not two of them" in problem_of(pb.SubscribeRequest(from_sequence=7, **more))


def test_batches_of_a_topic_are_cut_and_name_the_next_sequence() -> None:
    items = [FeedMessage("a", at + 1, 64, 0, 1, bytes(length)) for at, length in enumerate(LENGTHS)]
    batches = batches_of(TopicBatches, pb.SubscribeTopicRequest(topic="a", oldest=True), items)
    got: list[int] = []
    while len(got) < len(items):
        polled = batches.poll()
        demand_that_default_callers_take(polled.batch, polled.item_count)
        got += [one.sequence for one in polled.batch.messages]
        assert polled.batch.next_sequence == got[-1] + 1
    assert got == list(range(1, len(items) + 1))


def test_batches_of_a_recording_are_cut() -> None:
    items = [RecordedMessage(bytes(length), at, at + 1, 0) for at, length in enumerate(LENGTHS)]
    got: list[int] = []
    for batch in _batches(items):
        demand_that_default_callers_take(batch, len(batch.messages))
        got += [len(one.payload) for one in batch.messages]
    assert got == LENGTHS


@pytest.mark.parametrize("length_bytes", [0, 65_535, 64 * MIB + 1])
def test_a_length_out_of_range_is_one_line(length_bytes: int) -> None:
    with pytest.raises(ConfigurationError, match="message_bytes_max"):
        GatewaySettings(endpoints=["127.0.0.1:1"], message_bytes_max=length_bytes)


@pytest.mark.parametrize("length_bytes", [MESSAGE_BYTES_DEFAULT, 8 * MIB])
def test_longer_messages_are_taken_where_the_gateway_is_told_so(length_bytes: int) -> None:
    async def submit() -> grpc.StatusCode:
        settings = GatewaySettings(
            endpoints=["127.0.0.1:1"], listen="127.0.0.1:0", message_bytes_max=length_bytes, timeout_s=0.3
        )
        async with Gateway(settings) as gateway, grpc.aio.insecure_channel(gateway.address) as channel:
            call = channel.unary_unary(
                "/ordo.v1.Sequencer/Submit",
                request_serializer=pb.SubmitRequest.SerializeToString,
                response_deserializer=pb.SubmitResponse.FromString,
            )
            try:
                request = pb.SubmitRequest(identity=bytes(16), number=1, payload=bytes(5 * MIB))
                await call(request, timeout=10 if length_bytes < 5 * MIB else 2)  # a refusal comes at once
            except grpc.aio.AioRpcError as error:
                assert ("larger than max" in (error.details() or "")) == (length_bytes < 5 * MIB), error
                return error.code()
        raise AssertionError("no cluster is there")

    code = asyncio.run(submit())
    assert (code is grpc.StatusCode.RESOURCE_EXHAUSTED) == (length_bytes < 5 * MIB)


@pytest.mark.slow
def test_a_quiet_stream_of_a_caller_that_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pings than the two that gRPC puts up with by default; the stream of health says nothing meanwhile.

    Ten times as many in a second as callers may send.
    """
    assert server.CALLER_PING_INTERVAL_MS == 5_000
    monkeypatch.setattr(server, "CALLER_PING_INTERVAL_MS", 500)
    options = [
        ("grpc.keepalive_time_ms", PING_INTERVAL_MS),
        ("grpc.keepalive_timeout_ms", 2_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]

    async def watch() -> None:
        settings = GatewaySettings(endpoints=["127.0.0.1:1"], listen="127.0.0.1:0")
        async with (
            Gateway(settings) as gateway,
            grpc.aio.insecure_channel(gateway.address, options=options) as channel,
        ):
            stream = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await stream.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.read(), 5 * PING_INTERVAL_MS / 1000)

    asyncio.run(watch())


def test_entries_say_when_they_arrived_where_the_log_does() -> None:
    message = LogEntry(64, EntryKind.MESSAGE, 1, 1, 1, b"x")
    items = [message._replace(arrival_ns=1_795_000_000_122_999_999), message]
    found = batches_of(LogBatches, pb.SubscribeRequest(), items).poll().batch.entries
    assert [(one.HasField("arrival_ns"), one.arrival_ns) for one in found] == [
        (True, 1_795_000_000_122_999_999),
        (False, 0),
    ]

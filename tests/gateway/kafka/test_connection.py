"""Connections in virtual time: order of responses, who is let in, and clients that do what they must not."""

from __future__ import annotations

import asyncio
import datetime
import gc
import gzip
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ordo import Topics
from ordo.runtime.errors import DecodeError, OrdoError, SessionRejectedError

pytest.importorskip("kio", reason="needs the extra kafka")

from kio.records.readers import read_batch
from kio.schema.fetch.v11.request import FetchPartition, FetchTopic
from kio.schema.list_offsets.v5.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v8.request import MetadataRequestTopic
from kio.schema.produce.v8.request import PartitionProduceData, TopicProduceData

from ordo.gateway.kafka.connection import STRANGER_BYTES_MAX, ByteBudget, Connection
from ordo.gateway.kafka.record_calls import COMPRESSED_MAX, COMPRESSED_OF_SESSION_MAX, PARTITIONS_MAX
from ordo.gateway.kafka.service.orders import KafkaError, OrderAnswer
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.messages import Api
from tests.gateway.kafka.batches import Content, batch_of, compressed, request_of, response_of
from tests.gateway.kafka.memory import SETTINGS, TOKEN, MemoryDoor, MemoryTransport, framed, pass_time, run

SECOND = datetime.timedelta(seconds=1)
METADATA = request_of(
    Api.METADATA,
    8,
    1,
    topics=(MetadataRequestTopic(name="orders"),),
    allow_auto_topic_creation=True,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
HANDSHAKE = request_of(Api.SASL_HANDSHAKE, 1, 1, mechanism="PLAIN")


def authenticate(token: bytes) -> bytes:
    return request_of(Api.SASL_AUTHENTICATE, 1, 2, auth_bytes=b"\0me\0" + token)


def produce(contents: Sequence[Content], number: int, acks: int = -1, **more: Any) -> bytes:
    topic = more.pop("topic", "orders")
    partition = PartitionProduceData(index=more.pop("index", 0), records=batch_of(contents, **more))
    topics = (TopicProduceData(name=topic, partition_data=(partition,)),)
    return request_of(Api.PRODUCE, 8, number, transactional_id=None, acks=acks, timeout=SECOND, topic_data=topics)


def fetch(offset: int, number: int, *topics: str, max_wait: datetime.timedelta = SECOND) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return request_of(
        Api.FETCH, 11, number, max_wait=max_wait, min_bytes=1, forgotten_topics_data=(),
        topics=tuple(FetchTopic(topic=one, partitions=(partition,)) for one in topics or ("orders",)),
    )  # fmt: skip


def list_offsets(timestamp: int, number: int) -> bytes:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = (ListOffsetsTopic(name="orders", partitions=(partition,)),)
    return request_of(Api.LIST_OFFSETS, 5, number, replica_id=-1, isolation_level=0, topics=topics)


def exchange(*requests: bytes, **more: Any) -> list[bytes]:
    """Send requests to a new door, and return the responses."""

    async def work() -> list[bytes]:
        return (await MemoryDoor(**more).serve(*map(framed, requests))).frames()

    return run(work())


def produced(frame: bytes) -> tuple[int, int]:
    found = response_of(Api.PRODUCE, 8, frame)[1].responses[0].partition_responses[0]
    return found.error_code, found.base_offset


def test_what_is_produced_is_fetched() -> None:
    contents: list[Content] = [(b"key", b"value", [(b"name", b"content")]), (None, b"plain", [])]
    frames = exchange(METADATA, produce(contents, 2), fetch(1, 3), fetch(2, 4))
    assert [response_of(Api.METADATA, 8, frames[0])[0], produced(frames[1])] == [1, (0, 1)]
    found = response_of(Api.FETCH, 11, frames[2])[1].responses[0].partitions[0]
    assert (found.error_code, found.high_watermark) == (0, 3)
    batch, _ = read_batch(found.records, 0)
    assert [(one.offset, one.key, one.value) for one in batch.records] == [(1, b"key", b"value"), (2, None, b"plain")]
    rest = response_of(Api.FETCH, 11, frames[3])[1].responses[0].partitions[0]
    assert read_batch(rest.records, 0)[0].base_offset == 2


def test_a_fetch_at_the_end_waits_and_is_empty_and_one_beyond_is_out_of_range() -> None:
    frames = exchange(METADATA, fetch(1, 2), fetch(2, 3), fetch(0, 4), fetch(1, 5, "unknown"))
    found = [response_of(Api.FETCH, 11, one)[1].responses[0].partitions[0] for one in frames[1:]]
    assert [one.error_code for one in found] == [0, 1, 1, 3]
    assert (found[0].records, found[0].high_watermark) == (b"", 1)


def test_the_ends_of_a_topic_and_a_time_in_it() -> None:
    times = (-1, -2, 20, 21, -3, 1 << 60)
    frames = exchange(METADATA, produce([(None, b"x", [])] * 3, 2), *(list_offsets(one, 3) for one in times))
    found = [response_of(Api.LIST_OFFSETS, 5, one)[1].topics[0].partitions[0] for one in frames[2:]]
    assert [(one.error_code, one.offset, one.timestamp) for one in found] == [
        (0, 4, -1), (0, 1, -1), (0, 2, 20), (0, 3, 30), (KafkaError.UNSUPPORTED_VERSION, -1, -1), (0, -1, -1),
    ]  # fmt: skip


class Odd(Topics):
    """A service that publishes every second record alone."""

    def take_record(self, topic: str, payload: bytes) -> int:
        return self.publish(topic, payload) if int(payload) % 2 else 0


def test_a_topic_ends_where_the_service_has_published_to() -> None:
    records: list[Content] = [(None, b"%d" % index, []) for index in range(10)]
    frames = exchange(METADATA, produce(records, 2), list_offsets(-1, 3), fetch(6, 4), fetch(7, 5), service=Odd)
    assert produced(frames[1]) == (0, 1)
    assert response_of(Api.LIST_OFFSETS, 5, frames[2])[1].topics[0].partitions[0].offset == 6
    found = [response_of(Api.FETCH, 11, one)[1].responses[0].partitions[0] for one in frames[3:]]
    assert [(one.error_code, one.high_watermark) for one in found] == [(0, 6), (KafkaError.OFFSET_OUT_OF_RANGE, -1)]


@pytest.mark.parametrize("topics", [("orders",), ("orders", "unknown")])
def test_who_waits_for_nothing_is_told_all_the_same_why_there_are_no_records(topics: tuple[str, ...]) -> None:
    """The pause before such an answer was longer than the fetch: it was told that there is nothing yet, each time."""
    frames = exchange(METADATA, fetch(99, 2, *topics, max_wait=datetime.timedelta()))
    found = [one.partitions[0].error_code for one in response_of(Api.FETCH, 11, frames[1])[1].responses]
    assert found == [KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PARTITION][: len(topics)]


def test_an_offset_that_the_cluster_does_not_have_is_refused_though_a_reader_waits_for_it() -> None:
    """The reader was there before a standby was promoted that lacks what was read."""

    async def work() -> list[bytes]:
        door = MemoryDoor()
        door.session.end_of = lambda *_: 99  # type: ignore[method-assign]
        return (await door.serve(*map(framed, (METADATA, fetch(99, 2))))).frames()

    partition = response_of(Api.FETCH, 11, run(work())[1])[1].responses[0].partitions[0]
    assert partition.error_code == KafkaError.OFFSET_OUT_OF_RANGE


def test_a_batch_longer_than_an_order_is_split_and_told_its_first_number() -> None:
    contents: list[Content] = [(None, bytes(30_000), [])] * 10

    async def work() -> tuple[list[bytes], int]:
        door = MemoryDoor()
        frames = (await door.serve(framed(METADATA), framed(produce(contents, 2)))).frames()
        return frames, door.session.orders

    frames, orders = run(work())
    assert produced(frames[1]) == (0, 1) and orders == 1 + 5


def produce_compressed(count: int) -> bytes:
    packed = compressed(1, gzip.compress(batch_of([(None, bytes(30_000), [])])[61:]))
    partitions = (PartitionProduceData(index=0, records=packed),) * count
    topics = (TopicProduceData(name="orders", partition_data=partitions),)
    return request_of(Api.PRODUCE, 8, 2, transactional_id=None, acks=-1, timeout=SECOND, topic_data=topics)


def test_few_compressed_batches_are_unpacked_at_a_time() -> None:
    request = produce_compressed(100)
    counts = [0]

    async def work() -> MemoryTransport:
        door = MemoryDoor()

        async def answer(_: bytes) -> OrderAnswer:
            counts.append(counts[-1] + 1)
            answered = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(1, answered.set_result, OrderAnswer(0, 1))
            await answered
            counts.append(counts[-1] - 1)
            return OrderAnswer(0, 1)

        door.session.answer_client = answer
        return await door.serve(framed(request))

    found = response_of(Api.PRODUCE, 8, run(work()).frames()[0])[1].responses[0].partition_responses
    assert [one.error_code for one in found] == [0] * 100 and max(counts) == COMPRESSED_OF_SESSION_MAX


def test_compressed_batches_of_one_session_leave_places_to_others_and_those_of_all_are_bounded() -> None:
    under_way = [0, 0, 0]

    async def work() -> None:
        one = MemoryDoor()
        may_answer = asyncio.Event()

        async def produce_in(number: int) -> bytes:
            async def answer(_: bytes) -> OrderAnswer:
                under_way[number] += 1
                await may_answer.wait()
                return OrderAnswer(0, 1)

            door = MemoryDoor()
            door.calls = one.calls
            door.session.answer_client = answer
            return (await door.serve(framed(produce_compressed(20)))).frames()[0]

        clients = []
        for number in range(3):
            clients.append(asyncio.create_task(produce_in(number)))
            await pass_time(1.0)
        assert under_way == [COMPRESSED_OF_SESSION_MAX] * 2 + [COMPRESSED_MAX - 2 * COMPRESSED_OF_SESSION_MAX]
        may_answer.set()
        await asyncio.gather(*clients)
        assert under_way == [20] * 3

    run(work())


@pytest.mark.parametrize(
    ("request_bytes", "error"),
    [
        (produce([(None, b"x", [])], 2, topic="unknown"), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce([(None, b"x", [])], 2, topic="t" * 300), KafkaError.INVALID_TOPIC),
        (produce([(None, b"x", [])], 2, index=1), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (produce([(None, bytes(32_001), [])], 2), KafkaError.MESSAGE_TOO_LARGE),
        (produce([(None, b"x", [])], 2, attributes=5), KafkaError.UNSUPPORTED_COMPRESSION_TYPE),
        (produce([(None, b"x", [])], 2, attributes=0x10), KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (produce([(None, b"x", [])], 2, acks=2), KafkaError.INVALID_REQUIRED_ACKS),
        (produce([(None, b"x", [])], 2).replace(b"x", b"y"), KafkaError.CORRUPT_MESSAGE),
        (produce([(None, b"x", [])], 2, producer=(5, 0, 0)), KafkaError.UNKNOWN_PRODUCER_ID),
    ],
)
def test_what_cannot_be_appended_is_refused_with_kafka_s_own_error(request_bytes: bytes, error: int) -> None:
    assert produced(exchange(METADATA, request_bytes)[1]) == (error, -1)


def test_a_transaction_is_refused() -> None:
    init = request_of(Api.INIT_PRODUCER_ID, 1, 1, transactional_id="t", transaction_timeout=SECOND)
    coordinator = request_of(Api.FIND_COORDINATOR, 2, 2, key="t", key_type=1)
    frames = exchange(init, coordinator)
    found = [response_of(api, version, one)[1] for (api, version), one in zip([(22, 1), (10, 2)], frames, strict=True)]
    assert {one.error_code for one in found} == {KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert found[1].error_message == "transactions are not supported"


def test_without_acks_there_is_no_response() -> None:
    frames = exchange(METADATA, produce([(None, b"x", [])], 2, acks=0), produce([(None, b"y", [])], 3))
    assert [len(frames), produced(frames[1])] == [2, (0, 2)]


def test_responses_come_in_the_order_of_the_requests() -> None:
    requests = [produce([(None, b"%d" % index, [])], index) for index in range(2, 40)]
    frames = exchange(METADATA, *requests, METADATA)
    assert [response_of(Api.PRODUCE, 8, one)[0] for one in frames[1:-1]] == list(range(2, 40))
    assert [produced(one)[1] for one in frames[1:-1]] == list(range(1, 39))


def test_a_client_that_begins_with_many_requests_is_let_in_once() -> None:
    async def work() -> tuple[list[bytes], int]:
        door = MemoryDoor()
        await door.serve(framed(METADATA))
        frames = (await door.serve(*(framed(produce([(None, b"x", [])], index)) for index in range(4)))).frames()
        return frames, door.sessions.in_use

    frames, in_use = run(work())
    assert [produced(one) for one in frames] == [(0, 1), (0, 2), (0, 3), (0, 4)] and in_use == 0


def test_a_client_asks_for_so_many_partitions_at_a_time() -> None:
    partitions = (ListOffsetsPartition(partition_index=0, timestamp=-1),) * 5
    topics = (ListOffsetsTopic(name="orders", partitions=partitions),) * 300
    many = request_of(Api.LIST_OFFSETS, 5, 2, replica_id=-1, isolation_level=0, topics=topics)
    found = response_of(Api.LIST_OFFSETS, 5, exchange(METADATA, many)[1])[1].topics
    assert sum(len(one.partitions) for one in found) == PARTITIONS_MAX


def test_who_shows_a_token_is_let_in_and_others_are_not() -> None:
    frames = exchange(HANDSHAKE, authenticate(b"wrong"), authenticate(TOKEN), METADATA, is_strict=True)
    found = [response_of(Api.SASL_AUTHENTICATE, 1, one)[1] for one in frames[1:3]]
    assert [(one.error_code, one.error_message) for one in found] == [
        (KafkaError.SASL_AUTHENTICATION_FAILED, "who are you?"),
        (KafkaError.NONE, None),
    ]
    assert len(frames) == 4
    with pytest.raises(SessionRejectedError):
        exchange(METADATA, is_strict=True)


def test_sasl_out_of_turn_is_refused() -> None:
    other = request_of(Api.SASL_HANDSHAKE, 1, 1, mechanism="SCRAM-SHA-256")
    frames = exchange(authenticate(TOKEN), other, authenticate(TOKEN), HANDSHAKE, authenticate(b""))
    codes = [response_of(Api.SASL_AUTHENTICATE, 1, frames[index])[1].error_code for index in (0, 2, 4)]
    assert codes == [34, 34, KafkaError.SASL_AUTHENTICATION_FAILED]
    handshake = response_of(Api.SASL_HANDSHAKE, 1, frames[1])[1]
    assert (handshake.error_code, handshake.mechanisms) == (KafkaError.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",))


def test_versions_that_are_not_known_are_answered_in_version_0() -> None:
    frames = exchange(b"\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff")
    number, body = response_of(Api.API_VERSIONS, 0, frames[0])
    assert (number, body.error_code) == (5, KafkaError.UNSUPPORTED_VERSION) and body.api_keys


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x0c" + bytes(12),
        framed(b"\x00\x03\x00\x08\x00\x00\x00\x05\xff\xff\x7f\xff\xff\xff"),
        framed(b"\x01\x03\x00\x08\x00\x00\x00\x05\xff\xff\x7f\xff\xff\xff"),
        (SETTINGS.request_bytes_max + 1).to_bytes(4, "big") + bytes(100),
    ],
)
def test_what_is_no_request_ends_the_connection_and_leaves_nothing(sent: bytes) -> None:
    async def work() -> tuple[int, int]:
        door = MemoryDoor()
        with pytest.raises(OrdoError):
            await door.serve(sent)
        await door.budget.take(SETTINGS.requests_bytes_max)
        return door.session.orders, door.sessions.in_use

    assert run(work()) == (0, 0)


LONG = produce([(None, bytes(30_000), [])] * 3, 2)
VERSIONS_ASKED = b"\x00\x12\x00\x00\x00\x00\x00\x05\xff\xff"


def test_a_first_request_may_be_long_where_no_token_is_needed() -> None:
    async def work() -> bytes:
        door = MemoryDoor()
        await door.serve(framed(METADATA))  # which creates the topic
        return (await door.serve(framed(VERSIONS_ASKED), framed(LONG))).frames()[1]

    assert len(LONG) > STRANGER_BYTES_MAX and produced(run(work())) == (0, 1)


@pytest.mark.parametrize(("before", "is_strict"), [([VERSIONS_ASKED], True), ([HANDSHAKE], False)])
def test_who_still_has_to_show_a_token_sends_no_long_request(before: list[bytes], is_strict: bool) -> None:
    async def work() -> int:
        door = MemoryDoor(is_strict=is_strict)
        with pytest.raises(DecodeError, match=f"8 to {STRANGER_BYTES_MAX} are taken"):
            await door.serve(*map(framed, before), len(LONG).to_bytes(4, "big"))
        return door.sessions.in_use

    assert run(work()) == 0


def test_a_request_longer_than_allowed_is_not_read() -> None:
    settings = KafkaSettings(endpoints=["127.0.0.1:9"], request_bytes_max=1 << 16)
    with pytest.raises(DecodeError, match="8 to 65536 are taken"):
        exchange(METADATA, produce([(None, bytes(30_000), [])] * 3, 2), settings=settings)


def test_bytes_of_requests_are_bounded_over_all_connections() -> None:
    async def work() -> list[str]:
        budget, told = ByteBudget(10), []

        async def take(name: str, length: int) -> None:
            await budget.take(length)
            told.append(name)

        await take("first", 8)
        waiting = asyncio.create_task(take("second", 4))
        assert await asyncio.wait({waiting}, timeout=1) == (set(), {waiting})
        told.append("waited")
        budget.give_back(8)
        await waiting
        return told

    assert run(work()) == ["first", "waited", "second"]


def test_a_client_that_says_nothing_is_let_go() -> None:
    assert exchange() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"advertise": "here:70000"}, "--advertise here:70000"),
        ({"readers_max": 0}, "readers_max=0"),
        ({"idle_s": 0.0}, "idle_s=0.0"),
        ({"request_bytes_max": 5}, "request_bytes_max=5"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(OrdoError, match=why):
        KafkaSettings(**({"endpoints": ["127.0.0.1:9"]} | change))


def test_a_reader_at_the_end_asks_the_cluster_only_once_nothing_has_come() -> None:
    async def work() -> list[int]:
        door, counts = MemoryDoor(), []
        for request in (METADATA, produce([(None, b"x", [])], 2), fetch(1, 3), fetch(2, 4)):
            before = door.session.queries
            await door.serve(framed(request))
            counts.append(door.session.queries - before)
        return counts

    assert run(work()) == [1, 0, 0, 1]


def test_a_batch_that_takes_long_is_not_overtaken_by_those_after_it() -> None:
    """Others have a turn while it is decoded, but what this connection sends next stays behind it."""

    async def work() -> list[bytes]:
        door = MemoryDoor()
        long: list[Content] = [(None, b"%d" % index, []) for index in range(5_000)]
        shorts = [produce([(None, b"short %d" % number, [])], 3 + number) for number in range(3)]
        await door.serve(framed(METADATA), framed(produce(long, 2)), *map(framed, shorts))
        return list(door.session.harness.feed("orders"))

    found = run(work())
    assert found == [b"%d" % index for index in range(5_000)] + [b"short 0", b"short 1", b"short 2"]


def test_the_log_as_a_topic_takes_nothing() -> None:
    async def work() -> MemoryTransport:
        refused = produce([(None, b"x", [])], 2, topic="ordo.log")
        return await MemoryDoor().serve(framed(METADATA), framed(refused))

    _, frame = run(work()).frames()
    _, body = response_of(Api.PRODUCE, 8, frame)
    (topic,) = body.responses
    assert topic.partition_responses[0].error_code.value == KafkaError.INVALID_TOPIC


class SlowClient(MemoryTransport):
    """A client that takes nothing before the test says so."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.stream.pause_writing()


def fetched(frame: bytes) -> int:
    """Return how many records a response has."""
    partition = response_of(Api.FETCH, 11, frame)[1].responses[0].partitions[0]
    return len(read_batch(partition.records, 0)[0].records)


@pytest.mark.parametrize("goes", [False, True])
def test_what_slow_readers_have_not_taken_is_bounded_and_others_get_fewer_records(goes: bool) -> None:
    async def work() -> list[int]:
        door = MemoryDoor(replace(SETTINGS, responses_bytes_max=2_300))
        async with door.at_work():
            await door.serve(framed(METADATA), framed(produce([(None, bytes(1_000), [])] * 2, 2)))
            counts = [fetched((await door.serve(framed(fetch(1, 1)))).frames()[0])]
            slow = SlowClient()
            first = asyncio.create_task(door.serve(framed(fetch(1, 1)), to=slow))
            await pass_time(0.1)
            counts.append(fetched((await door.serve(framed(fetch(1, 1)))).frames()[0]))
            slow.stream.connection_lost(None) if goes else slow.stream.resume_writing()
            await asyncio.wait([first])
            assert isinstance(first.exception(), ConnectionResetError) is goes
            counts.append(fetched((await door.serve(framed(fetch(1, 1)))).frames()[0]))
        return counts

    assert run(work()) == [2, 1, 2]


class GoneClient(MemoryTransport):
    """A client that goes while it is sent something."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.stream.connection_lost(ConnectionResetError())


@pytest.mark.parametrize(
    ("client", "sent"),
    [(MemoryTransport, b"\x7f\xff\xff\xff"), (GoneClient, framed(METADATA)), (MemoryTransport, framed(b"\0\3" * 6))],
)
def test_a_connection_that_ends_with_an_error_is_freed_at_once(client: type[MemoryTransport], sent: bytes) -> None:
    """Not by a collection of garbage, which comes late in a door."""

    async def work() -> list[Connection]:
        with suppress(DecodeError, ConnectionResetError):
            await MemoryDoor().serve(sent, to=client())
        return [one for one in gc.get_objects() if isinstance(one, Connection)]

    gc.collect()
    gc.disable()
    try:
        assert run(work()) == []
    finally:
        gc.enable()


def test_what_is_answered_is_held_no_longer() -> None:
    """A connection that waits for the next request keeps nothing of the last one, which no limit counts any more."""

    async def work() -> int:
        door, client, length = MemoryDoor(), MemoryTransport(), 2 << 20

        async def answer(_: bytes) -> OrderAnswer:
            return OrderAnswer(0, 1)

        door.session.answer_client = answer
        async with door.at_work():
            serving = asyncio.create_task(door.connection(client).serve())
            await client.send(framed(METADATA))
            await pass_time(1)
            tracemalloc.start()
            await client.send(framed(produce([(None, bytes(1 << 15), [])] * (length >> 15), 2)))
            await pass_time(1)
            gc.collect()
            kept, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert most > length and len(client.frames()) == 2
            serving.cancel()
        return kept

    assert run(work()) < 1 << 20

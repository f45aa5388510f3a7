"""Produce, Fetch and ListOffsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

from ordo.gateway.kafka.caller import PARTITION, Caller, ResponseRoom, error_of_order
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import NO_PRODUCER, KafkaError, encode_parts
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_readers import TopicReaders, error_of
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.gateway.kafka.wire.compression import CompressionError, TooLongError
from ordo.gateway.kafka.wire.records import Stored, decode_batch, encode_batch, is_compressed
from ordo.runtime.errors import DecodeError, OrdoError
from ordo.service_api.feeds import PAYLOAD_BYTES_MAX

Values = Mapping[str, object]
Found = Sequence[Values | None]
"""What was read of each place that a client asks for; None: nothing in time."""
COMPRESSED_MAX = 32
"""So many compressed batches are under way at a time, over all connections: each may become far longer than it came."""
COMPRESSED_OF_SESSION_MAX = 16
"""So many of them in one session: one that a quota holds back leaves places to others."""
FETCH_BYTES_MAX = 4 << 20
"""So much one response carries, whatever its client allows."""
WAIT_S_MAX = 30.0
PARTITIONS_MAX = 1_024
ACKS = (-1, 0, 1)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
OUTCOME_PAUSE_S = 0.05
"""A fetch that cannot be answered waits so long, so that a client that asks again at once is held up."""
OVERTIME_S = 0.1
"""So much longer than its client says a fetch waits for what is on its way to it: why it is refused, and that pause."""
END_WAIT_S = 0.5
"""So long a fetch that has no records of the log takes at most to learn where the log ends."""


class RecordCalls:
    """Carries out what is asked of topics."""

    def __init__(self, settings: KafkaSettings, topics: TopicTable, readers: TopicReaders) -> None:
        self._settings = settings
        self._topics = topics
        self._readers = readers
        self._loop = asyncio.get_running_loop()
        self._room = ResponseRoom(settings.responses_bytes_max)
        self._compressed = asyncio.Semaphore(COMPRESSED_MAX)
        self._compressed_of: WeakKeyDictionary[ClusterSession, asyncio.Semaphore] = WeakKeyDictionary()

    # Produce

    async def produce(self, caller: Caller, request: Any) -> Values:
        """Append the batches of a request, all at once."""
        parts = [(topic.name, one) for topic in request.topic_data for one in topic.partition_data]
        wanted = [(name, one.index, one.records or b"") for name, one in parts]
        error = KafkaError.NONE if request.acks in ACKS else KafkaError.INVALID_REQUIRED_ACKS
        if request.transactional_id is not None:
            error = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if error or len(wanted) > PARTITIONS_MAX:
            results: Sequence[tuple[int, int]] = [(error or KafkaError.INVALID_REQUEST, -1)] * len(wanted)
        else:
            results = await self._append_all(caller, wanted)
        answers = iter(results)
        topics = []
        for topic in request.topic_data:
            partitions = []
            for one in topic.partition_data:
                code, number = next(answers)
                partitions.append({"index": one.index, "error_code": code, "base_offset": number})
            topics.append({"name": topic.name, "partition_responses": partitions})
        return {"responses": topics}

    async def _append_all(self, caller: Caller, wanted: Sequence[tuple[str, int, bytes]]) -> list[tuple[int, int]]:
        """Append batches; return the error and the number of the first record of each."""
        begun: list[asyncio.Task[tuple[int, int]]] = []
        try:
            async with caller.producing:
                for topic, index, data in wanted:
                    begun.append(await self._begin(caller, topic, index, data))
            return [await one for one in begun]
        finally:
            for one in begun:
                one.cancel()

    async def _begin(self, caller: Caller, topic: str, index: int, data: bytes) -> asyncio.Task[tuple[int, int]]:
        """Decode a batch, and send it on its way. One that is compressed has its place until it is answered."""
        with ExitStack() as places:
            if is_compressed(data):
                of_all = self._compressed_of
                of_session = of_all.setdefault(caller.session, asyncio.Semaphore(COMPRESSED_OF_SESSION_MAX))
                for one in (of_session, self._compressed):
                    await one.acquire()
                    places.callback(one.release)
            is_known = index == PARTITION
            orders = _orders_of(topic, data) if is_known else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            task = asyncio.create_task(self._append(caller, orders))
            held = places.pop_all()
            task.add_done_callback(lambda _: held.close())
        return task

    async def _append(self, caller: Caller, orders: list[bytes] | KafkaError) -> tuple[int, int]:
        if isinstance(orders, KafkaError):
            return orders, -1
        first = -1
        for answer in await caller.session.append(orders, caller):
            if isinstance(answer, OrdoError):
                return error_of_order(answer), -1
            if answer.error:
                return answer.error, -1
            first = answer.number if first < 0 else first
        return KafkaError.NONE, first  # where the topic ends now is not known: a service may publish less, or more

    # Fetch

    async def fetch(self, caller: Caller, request: Any) -> Values:
        """Return records of the topics that have some, once one of them has, or the time is up."""
        wanted = [(topic.topic, one) for topic in request.topics for one in topic.partitions][:PARTITIONS_MAX]
        now_s = self._loop.time()
        wait_s = min(max(request.max_wait.total_seconds(), 0.0), WAIT_S_MAX)
        bytes_max = max(min(request.max_bytes, FETCH_BYTES_MAX), 1)
        reads = [self._read(caller, topic, one, bytes_max, now_s + wait_s) for topic, one in wanted]
        if not reads:
            await asyncio.sleep(wait_s)
        found = await (self._only(reads[0], now_s + wait_s) if len(reads) == 1 else self._some(reads, now_s + wait_s))
        log = await self._await_end(caller, found, wanted)
        return {"responses": self._gather(caller, found, wanted, bytes_max, log)}

    async def _only(self, read: Awaitable[Values], deadline_s: float) -> Found:
        """Wait for what most consumers ask for, one topic: a task of its own would let others run twice in between."""
        try:
            async with asyncio.timeout_at(deadline_s + OVERTIME_S):
                return [await read]
        except TimeoutError:
            return [None]

    async def _some(self, reads: Sequence[Awaitable[Values]], deadline_s: float) -> Found:
        """Wait until one of them has something; then take what the others have by now, too."""
        tasks = [asyncio.ensure_future(one) for one in reads]
        waiting = set(tasks)
        try:
            while waiting:
                timeout_s = max(deadline_s - self._loop.time(), 0.0) + OVERTIME_S
                done, waiting = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if not done or not all(map(_is_empty, (one.result() for one in done))):
                    break
            return [one.result() if one.done() else None for one in tasks]
        finally:
            for one in tasks:
                one.cancel()

    async def _await_end(self, caller: Caller, found: Found, wanted: Sequence[tuple[str, Any]]) -> Values:
        """Return what is told of the log if it has no records: its end as of now, or an error.

        A client may take the end that it is told for that of the log, so there is no other answer where it is unknown.
        """
        of_log = (one for one, (topic, _) in zip(found, wanted, strict=True) if topic == LOG_TOPIC)
        if not any(_is_empty(one) for one in of_log):
            return {}
        end, error = 0, int(KafkaError.NOT_LEADER_OR_FOLLOWER)
        try:
            async with asyncio.timeout(END_WAIT_S):
                end = await self._end_of_log(caller, is_near=True)
        except TimeoutError:
            pass
        except OrdoError as trouble:
            error = error_of(trouble)
        return _partition(PARTITION, end=end) if end else _partition(PARTITION, error)

    def _gather(
        self,
        caller: Caller,
        found: Found,
        wanted: Sequence[tuple[str, Any]],
        bytes_max: int,
        log: Values,
    ) -> list[Values]:
        """Return what there is by now; `log`: what is told of the log if it has no records."""
        topics: dict[str, list[Values]] = {}
        left = bytes_max
        for read, (topic, one) in zip(found, wanted, strict=True):
            if topic == LOG_TOPIC and _is_empty(read):
                values = {**log, "partition_index": one.partition}
            else:
                known = self._end_of(caller, topic)
                values = dict(_partition(one.partition, end=known) if read is None else read)
            records = values["records"]
            length = len(records) if isinstance(records, bytes) else 0
            if length > left and left < bytes_max:
                values["records"], length = b"", 0
            left -= length
            topics.setdefault(topic, []).append(values)
        return [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]

    def _end_of(self, caller: Caller, topic: str) -> int:
        return max(self._topics.end_of(topic), self._readers.end_of(caller.session.credentials, topic))

    async def _read(self, caller: Caller, topic: str, partition: Any, bytes_max: int, deadline_s: float) -> Values:
        index, number = partition.partition, partition.fetch_offset
        try:
            if index != PARTITION or not await self._topics.has(caller.session, topic):
                return await _refuse(index, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
            length = max(min(partition.partition_max_bytes, bytes_max), 1)
            if topic == LOG_TOPIC:
                return await self._read_log(caller, number, length, deadline_s)
            if number > self._topics.end_of(topic):
                await self._topics.refresh(caller.session)
            if not 1 <= number <= self._topics.end_of(topic):  # whatever a reader waits for, which may never come
                return await _refuse(index, KafkaError.OFFSET_OUT_OF_RANGE)
            messages = await self._readers.read(caller.session.credentials, topic, number, length, deadline_s)
            if not messages:  # a client may take the end that it is told for the end of the topic
                await self._topics.refresh(caller.session)
        except OrdoError as error:
            return await _refuse(index, error_of(error))
        if messages:
            self._topics.note_end(topic, messages[-1].number + 1)
        return _partition(index, end=self._end_of(caller, topic), records=self._encode(caller, messages, length))

    def _encode(self, caller: Caller, messages: Sequence[Stored], length: int) -> bytes:
        """Return messages as a batch that the client takes within `length`, or fewer where clients take too little."""
        records = encode_batch(self._room.fit(messages, length)) if messages else b""
        caller.hold(self._room, len(records))
        return records

    async def _read_log(self, caller: Caller, number: int, length: int, deadline_s: float) -> Values:
        """Return records of the log, or none; see `_await_end`. Raises OrdoError."""
        credentials = caller.session.credentials
        if number < 1:
            return await _refuse(PARTITION, KafkaError.OFFSET_OUT_OF_RANGE)
        if not self._readers.covers(credentials, LOG_TOPIC, number):
            end = await self._end_of_log(caller)
            if not end:
                return await _refuse(PARTITION, KafkaError.NOT_LEADER_OR_FOLLOWER)
            if number > end:
                return await _refuse(PARTITION, KafkaError.OFFSET_OUT_OF_RANGE)
        self._readers.keep_end(credentials, number)
        messages = await self._readers.read(credentials, LOG_TOPIC, number, length, deadline_s)
        end = self._end_of(caller, LOG_TOPIC)
        return _partition(PARTITION, end=end, records=self._encode(caller, messages, length))

    async def _end_of_log(self, caller: Caller, is_near: bool = False) -> int:
        """Return the number after the last message of the log as of now; 0 if it is not known in time.

        Raises OrdoError.
        """
        position = await caller.session.log_position()
        deadline_s = self._loop.time() + self._settings.timeout_s
        return await self._readers.log_end(caller.session.credentials, position, deadline_s, is_near)

    # ListOffsets

    async def list_offsets(self, caller: Caller, request: Any) -> Values:
        """Return where topics begin or end, or where a time is in them."""
        topics, left = [], PARTITIONS_MAX
        for topic in request.topics[:PARTITIONS_MAX]:
            partitions = []
            for one in topic.partitions[:left]:
                left -= 1
                error, number, timestamp = await self._find(caller, topic.name, one)
                partitions.append(
                    {
                        "partition_index": one.partition_index,
                        "error_code": error,
                        "offset": number,
                        "timestamp": timestamp,
                    }
                )
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    async def _find(self, caller: Caller, topic: str, partition: Any) -> tuple[int, int, int]:
        """Return the error, the number and the time."""
        wanted, credentials = partition.timestamp, caller.session.credentials
        deadline_s = self._loop.time() + self._settings.timeout_s
        try:
            await self._topics.refresh(caller.session)
            if partition.partition_index != PARTITION or topic not in self._topics:
                return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, -1, -1
            is_log = topic == LOG_TOPIC
            end = await self._end_of_log(caller) if is_log else self._topics.end_of(topic)
            if not end:
                return KafkaError.REQUEST_TIMED_OUT, -1, -1
            if wanted == LATEST or (wanted == EARLIEST and end == 1):
                return KafkaError.NONE, end, -1
            if wanted == EARLIEST:
                number = await self._readers.oldest(credentials, topic, deadline_s)
                return (KafkaError.NONE if number else KafkaError.REQUEST_TIMED_OUT), number or -1, -1
            if wanted < 0:
                return KafkaError.UNSUPPORTED_VERSION, -1, -1
            if end == 1:
                return KafkaError.NONE, -1, -1
            return await self._find_time(credentials, topic, wanted, end, deadline_s)
        except OrdoError as error:
            return error_of(error), -1, -1

    async def _find_time(
        self, credentials: bytes, topic: str, wanted: int, end: int, deadline_s: float
    ) -> tuple[int, int, int]:
        try:
            last = await self._readers.read(credentials, topic, end - 1, 1, deadline_s)
        except OrdoError as error:
            if error_of(error) == KafkaError.OFFSET_OUT_OF_RANGE:  # nothing is left of it
                return KafkaError.NONE, -1, -1
            raise
        if not last:
            return KafkaError.REQUEST_TIMED_OUT, -1, -1
        if last[0].timestamp < wanted:
            return KafkaError.NONE, -1, -1
        found = await self._readers.first_since(credentials, topic, wanted, deadline_s)
        if found is None:
            return KafkaError.REQUEST_TIMED_OUT, -1, -1
        return KafkaError.NONE, found.number, found.timestamp


def _partition(index: int, error: int = KafkaError.NONE, end: int = -1, records: bytes = b"") -> Values:
    return {
        "partition_index": index,
        "error_code": error,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": records,
    }


async def _refuse(index: int, error: int) -> Values:
    await asyncio.sleep(OUTCOME_PAUSE_S)
    return _partition(index, error)


def _is_empty(read: Values | None) -> bool:
    """Return whether there is neither a record nor an error."""
    return read is None or not (read["records"] or read["error_code"])


def _orders_of(topic: str, data: bytes) -> list[bytes] | KafkaError:
    """Return the orders that append a batch, or why there are none."""
    try:
        batch = decode_batch(data)
    except TooLongError:  # clients that can make shorter batches of it do so
        return KafkaError.MESSAGE_TOO_LARGE
    except CompressionError:
        return KafkaError.UNSUPPORTED_COMPRESSION_TYPE
    except DecodeError:
        return KafkaError.CORRUPT_MESSAGE
    if batch.is_transactional:
        return KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if batch.longest > PAYLOAD_BYTES_MAX:
        return KafkaError.MESSAGE_TOO_LARGE
    if topic == LOG_TOPIC or len(topic.encode(errors="replace")) > 255:
        return KafkaError.INVALID_TOPIC
    producer = (batch.producer_id, batch.epoch, batch.sequence) if batch.producer_id >= 0 else (NO_PRODUCER, 0, 0)
    return list(encode_parts(topic, producer, batch.parts))

"""The door for Kafka's clients: whatever they send, responses are whole, and nothing of a connection is left over."""

from __future__ import annotations

import asyncio
import datetime
import gzip
from collections.abc import Hashable
from importlib.util import find_spec
from typing import Any

from ordo.runtime.errors import OrdoError
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import pack, unpack

IS_INSTALLED = find_spec("kio") is not None
"""Whether the extra `kafka` is there, without which there is no such door."""
STEPS_MAX = 8
RAW = 0
SECOND = datetime.timedelta(seconds=1)


def _compressed_topics() -> list[Any]:
    """The data of a produce request for each compression that can be made here."""
    from kio.schema.produce.v8.request import PartitionProduceData, TopicProduceData

    from tests.gateway.kafka.batches import batch_of, compressed

    body = batch_of([(b"key", b"value" * 9, [])])[61:]
    packed = [(1, gzip.compress(body))]
    if find_spec("cramjam") is not None:
        import cramjam

        block = bytes(cramjam.snappy.compress_raw(body))
        java = b"\x82SNAPPY\0" + bytes(8) + len(block).to_bytes(4, "big") + block
        packed += [
            (2, block),
            (2, java),
            (3, bytes(cramjam.lz4.compress(body))),
            (4, bytes(cramjam.zstd.compress(body))),
        ]
    batches = [compressed(*one) for one in packed]
    data = [(PartitionProduceData(index=0, records=one),) for one in batches]
    return [(TopicProduceData(name="orders", partition_data=one),) for one in data]


class KafkaDoor:
    """A connection of a client: steps are requests with their length before them, and of kind 0 bytes as they are."""

    name = "kafka"

    def seeds(self) -> list[bytes]:
        from kio.schema.join_group.v5.request import JoinGroupRequestProtocol
        from kio.schema.offset_commit.v7.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
        from kio.schema.produce.v8.request import PartitionProduceData, TopicProduceData

        from ordo.gateway.kafka.wire.messages import Api
        from tests.gateway.kafka.batches import batch_of, request_of
        from tests.gateway.kafka.test_connection import HANDSHAKE, METADATA, authenticate, fetch, list_offsets

        records = batch_of([(b"key", b"value", [(b"name", b"content")]), (None, b"plain", [])], producer=(1, 0, 0))
        topics = (TopicProduceData(name="orders", partition_data=(PartitionProduceData(index=0, records=records),)),)
        commits = (OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata="m"),)
        group = {"group_id": "g", "member_id": "", "group_instance_id": None}
        join = JoinGroupRequestProtocol(name="range", metadata=b"topics")
        requests = [
            request_of(Api.API_VERSIONS, 3, 1, client_software_name="fuzz", client_software_version="1"),
            METADATA,
            request_of(Api.INIT_PRODUCER_ID, 1, 1, transactional_id=None, transaction_timeout=SECOND),
            request_of(Api.PRODUCE, 8, 1, transactional_id=None, acks=-1, timeout=SECOND, topic_data=topics),
            fetch(1, 2),
            list_offsets(10, 3),
            request_of(
                Api.JOIN_GROUP, 5, 1, session_timeout=10 * SECOND, rebalance_timeout=10 * SECOND,
                protocol_type="consumer", protocols=(join,), **{**group, "group_instance_id": "i"},
            ),
            request_of(
                Api.OFFSET_COMMIT, 7, 1, generation_id_or_member_epoch=-1,
                topics=(OffsetCommitRequestTopic(name="orders", partitions=commits),), **group,
            ),
            request_of(Api.HEARTBEAT, 3, 1, generation_id=1, **group),
            request_of(Api.FIND_COORDINATOR, 2, 1, key="g", key_type=0),
            request_of(Api.FIND_COORDINATOR, 4, 1, coordinator_keys=("g", "h"), key_type=0),
            request_of(Api.OFFSET_FETCH, 5, 1, group_id="g", topics=None),
            request_of(Api.LIST_GROUPS, 2, 1),
        ]  # fmt: skip
        requests += [
            request_of(Api.PRODUCE, 8, 1, transactional_id=None, acks=-1, timeout=SECOND, topic_data=one)
            for one in _compressed_topics()
        ]
        login = pack([(1, HANDSHAKE), (1, authenticate(b"secret")), (1, METADATA)])
        return [login, *(pack([(1, METADATA), (1, one)]) for one in requests), pack([(1, one) for one in requests[:8]])]

    def run(self, data: bytes) -> Hashable:
        from tests.gateway.kafka.memory import framed, run

        steps = unpack(data, most=STEPS_MAX)
        return run(self._serve([step if kind == RAW else framed(step) for kind, step in steps]))

    async def _serve(self, pieces: list[bytes]) -> Hashable:
        from tests.gateway.kafka.memory import SETTINGS, MemoryDoor

        door = MemoryDoor()
        try:
            frames = (await door.serve(*pieces)).frames()
            found: Hashable = tuple(len(one) for one in frames)
        except (OrdoError, TimeoutError) as error:
            found = str(error)[:20]
        try:
            async with asyncio.timeout(1):
                await door.budget.take(SETTINGS.requests_bytes_max)
        except TimeoutError:
            raise Finding("a connection is over, and its bytes are not given back") from None
        if door.sessions.in_use:
            raise Finding("a connection is over, and its session is in use")
        if len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
            if len(asyncio.all_tasks()) > 1:
                raise Finding(f"a connection is over, and work is left: {asyncio.all_tasks()}")
        return found

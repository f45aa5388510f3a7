"""`ordo.log` without a cluster: windows over numbers that jump, what groups commit, what is asked of it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from kio.schema.list_offsets.v5.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v8.request import MetadataRequestTopic
from kio.schema.offset_commit.v7.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v5.request import OffsetFetchRequestTopic

from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.kafka.cursors import Cursor
from ordo.gateway.kafka.log_topic import LOG_TOPIC, message_of
from ordo.gateway.kafka.service.orders import KafkaError, OrderKind, encode_order
from ordo.gateway.kafka.wire.messages import Api
from ordo.gateway.kafka.wire.records import Stored, encode_batch
from ordo.service_api.feeds import TOPICS_MAX
from tests.gateway.kafka.batches import request_of, response_of
from tests.gateway.kafka.memory import MemoryDoor, framed, run
from tests.gateway.kafka.test_connection import fetch

NUMBERS = (3, 4, 1_000, 1_001)
MEMBER: dict[str, Any] = {"group_id": "g", "member_id": "", "group_instance_id": None}


class Jumping(Cursor):
    may_jump = True


class Numbered:
    """Hands out messages of NUMBERS, all of them at once."""

    def __init__(self) -> None:
        self._left = list(NUMBERS)

    def work(self, now_ns: int) -> int:
        return 0

    def poll_messages(self, handler: Any, limit: int) -> int:
        found, self._left = self._left, []
        for one in found:
            handler(FeedMessage(LOG_TOPIC, one, 0, 0, 10 * one, b"%d" % one))
        return len(found)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("asked", "found"), [(2, [3, 4]), (3, [3, 4]), (4, [4]), (5, [1_000, 1_001]), (999, [1_000, 1_001]), (1_002, [])]
)
def test_numbers_that_are_not_there_are_passed_over_and_no_batch_has_a_gap(asked: int, found: list[int]) -> None:
    cursor = Jumping(Numbered(), 2)
    cursor.work(0)
    assert cursor.covers(asked) and [one.number for one in cursor.read(asked, 1 << 20)] == found


def test_a_topic_whose_numbers_do_not_jump_answers_for_none_that_is_missing() -> None:
    cursor = Cursor(Numbered(), 2)
    cursor.work(0)
    assert not cursor.covers(2) and cursor.read(2, 1 << 20) == []


def test_a_record_tells_whose_entry_it_is_in_which_unit_of_time() -> None:
    entry = LogEntry(4_096, EntryKind.MESSAGE, 1_795_977_217_721_000_001, 3, -7, b"value", sequence=12)
    found = message_of(entry, b"billing")
    assert (found.sequence, found.timestamp) == (12, entry.timestamp)
    from kio.records.readers import read_batch

    batch, _ = read_batch(encode_batch([Stored(12, 1_795_977_217_721, found.payload)]), 0)
    (record,) = batch.records
    assert {one.key.decode(): one.value.decode() for one in record.headers} == {
        "ordo.kind": "message",
        "ordo.session": "-7",
        "ordo.principal": "billing",
        "ordo.position": "4096",
        "ordo.timestamp": "1795977217721000001",
        "ordo.time_unit": "ns",
    }
    assert (record.key, record.value) == (None, b"value")


def test_a_record_tells_when_its_message_arrived_where_the_log_says_it() -> None:
    entry = LogEntry(4_096, EntryKind.MESSAGE, 1_795_977_217_721, 3, 7, b"value", sequence=12)
    assert b"arrival" not in message_of(entry, b"").payload
    found = message_of(entry._replace(arrival_ns=1_795_977_217_720_999_999), b"")
    from kio.records.readers import read_batch

    batch, _ = read_batch(encode_batch([Stored(12, 1_795_977_217_721, found.payload)]), 0)
    headers = {one.key.decode(): one.value.decode() for one in batch.records[0].headers}
    assert headers["ordo.arrival_ns"] == "1795977217720999999"


def ask(*requests: bytes) -> tuple[list[Any], MemoryDoor]:
    """Ask a door whose log has numbers 5 to 7, and return the bodies of the responses."""

    async def work() -> tuple[list[Any], MemoryDoor]:
        door = MemoryDoor()
        door.session.log = [Stored(number, 100 * number, b"%d" % number) for number in (5, 6, 7)]
        frames = (await door.serve(*map(framed, requests))).frames()
        return [response_of(one[1], one[3], frame)[1] for one, frame in zip(requests, frames, strict=True)], door

    return run(work())


@pytest.mark.parametrize(
    ("number", "error", "count"),
    [(0, KafkaError.OFFSET_OUT_OF_RANGE, 0), (6, 0, 2), (8, 0, 0), (9, KafkaError.OFFSET_OUT_OF_RANGE, 0)],
)
def test_a_number_up_to_the_end_is_read_and_others_never_were(number: int, error: int, count: int) -> None:
    (body,), _ = ask(fetch(number, 1, LOG_TOPIC))
    (partition,) = body.responses[0].partitions
    assert partition.error_code == error
    assert bool(partition.records) == bool(count)


@pytest.mark.parametrize(("time", "found"), [(-1, 8), (-2, 5), (600, 6), (601, 7), (701, -1)])
def test_its_ends_and_times(time: int, found: int) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=time)
    topics = (ListOffsetsTopic(name=LOG_TOPIC, partitions=(partition,)),)
    (body,), _ = ask(request_of(Api.LIST_OFFSETS, 5, 1, replica_id=-1, isolation_level=0, topics=topics))
    told = body.topics[0].partitions[0]
    assert (told.error_code, told.offset) == (0, found)


def metadata(*names: str) -> bytes:
    more: dict[str, Any] = {"allow_auto_topic_creation": True, "include_cluster_authorized_operations": False}
    topics = tuple(MetadataRequestTopic(name=one) for one in names) if names else None
    return request_of(Api.METADATA, 8, 1, topics=topics, include_topic_authorized_operations=False, **more)


def commit_of(*names: str) -> bytes:
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=6, committed_metadata="")
    topics = tuple(OffsetCommitRequestTopic(name=one, partitions=(offset,)) for one in names)
    return request_of(Api.OFFSET_COMMIT, 7, 1, generation_id_or_member_epoch=-1, topics=topics, **MEMBER)


def test_who_commits_first_has_the_cluster_know_it_and_it_is_still_not_listed() -> None:
    commit = commit_of(LOG_TOPIC)
    wanted = (OffsetFetchRequestTopic(name=LOG_TOPIC, partition_indexes=(0,)),)
    kept = request_of(Api.OFFSET_FETCH, 5, 1, group_id="g", topics=wanted)
    found, door = ask(commit, commit, kept, metadata(), metadata(LOG_TOPIC))
    assert [one.topics[0].partitions[0].error_code for one in found[:2]] == [0, 0]
    assert found[2].topics[0].partitions[0].committed_offset == 6
    assert found[3].topics == ()
    assert [(one.name, one.is_internal, one.error_code) for one in found[4].topics] == [(LOG_TOPIC, True, 0)]
    assert run_query(door) == {LOG_TOPIC: 0}


@pytest.mark.parametrize("names", [(LOG_TOPIC,), ("topic-0", LOG_TOPIC), (LOG_TOPIC, "topic-0", "topic-1")])
def test_offsets_of_topics_are_kept_where_there_is_no_place_for_the_log(names: tuple[str, ...]) -> None:
    async def work() -> None:
        door = MemoryDoor()
        for number in range(TOPICS_MAX):
            await door.session.order(encode_order(OrderKind.CREATE, topic=f"topic-{number}"))
        wanted = commit_of(*names)
        (frame,) = (await door.serve(framed(wanted))).frames()
        body = response_of(wanted[1], wanted[3], frame)[1]
        told = {one.name: one.partitions[0].error_code for one in body.topics}
        assert told == {one: KafkaError.POLICY_VIOLATION if one == LOG_TOPIC else KafkaError.NONE for one in names}
        kept = await door.session.query(OrderKind.OFFSETS, group="g")
        assert kept == {one: [6, ""] for one in names if one != LOG_TOPIC}
        assert await door.session.query(OrderKind.GROUPS) == (["g"] if kept else [])

    run(work())


@pytest.mark.parametrize("is_known", [False, True])
def test_a_topic_that_the_cluster_does_not_know_keeps_no_offset_of_the_log_from_it(is_known: bool) -> None:
    async def work() -> None:
        door = MemoryDoor()
        for name in ("orders", *([LOG_TOPIC] if is_known else [])):
            await door.session.order(encode_order(OrderKind.CREATE, topic=name))
        wanted = commit_of("orders", LOG_TOPIC, "deleted")
        (frame,) = (await door.serve(framed(wanted))).frames()
        body = response_of(wanted[1], wanted[3], frame)[1]
        told = {one.name: one.partitions[0].error_code for one in body.topics}
        unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        assert told == {"orders": unknown, LOG_TOPIC: KafkaError.NONE, "deleted": unknown}
        assert await door.session.query(OrderKind.OFFSETS, group="g") == {LOG_TOPIC: [6, ""]}

    run(work())


def run_query(door: MemoryDoor) -> Any:
    async def work() -> Any:
        return await door.session.query(OrderKind.TOPICS)

    return run(work())

"""Two doors in front of one cluster, in virtual time: who coordinates a group, and what the other one answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from kio.schema.join_group.v5.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v3.request import MemberIdentity
from kio.schema.metadata.v8.request import MetadataRequestTopic
from kio.schema.offset_commit.v7.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from ordo.gateway.kafka.door_lease import DoorLease, Doors
from ordo.gateway.kafka.service.orders import KafkaError, OrderKind, encode_order
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.messages import Api
from tests.gateway.kafka.batches import codes_of, request_of, response_of
from tests.gateway.kafka.memory import SETTINGS, MemoryDoor, framed, pass_time, run
from tests.gateway.kafka.test_connection import METADATA, SECOND

NOT = KafkaError.NOT_COORDINATOR
AWAY = KafkaError.COORDINATOR_NOT_AVAILABLE
MEMBER: dict[str, Any] = {"group_id": "g", "member_id": "", "group_instance_id": None}
JOIN = request_of(
    Api.JOIN_GROUP, 5, 1, session_timeout=30 * SECOND, rebalance_timeout=30 * SECOND, protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"topics"),), **MEMBER,
)  # fmt: skip


def commit(number: int, group: str = "g") -> bytes:
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(offset,)),)
    return request_of(
        Api.OFFSET_COMMIT, 7, 1, generation_id_or_member_epoch=-1, topics=topics, **{**MEMBER, "group_id": group}
    )


OFFSETS = request_of(Api.OFFSET_FETCH, 5, 1, group_id="g", topics=None)
OF_MEMBERS = [
    JOIN,
    request_of(Api.SYNC_GROUP, 3, 1, generation_id=1, assignments=(), **MEMBER),
    request_of(Api.HEARTBEAT, 3, 1, generation_id=1, **MEMBER),
    request_of(Api.LEAVE_GROUP, 3, 1, group_id="g", members=(MemberIdentity(member_id="m", group_instance_id=None),)),
    commit(1),
    OFFSETS,
    request_of(Api.DESCRIBE_GROUPS, 3, 1, groups=("g",), include_authorized_operations=False),
    request_of(Api.DELETE_GROUPS, 1, 1, groups_names=("g",)),
]


def find(version: int, *groups: str) -> bytes:
    if version >= 4:
        return request_of(Api.FIND_COORDINATOR, version, 1, coordinator_keys=groups, key_type=0)
    more = {"key_type": 0} if version else {}
    return request_of(Api.FIND_COORDINATOR, version, 1, key=groups[0], **more)


async def ask(door: MemoryDoor, request: bytes) -> Any:
    (frame,) = (await door.serve(framed(request))).frames()
    return response_of(request[1], request[3], frame)[1]


class Pair:
    """Two doors at work in front of one cluster."""

    def __init__(self, *settings: KafkaSettings) -> None:
        first, second = settings or (SETTINGS, SETTINGS)
        self.first = MemoryDoor(first, address="first:9092")
        self.second = MemoryDoor(second, beside=self.first, address="second:9092")

    async def __aenter__(self) -> Pair:
        self._work = [self.first.at_work(), self.second.at_work()]
        for one in self._work:
            await one.__aenter__()
        await ask(self.first, METADATA)
        await ask(self.second, METADATA)
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._work:
            await one.__aexit__(None, None, None)

    async def stop_first(self) -> None:
        """Have the first door do nothing more by itself, as if it stood still."""
        await self._work.pop(0).__aexit__(None, None, None)
        self.first.is_at_work = True  # it answers all the same

    @property
    def lease(self) -> DoorLease:
        return self.first.calls.lease


def with_pair(work: Any, *settings: KafkaSettings) -> Any:
    async def begin() -> Any:
        async with Pair(*settings) as pair:
            return await work(pair)

    found: Coroutine[Any, Any, Any] = begin()
    return run(found)


@pytest.mark.parametrize("version", range(5))
def test_both_doors_name_the_one_that_was_asked_first(version: int) -> None:
    async def work(pair: Pair) -> list[Any]:
        found = [await ask(pair.first, find(version, "g")), await ask(pair.second, find(version, "g"))]
        found.append(await ask(pair.second, find(version, "h")))
        return found if version < 4 else [one.coordinators[0] for one in found]

    at_first, at_second, other = with_pair(work)
    assert (at_first.error_code, at_first.node_id, at_first.host) == (0, 0, "127.0.0.1"), "the address it came by"
    assert (at_second.error_code, at_second.node_id, at_second.host, at_second.port) == (0, 0, "first", 9092)
    assert (other.error_code, other.node_id) == (0, 1)


def test_many_groups_are_asked_for_at_once() -> None:
    async def work(pair: Pair) -> Any:
        await ask(pair.second, find(2, "h"))
        return await ask(pair.first, find(4, "g", "h", ""))

    found = with_pair(work).coordinators
    assert [(one.key, one.error_code, one.node_id) for one in found] == [
        ("g", 0, 0), ("h", 0, 1), ("", KafkaError.INVALID_GROUP_ID, -1),
    ]  # fmt: skip


TOPICS = [f"topic-{index}" for index in range(16)]
METADATA_OF_MANY = request_of(
    Api.METADATA, 8, 1, topics=tuple(MetadataRequestTopic(name=name) for name in TOPICS),
    allow_auto_topic_creation=True, include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)  # fmt: skip


def leaders_in(found: Any) -> dict[str, int]:
    """Return the leader of each topic, which is one of the brokers."""
    leaders = {one.name: int(one.partitions[0].leader_id) for one in found.topics}
    assert set(leaders.values()) <= {one.node_id for one in found.brokers}
    return leaders


def test_all_doors_name_the_same_leader_of_a_topic_and_share_the_topics() -> None:
    async def work(pair: Pair) -> list[Any]:
        await pass_time(SETTINGS.lease_s)
        return [await ask(one, METADATA_OF_MANY) for one in (pair.first, pair.second)]

    at_first, at_second = with_pair(work)
    assert leaders_in(at_first) == leaders_in(at_second)
    assert set(leaders_in(at_first).values()) == {0, 1}
    for node_id, one in enumerate((at_first, at_second)):
        assert {broker.node_id for broker in one.brokers} == {0, 1}
        assert one.controller_id == node_id


@pytest.mark.parametrize("count", [3, 5])
def test_doors_have_equal_shares_of_the_topics(count: int) -> None:
    doors = Doors(0, (), range(count))
    topics = 1_000
    shares = Counter(doors.leader_of(f"topic-{index}") for index in range(topics))
    assert sorted(shares) == list(range(count))
    assert all(abs(one * count / topics - 1) < 0.15 for one in shares.values()), shares


def test_a_door_that_comes_while_a_request_waits_leads_nothing_in_a_response_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(pair: Pair) -> list[Any]:
        third = MemoryDoor(beside=pair.first, address="third:9092")
        query = pair.second.session.query

        async def query_late(kind: OrderKind, **fields: object) -> Any:
            if kind is OrderKind.TOPICS:
                monkeypatch.setattr(pair.second.session, "query", query)
                await pass_time(SETTINGS.lease_s)
            return await query(kind, **fields)

        async with third.at_work():
            asked = asyncio.create_task(ask(pair.second, METADATA_OF_MANY))
            monkeypatch.setattr(pair.second.session, "query", query_late)
            return [await asked, await ask(pair.first, METADATA_OF_MANY)]

    during, after = with_pair(work)
    assert leaders_in(during) == leaders_in(after) and 2 in leaders_in(after).values()


def test_a_door_that_is_gone_is_named_no_longer_and_the_others_lead_what_they_led() -> None:
    async def work(pair: Pair) -> list[Any]:
        await pass_time(SETTINGS.lease_s)
        before = await ask(pair.second, METADATA_OF_MANY)
        await pair.stop_first()
        await pass_time(2 * SETTINGS.lease_s)
        return [before, await ask(pair.second, METADATA_OF_MANY)]

    before, after = with_pair(work)
    assert [one.node_id for one in after.brokers] == [1]
    assert 0 in leaders_in(before).values() and set(leaders_in(after).values()) == {1}


def test_doors_of_another_network_lead_nothing_here() -> None:
    async def work(pair: Pair) -> list[Any]:
        await pass_time(SETTINGS.lease_s)
        return [await ask(one, METADATA_OF_MANY) for one in (pair.first, pair.second)]

    for node_id, one in enumerate(with_pair(work, SETTINGS, replace(SETTINGS, network="outside"))):
        assert set(leaders_in(one).values()) == {node_id}


@pytest.mark.parametrize("request_bytes", OF_MEMBERS)
def test_a_door_answers_nothing_for_a_group_of_another_one(request_bytes: bytes) -> None:
    async def work(pair: Pair) -> Any:
        await ask(pair.first, find(2, "g"))
        assert codes_of(await ask(pair.second, request_bytes)) == {NOT}
        if request_bytes[1] != Api.OFFSET_FETCH:  # which has nothing to say yet
            assert codes_of(await ask(pair.first, request_bytes)) != {NOT}

    with_pair(work)


def test_a_door_that_stood_still_for_longer_than_its_lease_answers_for_no_group_any_more() -> None:
    async def work(pair: Pair) -> Any:
        assert codes_of(await ask(pair.first, commit(5))) == {0}
        await pair.stop_first()
        await pass_time(SETTINGS.lease_s + 1)
        assert codes_of(await ask(pair.second, commit(7))) == {0}
        for one in OF_MEMBERS:
            assert codes_of(await ask(pair.first, one)) == {NOT}
        found = (await ask(pair.second, OFFSETS)).topics[0].partitions[0]
        assert found.committed_offset == 7

    with_pair(work)


def test_the_cluster_refuses_what_a_door_commits_that_takes_its_lease_for_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(pair: Pair) -> Any:
        assert codes_of(await ask(pair.first, commit(5))) == {0}
        await pair.stop_first()
        await pass_time(SETTINGS.lease_s + 1)
        assert codes_of(await ask(pair.second, commit(7))) == {0}
        pair.lease._held_until_s = float("inf")
        assert pair.lease.epoch_of("g") > 0, "it errs"
        assert codes_of(await ask(pair.first, commit(6))) == {NOT}
        assert pair.lease.epoch_of("g") == 0, "and has learnt"
        found = (await ask(pair.second, OFFSETS)).topics[0].partitions[0]
        assert found.committed_offset == 7

    with_pair(work)


def test_members_that_wait_are_told_to_look_for_another_door_when_theirs_has_lost_the_group() -> None:
    async def work(pair: Pair) -> Any:
        first_join = request_of(
            Api.JOIN_GROUP, 2, 1, session_timeout=30 * SECOND, rebalance_timeout=30 * SECOND,
            protocol_type="consumer", protocols=(JoinGroupRequestProtocol(name="range", metadata=b"topics"),),
            group_id="g", member_id="",
        )  # fmt: skip
        joined = await ask(pair.first, first_join)
        assert joined.error_code == 0
        sync = request_of(
            Api.SYNC_GROUP, 3, 1, generation_id=joined.generation_id, assignments=(),
            group_id="g", member_id=joined.member_id, group_instance_id=None,
        )  # fmt: skip
        assert (await ask(pair.first, sync)).error_code == 0
        waiting = asyncio.create_task(ask(pair.first, first_join))  # until the other one joins again
        await pass_time(1)
        assert not waiting.done()
        encoded = encode_order(OrderKind.LEAVE, lease=pair.lease._lease)
        await pair.first.session.order(encoded)
        return (await waiting).error_code

    assert with_pair(work) == NOT


def test_a_door_that_ends_gives_its_groups_up() -> None:
    async def work(pair: Pair) -> Any:
        await ask(pair.first, find(2, "g"))
        await pair.stop_first()
        await pair.lease.end()
        return await ask(pair.second, find(2, "g"))

    assert with_pair(work).node_id == 1


def test_doors_of_different_networks_are_not_named_to_each_other_s_clients() -> None:
    inside = KafkaSettings(endpoints=["127.0.0.1:9"], network="inside")

    async def work(pair: Pair) -> Any:
        await pass_time(SETTINGS.lease_s)
        assert [one.node_id for one in (await ask(pair.first, METADATA)).brokers] == [0]
        await ask(pair.first, find(2, "g"))
        return await ask(pair.second, find(2, "g"))

    assert with_pair(work, SETTINGS, inside).error_code == AWAY


def test_two_doors_with_one_address_do_not_drive_each_other_out_for_ever() -> None:
    async def work(pair: Pair) -> Any:
        third = MemoryDoor(beside=pair.first, address="first:9092")
        async with third.at_work():
            assert (await ask(third, find(2, "g"))).error_code == 0
            await pass_time(5 * SETTINGS.lease_s)
            assert "another door is registered as first:9092" in pair.lease.refusal
            assert (await ask(pair.first, find(2, "g"))).error_code == AWAY
            assert (await ask(third, find(2, "g"))).error_code == 0
        await pass_time(2 * SETTINGS.lease_s)
        return await ask(pair.first, find(2, "g"))

    assert with_pair(work).error_code == 0, "the other one is gone"


def test_groups_of_all_doors_are_listed_once() -> None:
    async def work(pair: Pair) -> Any:
        assert codes_of(await ask(pair.first, commit(5))) == {0}
        listing = request_of(Api.LIST_GROUPS, 2, 1)
        return [[one.group_id for one in (await ask(door, listing)).groups] for door in (pair.first, pair.second)]

    assert with_pair(work) == [["g"], []]


def test_a_group_that_has_offsets_and_no_members_is_empty_and_one_that_never_was_is_dead() -> None:
    async def work(pair: Pair) -> Any:
        assert codes_of(await ask(pair.first, commit(5))) == {0}
        await ask(pair.first, find(2, "other"))
        names = ("g", "other")
        request = request_of(Api.DESCRIBE_GROUPS, 3, 1, groups=names, include_authorized_operations=False)
        return (await ask(pair.first, request)).groups

    found = with_pair(work)
    assert [(one.group_id, one.error_code, one.group_state) for one in found] == [
        ("g", 0, "Empty"),
        ("other", 0, "Dead"),
    ]

"""A client that wants to be a thousand members of one group: what others in it see, and that those elsewhere go on."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from kio.schema.join_group.v5.request import JoinGroupRequestProtocol

from ordo.gateway.kafka.groups.groups import MEMBERS_MAX
from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.wire.messages import Api
from tests.cluster.integration.agreement import await_that
from tests.gateway.kafka.batches import request_of, response_of
from tests.gateway.kafka.conftest import StartDoor
from tests.gateway.kafka.memory import framed
from tests.patience import patient

confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
aiokafka = pytest.importorskip("aiokafka", reason="needs aiokafka")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WANTED = 1_000
WAIT_S = 60.0


def join_request(group: str) -> bytes:
    timeout = datetime.timedelta(minutes=10)
    return request_of(
        Api.JOIN_GROUP, 5, 1, group_id=group, session_timeout=timeout, rebalance_timeout=timeout, member_id="",
        group_instance_id=None, protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),),
    )  # fmt: skip


def want_members(address: str, group: str) -> Counter[int]:
    """Ask for places in a group, as many as are wanted, and return the errors of the answers."""

    async def ask() -> Counter[int]:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        find = request_of(Api.FIND_COORDINATOR, 2, 1, key=group, key_type=0)
        writer.write(framed(find) + framed(join_request(group)) * WANTED)
        codes: Counter[int] = Counter()
        for number in range(1 + WANTED):
            head = await reader.readexactly(4)
            frame = head + await reader.readexactly(int.from_bytes(head, "big"))
            if number:
                codes[int(response_of(Api.JOIN_GROUP, 5, frame)[1].error_code)] += 1
        writer.close()
        return codes

    return asyncio.run(ask())


def consumer_of(address: str, group: str) -> Any:
    settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    return confluent_kafka.Consumer(settings)


def read(consumer: Any, wanted: bytes) -> list[str]:
    """Read until a record comes, commit it, and return the names of the errors that came before it."""
    errors: list[str] = []

    def has_come() -> bool:
        message = consumer.poll(0.1)
        if message is None:
            return False
        if message.error() is not None:
            errors.append(message.error().name())
            return False
        assert message.value() == wanted
        consumer.commit(asynchronous=False)
        return True

    await_that(has_come, f"the record {wanted!r}", WAIT_S)
    return errors


def test_a_client_with_a_thousand_members_harms_no_other_group(start_door: StartDoor, topic: str) -> None:
    address, full = start_door().address, f"full-{topic}"
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})

    def produce(payload: bytes) -> None:
        producer.produce(topic, payload)
        assert producer.flush(patient(WAIT_S)) == 0

    produce(b"one")
    elsewhere = consumer_of(address, f"elsewhere-{topic}")
    elsewhere.subscribe([topic])
    assert read(elsewhere, b"one") == []
    codes = want_members(address, full)
    refused = KafkaError.GROUP_MAX_SIZE_REACHED
    assert codes == {KafkaError.MEMBER_ID_REQUIRED: MEMBERS_MAX, refused: WANTED - MEMBERS_MAX}

    late = consumer_of(address, full)
    late.subscribe([topic])
    told: list[str] = []

    def is_told() -> bool:
        message = late.poll(0.1)
        if message is not None and message.error() is not None:
            told.append(message.error().name())
        return len(told) == 2

    await_that(is_told, "librdkafka to be told that the group is full, and to ask again", WAIT_S)
    assert set(told) == {"GROUP_MAX_SIZE_REACHED"}
    with pytest.raises(aiokafka.errors.KafkaError, match="UnknownError"):
        asyncio.run(join_with_aiokafka(address, full, topic))

    produce(b"two")
    assert read(elsewhere, b"two") == []
    begun = consumer_of(address, f"begun-{topic}")
    begun.subscribe([topic])
    assert read(begun, b"one") == []
    for one in (elsewhere, begun, late):
        one.close()


async def join_with_aiokafka(address: str, group: str, topic: str) -> None:
    consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=group)
    try:
        await consumer.start()
    finally:
        with suppress(aiokafka.errors.KafkaError):
            await consumer.stop()

"""One order over all topics, under load, while the leader and a door are killed: clients as they are, and the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")
pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("kafka", reason="needs kafka-python")

import kafka

from ordo.deploy.launcher import LocalCluster
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import OrderKind, decode_append, split_order
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, ready_cluster
from tests.gateway.kafka.conftest import KafkaProcess
from tests.gateway.kafka.test_clients import WAIT_S, Sent, read_all
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TOPICS = ("orders", "cancels", "quotes")
PRODUCERS = 3
PART = 200
"""So many records each producer sends to each topic before, and after, each death."""
PARTS = 3
Record = tuple[int, bytes]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with ready_cluster("ordo:Topics", root=tmp_path / "cluster", heartbeat=STEADY) as started:
        yield started


@pytest.fixture
def doors(cluster: LocalCluster, tmp_path: Path) -> Iterator[list[KafkaProcess]]:
    started = [KafkaProcess(cluster, tmp_path / f"door-{index}.log") for index in range(2)]
    yield started
    for one in started:
        one.kill()


class Load:
    """Producers that send to all topics, in turns."""

    def __init__(self, doors: Sequence[KafkaProcess]) -> None:
        address = ",".join(one.address for one in doors)
        settings = {"linger.ms": 1, "batch.num.messages": 20, "reconnect.backoff.max.ms": 500}
        self._producers = [Sent(address, **settings) for _ in range(PRODUCERS)]
        self._count = 0

    def send(self) -> None:
        """Send the next part, and wait until a record of it, not all, is acknowledged to each."""
        for number in range(self._count, self._count + PART):
            for index, one in enumerate(self._producers):
                for topic in TOPICS:
                    one.send(topic, [b"%d %d" % (index, number)])
        for one in self._producers:
            one.await_some(self._count * len(TOPICS) + 1)
        self._count += PART

    def await_all(self) -> None:
        for one in self._producers:
            one.await_all()


def demand_each_once(records: Sequence[Record]) -> None:
    """Demand that a topic has each record of each producer once, in the producer's order."""
    assert [offset for offset, _ in records] == list(range(1, len(records) + 1))
    by_producer: dict[bytes, list[int]] = defaultdict(list)
    for _, value in records:
        producer, number = value.split()
        by_producer[producer].append(int(number))
    assert by_producer == {b"%d" % index: list(range(PARTS * PART)) for index in range(PRODUCERS)}


def topics_of(log: Sequence[Record]) -> dict[str, list[bytes]]:
    """What the topics must have if all members execute the log in its order, each record of a producer once."""
    topics: dict[str, list[bytes]] = defaultdict(list)
    expected: Counter[tuple[int, str]] = Counter()
    for _, value in log:
        kind, body = split_order(value) or (None, b"")
        if kind is not OrderKind.APPEND:
            continue
        append = decode_append(body)
        source = append.producer_id, append.topic
        for sequence, payload in enumerate(append.payloads, append.sequence):
            if sequence == expected[source]:  # else it was there before, or one before it is missing
                expected[source] += 1
                topics[append.topic].append(payload)
    return topics


def end_of_log(address: str) -> int:
    place = kafka.TopicPartition(LOG_TOPIC, 0)
    reader = kafka.KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
    try:
        return int(reader.end_offsets([place])[place])
    finally:
        reader.close(autocommit=False)


def read_with_kafka_python(address: str, end: int) -> list[Record]:
    place = kafka.TopicPartition(LOG_TOPIC, 0)
    reader = kafka.KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
    reader.assign([place])
    reader.seek(place, 1)
    found: list[Record] = []

    def has_all() -> bool:
        for batch in reader.poll(timeout_ms=100).values():
            found.extend((one.offset, one.value) for one in batch)
        return bool(found) and found[-1][0] >= end - 1

    await_that(has_all, "the whole log", timeout_s=patient(WAIT_S))
    reader.close(autocommit=False)
    return found[: end - 1]


def test_one_order_over_topics_and_doors_while_the_leader_and_a_door_are_killed(
    cluster: LocalCluster, doors: list[KafkaProcess], tmp_path: Path
) -> None:
    load = Load(doors)
    load.send()
    leader = cluster.await_leader(patient(WAIT_S))
    cluster.kill(leader)
    load.send()
    doors[0].kill()
    doors[0] = KafkaProcess(cluster, tmp_path / "door-again.log", listen=doors[0].address)
    load.send()
    load.await_all()
    cluster.restart(leader)
    wanted = PRODUCERS * PARTS * PART
    topics: dict[str, list[bytes]] = {}
    for index, name in enumerate(TOPICS):
        records = read_all(doors[index % 2].address, name, wanted)
        demand_each_once(records)
        topics[name] = [value for _, value in records]
    end = end_of_log(doors[1].address)
    log = read_with_kafka_python(doors[0].address, end)
    assert read_all(doors[1].address, LOG_TOPIC, end - 1)[: end - 1] == log, "two readers, two doors: one order"
    assert [offset for offset, _ in log] == list(range(1, end))
    assert topics_of(log) == topics

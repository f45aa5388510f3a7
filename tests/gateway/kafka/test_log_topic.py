"""The committed log as the topic `ordo.log`, read by Kafka's clients as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import LogEntry
from ordo.follow.reader import LogReader
from ordo.gateway.kafka.log_topic import LOG_KINDS, LOG_TOPIC
from ordo.runtime.security.tokens import hash_token
from tests.clusters import ready_cluster
from tests.gateway.conftest import GatewayProcess
from tests.patience import patient
from tests.snippets import Page

confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
kafka = pytest.importorskip("kafka", reason="needs kafka-python")
pytest.importorskip("kio", reason="needs the extra kafka")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
AUDITOR, TRADER = "a" * 40, "t" * 40
TABLES: Any = {
    "tokens": [
        {"principal": "auditor", "hash": hash_token(AUDITOR), "roles": ["ingress", "queries", "log"]},
        {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress", "queries", "topics"]},
    ]
}
PLACE = kafka.TopicPartition(LOG_TOPIC, 0)
WAIT_S = 60.0


class KafkaProcess(GatewayProcess):
    """`ordo kafka`."""

    command = "kafka"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("log") / "cluster"
    with ready_cluster("ordo:Topics", root=root, member_count=1, sync="none", tables=TABLES) as started:
        yield started


@pytest.fixture(scope="module")
def address(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("door")
    token = folder / "auditor.token"
    token.write_text(AUDITOR)
    door = KafkaProcess(cluster, folder / "door.log", "--token-file", str(token))
    yield door.address
    door.kill()


def send(cluster: LocalCluster, *payloads: bytes) -> None:
    settings = ClientSettings(credentials=TRADER.encode())
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        for one in payloads:
            client.send(one, until="sequenced")


def entries(cluster: LocalCluster) -> list[LogEntry]:
    """What Ordo's own reader has of the log."""
    archives = [archive_endpoint(one) for one in cluster.ingress_endpoints.values()]
    with LogReader(archives, kinds=LOG_KINDS, credentials=AUDITOR.encode()) as reader:
        return list(reader.entries(timeout_s=patient(1)))


def consumer_at(address: str) -> Any:
    return kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none", enable_auto_commit=False)


def test_kafka_python_reads_what_ordo_s_reader_reads_with_the_same_numbers(cluster: LocalCluster, address: str) -> None:
    plain = [b"one", b"", b"\xf0ordo.record\x01looks like a record with a key", bytes(range(256)) * 100]
    send(cluster, *plain)
    wanted = entries(cluster)
    assert [one.sequence for one in wanted] == list(range(1, len(wanted) + 1))
    assert [one.payload for one in wanted][-4:] == plain
    reader = consumer_at(address)
    assert LOG_TOPIC in reader.topics(exclude_internal_topics=False) if _names_internal(reader) else True
    reader.assign([PLACE])
    reader.seek(PLACE, 1)
    found = [next(reader) for _ in wanted]
    assert [one.offset for one in found] == [one.sequence for one in wanted]
    assert [one.value for one in found] == [one.payload for one in wanted]
    assert [one.timestamp for one in found] == [one.timestamp for one in wanted]
    for one, entry in zip(found, wanted, strict=True):
        headers = {name: content.decode() for name, content in one.headers}
        assert headers == {
            "ordo.kind": entry.kind.value,
            "ordo.session": str(entry.session_id),
            "ordo.position": str(entry.position),
        }
        assert one.key is None
    send(cluster, b"later")
    assert next(reader).value == b"later", "what comes is waited for"
    reader.close(autocommit=False)


def _names_internal(reader: Any) -> bool:
    """Whether this release of the client can be asked for internal topics."""
    return "exclude_internal_topics" in type(reader).topics.__code__.co_varnames


def test_the_ends_and_times_of_the_log(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"first", b"second")
    wanted = entries(cluster)
    reader = consumer_at(address)
    assert reader.beginning_offsets([PLACE]) == {PLACE: 1}
    assert reader.end_offsets([PLACE]) == {PLACE: len(wanted) + 1}
    middle = wanted[len(wanted) // 2]
    first = next(one for one in wanted if one.timestamp >= middle.timestamp)
    found = reader.offsets_for_times({PLACE: middle.timestamp})[PLACE]
    assert (found.offset, found.timestamp) == (first.sequence, first.timestamp)
    assert reader.offsets_for_times({PLACE: wanted[-1].timestamp + 1_000_000})[PLACE] is None
    reader.close(autocommit=False)


def test_a_number_beyond_the_end_waits_and_one_below_1_is_out_of_range(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"there")
    end = len(entries(cluster)) + 1
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "beyond", "auto.offset.reset": "error", "log_level": 0}
    )
    reader.assign([confluent_kafka.TopicPartition(LOG_TOPIC, 0, end + 1)])
    assert reader.poll(1) is None
    send(cluster, b"before", b"wanted")
    message = reader.poll(patient(WAIT_S))
    assert (message.error(), message.offset(), message.value()) == (None, end + 1, b"wanted")
    reader.assign([confluent_kafka.TopicPartition(LOG_TOPIC, 0, 0)])
    refused = reader.poll(patient(WAIT_S))
    assert refused.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
    reader.close()


def test_it_is_read_only(cluster: LocalCluster, address: str) -> None:
    before = [one.payload for one in entries(cluster)]
    told: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce(LOG_TOPIC, b"forged", on_delivery=lambda error, _: told.append(error.code()))
    assert producer.flush(patient(WAIT_S)) == 0
    assert told == [confluent_kafka.KafkaError.TOPIC_EXCEPTION]
    assert not any(b"forged" in one for one in [one.payload for one in entries(cluster)][len(before) :])


def test_who_lacks_the_role_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    send(cluster, b"secret")
    token = tmp_path / "trader.token"
    token.write_text(TRADER)
    door = KafkaProcess(cluster, tmp_path / "door.log", "--token-file", str(token))
    try:
        reader = consumer_at(door.address)
        reader.assign([PLACE])
        reader.seek(PLACE, 1)
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            reader.poll(timeout_ms=round(patient(WAIT_S) * 1_000))
        reader.close(autocommit=False)
    finally:
        door.kill()


def test_the_page_s_consumer(cluster: LocalCluster, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    send(cluster, b"there")
    exec(Page("KAFKA.md").take("python", "ordo.log").replace("10.0.0.9:9092", address), {})
    assert re.search(r"^1 b'\w+'$", capsys.readouterr().out, re.MULTILINE)

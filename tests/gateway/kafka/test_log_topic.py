"""The committed log as the topic `ordo.log`, read by Kafka's clients as they are, through a failover too."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.runtime.security.tokens import hash_token
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, ready_cluster
from tests.gateway.conftest import GatewayProcess
from tests.patience import patient
from tests.snippets import Page

confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
kafka = pytest.importorskip("kafka", reason="needs kafka-python")
aiokafka = pytest.importorskip("aiokafka", reason="needs aiokafka")
pytest.importorskip("kio", reason="needs the extra kafka")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
AUDITOR, TRADER = "a" * 40, "t" * 40
TABLES: Any = {
    "tokens": [
        {"principal": "auditor", "hash": hash_token(AUDITOR), "roles": ["ingress", "queries", "log"]},
        {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress", "queries", "topics"]},
    ]
}
FORGETFUL: Any = {
    "cluster": {"log_term_length": "64k", "segment_length": "64k", "time_unit": "ns"},
    "tables": {"snapshot": {"every_bytes": "256k", "keep": 1}, "retention": {"bytes": 0}},
}
KINDS = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)
PLACE = kafka.TopicPartition(LOG_TOPIC, 0)
WAIT_S = 60.0
MARKS = count()


class KafkaProcess(GatewayProcess):
    """`ordo kafka`."""

    command = "kafka"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("log") / "cluster"
    with ready_cluster("ordo:Topics", root=root, tables=TABLES, heartbeat=STEADY) as started:
        yield started


@pytest.fixture(scope="module")
def address(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("door")
    token = folder / "auditor.token"
    token.write_text(AUDITOR)
    token.chmod(0o600)
    door = KafkaProcess(cluster, folder / "door.log", "--token-file", str(token))
    yield door.address
    door.stop()


def send(cluster: LocalCluster, *payloads: bytes, token: str = TRADER) -> None:
    with ClusterClient(
        cluster.ingress_endpoints, settings=ClientSettings(credentials=token.encode(), reconnect=True)
    ) as client:
        for one in payloads:
            client.send(one, until="sequenced")


def entries(cluster: LocalCluster) -> list[LogEntry]:
    """What Ordo's own reader has of the log: the messages, up to one that is sent for this."""
    mark = b"mark %d" % next(MARKS)
    send(cluster, mark)
    archives = [archive_endpoint(one) for one in cluster.ingress_endpoints.values()]
    found: list[LogEntry] = []
    with LogReader(archives, credentials=AUDITOR.encode()) as reader:
        for one in reader.entries(timeout_s=patient(WAIT_S)):
            if one.kind in KINDS:
                found.append(one)
            if one.payload == mark:
                break
    return found


def consumer_at(address: str) -> Any:
    return kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none", enable_auto_commit=False)


def demand_refusal(reader: Any, error: type[Exception]) -> None:
    """Poll until the door has refused what is read; what was under way before may be answered first."""

    def is_refused() -> bool:
        try:
            reader.poll(timeout_ms=200)
        except error:
            return True
        return False

    await_that(is_refused, error.__name__)


def headers_of(entry: LogEntry) -> dict[str, str]:
    found = {
        "ordo.kind": entry.kind.value,
        "ordo.session": str(entry.session_id),
        "ordo.position": str(entry.position),
        "ordo.timestamp": str(entry.timestamp),
        "ordo.time_unit": "ms",
    }
    if entry.kind is EntryKind.REQUEST:
        found |= {"ordo.identity": entry.identity.hex(), "ordo.request_number": str(entry.request_number)}
    return found


def test_kafka_python_reads_what_ordo_s_reader_reads_with_the_same_numbers(cluster: LocalCluster, address: str) -> None:
    plain = [b"one", b"", b"\xf0ordo.record\x01looks like a record with a key", bytes(range(256)) * 100]
    send(cluster, *plain)
    reader = consumer_at(address)
    end = reader.end_offsets([PLACE])[PLACE]
    wanted = [one for one in entries(cluster) if one.sequence < end]
    assert [one.sequence for one in wanted] == list(range(1, end)), "its end is that of the log, with all that was sent"
    assert set(plain) <= {one.payload for one in wanted}
    reader.assign([PLACE])
    reader.seek(PLACE, 1)
    found = [next(reader) for _ in wanted]
    assert [one.offset for one in found] == [one.sequence for one in wanted]
    assert [one.value for one in found] == [one.payload for one in wanted]
    assert [one.timestamp for one in found] == [one.timestamp for one in wanted]
    principals = set()
    for one, entry in zip(found, wanted, strict=True):
        headers = {name: content.decode() for name, content in one.headers}
        principals.add(headers.pop("ordo.principal"))
        assert headers == headers_of(entry) and one.key is None
    assert principals == {"auditor", "trader"}, "the door's own orders, and what was sent"
    send(cluster, b"later")
    assert any(one.value == b"later" for one in reader), "what comes is waited for"
    reader.close(autocommit=False)


def test_the_ends_and_times_of_the_log(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"first", b"second")
    reader = consumer_at(address)
    assert reader.beginning_offsets([PLACE]) == {PLACE: 1}
    wanted = entries(cluster)
    assert reader.end_offsets([PLACE])[PLACE] > wanted[-1].sequence
    middle = wanted[len(wanted) // 2]
    first = next(one for one in wanted if one.timestamp >= middle.timestamp)
    found = reader.offsets_for_times({PLACE: middle.timestamp})[PLACE]
    assert (found.offset, found.timestamp) == (first.sequence, first.timestamp)
    assert reader.offsets_for_times({PLACE: 0})[PLACE].offset == 1
    assert reader.offsets_for_times({PLACE: wanted[-1].timestamp + 1_000_000})[PLACE] is None
    reader.close(autocommit=False)


def test_a_number_that_never_was_is_out_of_range(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"there")
    for number in (0, entries(cluster)[-1].sequence + 1_000):
        reader = confluent_kafka.Consumer(
            {"bootstrap.servers": address, "group.id": "beyond", "auto.offset.reset": "error", "log_level": 0}
        )
        reader.assign([confluent_kafka.TopicPartition(LOG_TOPIC, 0, number)])
        refused = reader.poll(patient(WAIT_S))
        assert refused.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET, number
        reader.close()


def test_it_is_read_only_and_known_to_those_who_name_it(cluster: LocalCluster, address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    told: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce(LOG_TOPIC, b"forged", on_delivery=lambda error, _: told.append(error.code()))
    assert producer.flush(patient(WAIT_S)) == 0
    assert told == [confluent_kafka.KafkaError.TOPIC_EXCEPTION]
    assert not any(b"forged" in one.payload for one in entries(cluster))
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    assert LOG_TOPIC not in admin.list_topics(timeout=patient(WAIT_S)).topics
    assert list(admin.list_topics(LOG_TOPIC, timeout=patient(WAIT_S)).topics[LOG_TOPIC].partitions) == [0]
    (created,) = admin.create_topics([NewTopic(LOG_TOPIC, 1, 1)]).values()
    assert created.exception(patient(WAIT_S)).args[0].name() == "TOPIC_ALREADY_EXISTS"


def test_who_lacks_the_role_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    send(cluster, b"secret")
    token = tmp_path / "trader.token"
    token.write_text(TRADER)
    token.chmod(0o600)
    door = KafkaProcess(cluster, tmp_path / "door.log", "--token-file", str(token), "--network", "of-traders")
    try:
        reader = consumer_at(door.address)
        reader.assign([PLACE])
        reader.seek(PLACE, 1)
        demand_refusal(reader, kafka.errors.TopicAuthorizationFailedError)
        reader.close(autocommit=False)
    finally:
        door.stop()


def read_group(address: str, wanted: bytes) -> list[tuple[int, bytes]]:
    """Be the member of a group until a value has come; commit, and return numbers and values."""
    own = {"bootstrap.servers": address, "group.id": "failover", "auto.offset.reset": "earliest", "log_level": 0}
    member = confluent_kafka.Consumer(own | {"enable.auto.commit": False})
    member.subscribe([LOG_TOPIC])
    found: list[tuple[int, bytes]] = []

    def has_come() -> bool:
        found.extend((one.offset(), one.value()) for one in member.consume(1_000, 0.1) if one.error() is None)
        return any(value == wanted for _, value in found)

    try:
        await_that(has_come, repr(wanted), timeout_s=patient(WAIT_S))
        member.commit(asynchronous=False)
    finally:
        member.close()
    return found


def test_a_group_goes_on_from_what_it_committed_after_a_failover(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"before the failover")
    first = read_group(address, b"before the failover")
    leader = cluster.await_leader(patient(WAIT_S))
    cluster.kill(leader)
    send(cluster, b"after the failover")
    second = read_group(address, b"after the failover")
    cluster.restart(leader)
    numbers = [number for number, _ in [*first, *second]]
    assert numbers == list(range(1, len(numbers) + 1)), "nothing is lost, nothing comes twice"
    wanted = {one.sequence: one.payload for one in entries(cluster)}
    assert dict([*first, *second]) == {number: wanted[number] for number in numbers}


def test_aiokafka_reads_it_in_a_group(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"for asyncio")
    wanted = [(one.sequence, one.payload) for one in entries(cluster)]

    async def read() -> list[tuple[int, bytes]]:
        reader = aiokafka.AIOKafkaConsumer(
            LOG_TOPIC, bootstrap_servers=address, group_id="asyncio", auto_offset_reset="earliest"
        )
        async with reader:
            found = [await asyncio.wait_for(reader.getone(), patient(WAIT_S)) for _ in wanted]
            await reader.commit()
            assert await reader.committed(aiokafka.TopicPartition(LOG_TOPIC, 0)) == len(wanted) + 1
        return [(one.offset, one.value) for one in found]

    assert asyncio.run(read()) == wanted


@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")
def test_kcat_reads_it_to_its_end(cluster: LocalCluster, address: str) -> None:
    send(cluster, b"for kcat")
    wanted = [(one.sequence, one.timestamp) for one in entries(cluster)]
    words = ["kcat", "-b", address, "-C", "-t", LOG_TOPIC, "-o", "beginning", "-e", "-q", "-J"]
    done = subprocess.run(words, capture_output=True, timeout=patient(WAIT_S), check=True)
    found = [json.loads(re.sub(rb'"payload":.*$', b'"payload":""}', line)) for line in done.stdout.splitlines()]
    assert [(one["offset"], one["ts"]) for one in found][: len(wanted)] == wanted
    assert all("ordo.kind" in one["headers"] for one in found)


def test_it_begins_where_the_log_begins_after_a_purge(tmp_path: Path) -> None:
    """The cluster's time is in ns, that of records in ms."""
    with ready_cluster("ordo:Topics", root=tmp_path / "cluster", member_count=1, sync="none", **FORGETFUL) as cluster:
        door = KafkaProcess(cluster, tmp_path / "door.log")
        reader = consumer_at(door.address)
        try:
            payload = bytes(1_000)

            def has_forgotten() -> bool:
                send(cluster, *[payload] * 200, token="")
                return bool(reader.beginning_offsets([PLACE])[PLACE] > 1)

            await_that(has_forgotten, "the log to forget its beginning", timeout_s=patient(WAIT_S))
            send(cluster, b"last", token="")
            oldest = reader.beginning_offsets([PLACE])[PLACE]
            reader.assign([PLACE])
            reader.seek(PLACE, oldest)
            found = [next(reader)]
            while found[-1].value != b"last":
                found.append(next(reader))
            assert [one.offset for one in found] == list(range(oldest, found[-1].offset + 1))
            headers = {name: content.decode() for name, content in found[-1].headers}
            assert headers["ordo.time_unit"] == "ns"
            assert found[-1].timestamp == int(headers["ordo.timestamp"]) // 1_000_000
            at = reader.offsets_for_times({PLACE: found[-1].timestamp})[PLACE]
            first = next(one for one in found if one.timestamp >= found[-1].timestamp)
            assert (at.offset, at.timestamp) == (first.offset, first.timestamp)
        finally:
            reader.close(autocommit=False)
            door.stop()
        door = KafkaProcess(cluster, tmp_path / "again.log")  # the first one may have in memory what is deleted
        reader = consumer_at(door.address)
        try:
            reader.assign([PLACE])
            reader.seek(PLACE, 1)
            demand_refusal(reader, kafka.errors.OffsetOutOfRangeError)
        finally:
            reader.close(autocommit=False)
            door.stop()


def test_the_page_s_consumer(cluster: LocalCluster, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    send(cluster, b"there")
    exec(Page("KAFKA.md").take("python", "ordo.log").replace("10.0.0.9:9092", address), {})
    assert re.search(r"^1 b'\w+'$", capsys.readouterr().out, re.MULTILINE)

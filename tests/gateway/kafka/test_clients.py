"""Kafka's clients as they are, in front of one cluster that all these tests share; doors and a leader are killed."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo import ClientSettings, ClusterClient, Topics
from ordo.cli import run
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.command import demand_one_line, ordo
from tests.gateway.kafka.conftest import NUMBERS, TOKEN, KafkaProcess, StartDoor
from tests.gateway.test_life import make_certificates
from tests.patience import patient
from tests.snippets import open_page

confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
kafka = pytest.importorskip("kafka", reason="needs kafka-python")
aiokafka = pytest.importorskip("aiokafka", reason="needs aiokafka")
pytest.importorskip("kio", reason="needs the extra kafka")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WAIT_S = 60.0
DOOR = "10.0.0.9:9092"
MEMBERS = "10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000"


class Sent:
    """What a producer of librdkafka was told of each record."""

    def __init__(self, address: str, **settings: object) -> None:
        self.offsets: list[int] = []
        self.errors: list[str] = []
        own = {"bootstrap.servers": address, "enable.idempotence": True, "message.timeout.ms": 120_000, "log_level": 0}
        self._producer = confluent_kafka.Producer(own | settings)

    def send(self, topic: str, payloads: list[bytes]) -> None:
        for one in payloads:
            self._producer.produce(topic, one, on_delivery=self._note)
            self._producer.poll(0)

    def _note(self, error: Any, message: Any) -> None:
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.errors.append(str(error))

    def await_all(self) -> None:
        assert self._producer.flush(patient(WAIT_S)) == 0
        assert not self.errors

    def await_some(self, wanted: int) -> None:
        await_that(lambda: self._producer.poll(0.05) >= 0 and len(self.offsets) >= wanted, f"{wanted} deliveries")


def read_all(address: str, topic: str, wanted: int, **settings: object) -> list[tuple[int, bytes]]:
    """Read a topic from its beginning with librdkafka."""
    own = {"bootstrap.servers": address, "group.id": f"reader-{next(NUMBERS)}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(own | {"log_level": 0} | settings)
    consumer.subscribe([topic])
    found: list[tuple[int, bytes]] = []

    def has_all() -> bool:
        messages = consumer.consume(1_000, 0.1)
        found.extend((one.offset(), one.value()) for one in messages if one.error() is None)
        return len(found) >= wanted

    try:
        await_that(has_all, f"{wanted} records of {topic}")
    finally:
        consumer.close()
    return found


def test_what_librdkafka_compresses_is_read(start_door: StartDoor, topic: str) -> None:
    pytest.importorskip("cramjam", reason="needs the extra kafka")
    address, wanted = start_door().address, []
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        payloads = [f"{codec} {index} ".encode() * 50 for index in range(20)]
        sent = Sent(address, **{"compression.type": codec, "linger.ms": 50})
        sent.send(topic, payloads)
        sent.await_all()
        wanted += payloads
    assert read_all(address, topic, len(wanted)) == list(enumerate(wanted, 1))


@pytest.mark.usefixtures("executed_nodes")
def test_a_door_that_is_executed_as_users_do_serves_and_ends(start_door: StartDoor, topic: str) -> None:
    door = start_door()
    assert isinstance(door.process, subprocess.Popen), "it is not forked"
    sent = Sent(door.address)
    sent.send(topic, [b"one"])
    sent.await_all()
    assert read_all(door.address, topic, 1) == [(1, b"one")]
    assert door.stop() == 0


def test_kafka_python_and_aiokafka_read_what_each_other_sends(start_door: StartDoor, topic: str) -> None:
    address = start_door().address
    producer = kafka.KafkaProducer(bootstrap_servers=address, compression_type="gzip")
    told = [producer.send(topic, b"%d" % index, key=b"key", headers=[("name", b"content")]) for index in range(20)]
    assert [one.get(patient(WAIT_S)).offset for one in told] == list(range(1, 21))
    producer.close()

    async def talk() -> list[tuple[int, bytes, bytes]]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as sender:
            assert (await sender.send_and_wait(topic, b"20", key=b"key")).offset == 21
        reader = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=address, group_id="asyncio", auto_offset_reset="earliest"
        )
        async with reader:
            found = [await asyncio.wait_for(reader.getone(), patient(WAIT_S)) for _ in range(21)]
            await reader.commit()
        return [(one.offset, one.key, one.value) for one in found]

    assert asyncio.run(talk()) == [(1 + index, b"key", b"%d" % index) for index in range(21)]
    reader = kafka.KafkaConsumer(bootstrap_servers=address, group_id="asyncio", auto_offset_reset="earliest")
    place = kafka.TopicPartition(topic, 0)
    assert reader.committed(place) == 22
    assert reader.beginning_offsets([place]) == {place: 1} and reader.end_offsets([place]) == {place: 22}
    reader.assign([place])
    reader.seek(place, 7)
    first = next(reader)
    assert (first.offset, first.headers) == (7, [("name", b"content")])
    found = reader.offsets_for_times({place: first.timestamp})[place]
    assert found.offset <= 7 and found.timestamp == first.timestamp
    reader.close(autocommit=False)


def test_a_group_shares_topics_out_and_goes_on_from_what_it_committed(start_door: StartDoor, topic: str) -> None:
    address = start_door().address
    names = [topic, f"{topic}-b"]
    sent = Sent(address)
    for name in names:
        sent.send(name, [b"%d" % index for index in range(10)])
    sent.await_all()
    own: dict[str, Any] = {"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest"}
    own |= {"log_level": 0}
    own["partition.assignment.strategy"] = "roundrobin"  # others give both topics, of one partition, to one member
    members = [confluent_kafka.Consumer(own) for _ in range(2)]
    found: list[tuple[str, int]] = []

    def poll() -> list[int]:
        for one in members:
            messages = [message for message in one.consume(100, 0.1) if message.error() is None]
            found.extend((message.topic(), message.offset()) for message in messages)
        return [len(one.assignment()) for one in members]

    for one in members:
        one.subscribe(names)
    await_that(lambda: poll() == [1, 1] and len(set(found)) == 20, "each member to have one topic, and to read it")
    for one in members:
        one.commit(asynchronous=False)
    members.pop().close()
    sent.send(topic, [b"more"])
    sent.await_all()
    found.clear()
    await_that(lambda: poll() == [2] and bool(found), "the other member to have both, and to go on")
    assert found == [(topic, 11)]
    members.pop().close()


def test_the_strategy_that_clients_offer_first_gives_all_topics_to_one_member() -> None:
    default = kafka.KafkaConsumer.DEFAULT_CONFIG["partition_assignment_strategy"][0]
    assert default.name == "range"
    topics = [f"topic-{index}" for index in range(6)]
    members = [
        SimpleNamespace(member_id=one, group_instance_id=None, metadata=default.metadata(topics)) for one in "ab"
    ]
    cluster = SimpleNamespace(partitions_for_topic=lambda _: {0}, topics=lambda: set(topics))
    for strategy, shares in (("range", [6, 0]), ("roundrobin", [3, 3])):
        found = {one.name: one for one in kafka.KafkaConsumer.DEFAULT_CONFIG["partition_assignment_strategy"]}[strategy]
        assigned = found.assign(cluster, members)
        counts = [sum(len(places) for _, places in assigned[name].assigned_partitions) for name in "ab"]
        assert counts == shares, strategy


def test_a_door_and_the_leader_are_killed_and_nothing_is_lost_or_doubled(
    cluster: LocalCluster, start_door: StartDoor, topic: str
) -> None:
    doors = [start_door(), start_door()]
    addresses = ",".join(one.address for one in doors)
    payloads = [b"%d" % index for index in range(3_000)]
    sent = Sent(addresses, **{"linger.ms": 1, "batch.num.messages": 50, "reconnect.backoff.max.ms": 500})
    sent.send(topic, payloads[:1_000])
    sent.await_some(100)
    doors[0].kill()
    start_door(listen=doors[0].address)
    sent.send(topic, payloads[1_000:2_000])
    sent.await_some(1_100)
    leader = cluster.await_leader(patient(WAIT_S))
    cluster.kill(leader)
    sent.send(topic, payloads[2_000:])
    sent.await_all()
    cluster.restart(leader)
    assert sent.offsets == list(range(1, 3_001))
    assert read_all(doors[1].address, topic, 3_000) == list(enumerate(payloads, 1))


def test_a_door_that_was_killed_is_not_named_for_the_rest_of_its_lease(start_door: StartDoor) -> None:
    from confluent_kafka.admin import AdminClient

    # A network of their own: a door of the tests behind this one has never reached it, and would name it for a minute.
    stays, goes = (start_door("--lease", "60", "--network", "of-two") for _ in range(2))
    stays.await_event("kafka.door-reached")
    admin = AdminClient({"bootstrap.servers": stays.address, "log_level": 0})

    def ports() -> set[int]:
        return {one.port for one in admin.list_topics(timeout=patient(WAIT_S)).brokers.values()}

    both = {int(one.address.rpartition(":")[2]) for one in (stays, goes)}
    assert both <= ports()
    goes.kill()
    assert stays.await_event("kafka.door-gone")["address"] == goes.address
    assert ports() & both == {int(stays.address.rpartition(":")[2])}


def test_tokens_and_tls(cluster: LocalCluster, start_door: StartDoor, topic: str, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    files = {"--certificate": "server.pem", "--key": "server.key"}
    words = [word for name, file in files.items() for word in (name, str(tmp_path / file))]
    door = KafkaProcess(cluster, tmp_path / "tls.log", *words)
    try:
        tls = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.endpoint.identification.algorithm": "none",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "whoever",
        }
        sent = Sent(door.address, **tls, **{"sasl.password": TOKEN, "linger.ms": 100})
        secrets = [b"secret", *(bytes([number]) * 30_000 for number in range(100))]  # requests of a megabyte
        sent.send(topic, secrets)
        sent.await_all()
        found = read_all(door.address, topic, len(secrets), **tls, **{"sasl.password": TOKEN})
        assert found == list(enumerate(secrets, 1))
        stranger = confluent_kafka.Producer(
            {"bootstrap.servers": door.address, **tls, "sasl.password": "x" * 40, "log_level": 0}
        )
        with pytest.raises(confluent_kafka.KafkaException):
            stranger.list_topics(timeout=2)
        nobody = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
        nobody["ssl.endpoint.identification.algorithm"] = "none"
        own = {"bootstrap.servers": door.address, "group.id": "nobody", "log_level": 0, **nobody}
        reader = confluent_kafka.Consumer(own)
        reader.assign([confluent_kafka.TopicPartition(topic, 0, 1)])
        told: list[object] = []

        def is_refused() -> bool:
            message = reader.poll(0.1)
            if message is not None:
                told.append(message.error() and message.error().name())
            return "TOPIC_AUTHORIZATION_FAILED" in told

        await_that(is_refused, "a client without a token to be refused the topic")
        assert told == ["TOPIC_AUTHORIZATION_FAILED"] * len(told)
        reader.close()
    finally:
        door.kill()


def test_what_tools_ask_is_answered_and_what_is_not_there_is_refused(start_door: StartDoor, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

    address = start_door("--no-create-topics").address
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    assert topic not in admin.list_topics(timeout=patient(WAIT_S)).topics
    wanted = [NewTopic(topic, 1, 1), NewTopic("two", 2, 1), NewTopic("c", 1, 1, config={"cleanup.policy": "compact"})]
    errors = []
    for one in admin.create_topics(wanted).values():
        error = one.exception(patient(WAIT_S))
        errors.append(error and error.args[0].name())
    assert errors == [None, "INVALID_PARTITIONS", "INVALID_CONFIG"]
    assert topic in admin.list_topics(timeout=patient(WAIT_S)).topics
    (configs,) = admin.describe_configs([ConfigResource("topic", topic)]).values()
    assert configs.result(patient(WAIT_S))["cleanup.policy"].value == "delete"
    assert admin.list_consumer_groups().result(patient(WAIT_S)).errors == []
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
    with pytest.raises(confluent_kafka.KafkaException, match="transactions are not supported"):
        producer.init_transactions(patient(WAIT_S))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--listen", "9092"), "--listen 9092"),
        (("--listen", "127.0.0.1:0", "--certificate", "none.pem", "--key", "none.pem"), "none.pem"),
        (("--listen", "192.0.2.1:0"), "--listen 192.0.2.1:0"),
    ],
)
def test_a_mistake_is_told_in_one_line(options: tuple[str, ...], word: str) -> None:
    demand_one_line(ordo("kafka", "--endpoints", "127.0.0.1:20000", *options, timeout_s=60), 2, word)


def test_the_page(
    cluster: LocalCluster, start_door: StartDoor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_page("KAFKA.md") as page:
        assert "--service ordo:Topics" in page.take("sh", "ordo node"), "the cluster of these tests is started so"
        *_, command = page.take("sh", "pip install").strip().splitlines()
        words = shlex.split(command)
        assert words[:2] == ["ordo", "kafka"] and MEMBERS in words
        options = [word for word in words if word.startswith("--")]
        door = start_door(words[words.index("--egress")], "127.0.0.1:0")
        assert run(["kafka", "--help"]) == 0
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert all(option in shown for option in [*options, "--advertise", "--no-create-topics"])
        exec(page.take("python", "consumer.poll").replace(DOOR, door.address), {})
        assert re.search(r"1 b'4711' b'buy 40'", capsys.readouterr().out)
        client = ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(credentials=TOKEN.encode()))
        with client, client.subscribe("orders", from_sequence=1) as feed:
            message = next(iter(feed))
            assert message.payload.startswith(b"\xf0ordo.record\x01") and b"buy 40" in message.payload
        page.run_by("tests/gateway/kafka/test_clients.py::test_tokens_and_tls", "SASL_SSL")
        page.run_by("tests/gateway/kafka/test_log_topic.py::test_the_page_s_consumer", '"ordo.log"')
        names: dict[str, Any] = {"__name__": "engine"}
        exec(page.take("python", "take_record"), names)
        assert issubclass(names["Engine"], Topics)

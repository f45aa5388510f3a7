"""Clients as they are, in one group over two doors: one door is killed, one stands still for longer than its lease."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any, Protocol

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("kafka", reason="needs kafka-python")
pytest.importorskip("aiokafka", reason="needs aiokafka")
pytest.importorskip("kio", reason="needs the extra kafka")

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaPythonRoundRobin

from ordo.gateway.kafka.wire.messages import Api
from tests.cluster.integration.agreement import await_that
from tests.gateway.kafka.batches import request_of, response_of
from tests.gateway.kafka.conftest import NUMBERS, KafkaProcess, StartDoor
from tests.gateway.kafka.memory import framed
from tests.gateway.kafka.test_clients import WAIT_S, Sent, read_all
from tests.gateway.kafka.test_doors import commit, find
from tests.patience import patient

REFUSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""kafka-python leaves the socket of a connection that was refused to the collector (`connect` in kafka/net/inet.py)."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    REFUSED,
]
LEASE_S = 3
COMMIT_S = 2.0
ASK_S = 5.0
REFUSALS = (confluent_kafka.KafkaException, kafka.errors.KafkaError, aiokafka.errors.KafkaError, TimeoutError)
Place = tuple[str, int]


class Member(Protocol):
    """A consumer of a group."""

    def poll(self) -> Sequence[Place]:
        """Topics and offsets of what came."""
        ...

    def assigned(self) -> int: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    """librdkafka."""

    def __init__(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0,
                "enable.auto.commit": False, "partition.assignment.strategy": "roundrobin",
                "session.timeout.ms": 6_000, "heartbeat.interval.ms": 500, "reconnect.backoff.max.ms": 500,
            }
        )  # fmt: skip
        self._consumer.subscribe(list(topics))

    def poll(self) -> Sequence[Place]:
        found = [one for one in self._consumer.consume(100, 0.05) if one.error() is None]
        return [(one.topic(), one.offset()) for one in found]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._consumer = kafka.KafkaConsumer(
            *topics, bootstrap_servers=address.split(","), group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, partition_assignment_strategy=[KafkaPythonRoundRobin],
            session_timeout_ms=6_000, heartbeat_interval_ms=500, reconnect_backoff_max_ms=500,
        )  # fmt: skip

    def poll(self) -> Sequence[Place]:
        found = self._consumer.poll(timeout_ms=50).values()
        return [(one.topic, one.offset) for batch in found for one in batch]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Aiokafka:
    """aiokafka, whose loop runs while it is polled.

    In a rebalance its start, reads and commits wait for an assignment whatever their timeout: start and reads go on in
    the next poll, a commit is given up.
    """

    def __init__(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._open(address, group, topics))

    async def _open(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            *topics, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, partition_assignment_strategy=[AiokafkaRoundRobin],
            session_timeout_ms=6_000, heartbeat_interval_ms=500,
        )  # fmt: skip
        self._under_way: asyncio.Task[Any] = asyncio.create_task(self._consumer.start())

    def poll(self) -> Sequence[Place]:
        return self._runner.run(self._poll())

    async def _poll(self) -> Sequence[Place]:
        await asyncio.wait([self._under_way], timeout=0.05)
        if not self._under_way.done():
            return []
        found = self._under_way.result() or {}
        self._under_way = asyncio.create_task(self._consumer.getmany(timeout_ms=50))
        return [(one.topic, one.offset) for batch in found.values() for one in batch]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._runner.run(asyncio.wait_for(self._consumer.commit(), patient(COMMIT_S)))

    def close(self) -> None:
        self._under_way.cancel()
        with suppress(asyncio.CancelledError):  # it ends its own fetches so, and lets that out
            self._runner.run(self._consumer.stop())
        self._runner.close()


@pytest.fixture
def doors(start_door: StartDoor) -> Sequence[KafkaProcess]:
    """Two doors that know each other: what a client is told first, it believes for minutes, and asks no other door."""
    found = [start_door("--lease", str(LEASE_S)) for _ in range(2)]
    ports = {int(one.address.rpartition(":")[2]) for one in found}
    await_that(lambda: all(ports <= brokers_of(one) for one in found), "the doors to name each other")
    return found


def brokers_of(door: KafkaProcess) -> set[int]:
    """The ports of the doors that one door names."""
    admin = AdminClient({"bootstrap.servers": door.address, "log_level": 0})
    return {one.port for one in admin.list_topics(timeout=patient(WAIT_S)).brokers.values()}


class Reader(Thread):
    """Reads with a member and commits what it has read, in a thread of its own, as clients are used.

    With one thread for all of them, answers that let a member join would lie unread while it commits with the
    generation before: it is refused, joins anew, and so has all others join again, time after time.
    """

    def __init__(self, opened: Callable[[], Member]) -> None:
        super().__init__()
        self._opened = opened
        self._ended = Event()
        self.found: list[Place] = []
        self.assigned = 0
        """How many topics it believes to have."""
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(self._opened()) as member:
                self._read(member)
        except BaseException as error:
            self.trouble = error

    def _read(self, member: Member) -> None:
        is_committed = True
        while not self._ended.is_set():
            found = member.poll()
            self.found.extend(found)
            self.assigned = member.assigned()
            if found or not is_committed:
                is_committed = False
                with suppress(*REFUSALS):  # of a member that has not heard yet that the group has changed
                    member.commit()
                    is_committed = True

    def end(self) -> None:
        self._ended.set()
        self.join(patient(WAIT_S))
        assert not self.is_alive(), "it ends"
        if self.trouble is not None:
            raise self.trouble


@pytest.fixture
def readers(caplog: pytest.LogCaptureFixture) -> Iterator[list[Reader]]:
    """Readers that are ended after the test. What kafka-python logs would keep its sockets beyond it."""
    caplog.set_level(logging.CRITICAL + 1, "kafka")
    found: list[Reader] = []
    yield found
    while found:
        found.pop().end()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # see REFUSED


def coordinator_of(group: str, doors: Sequence[KafkaProcess]) -> KafkaProcess:
    admin = AdminClient({"bootstrap.servers": ",".join(one.address for one in doors), "log_level": 0})
    (found,) = admin.describe_consumer_groups([group]).values()
    port = found.result(patient(WAIT_S)).coordinator.port
    return next(one for one in doors if one.address.endswith(f":{port}"))


class GroupOfThree:
    """A client of each kind in one group, for three topics."""

    def __init__(self, doors: Sequence[KafkaProcess], readers: list[Reader], group: str) -> None:
        self.group = group
        self.topics = [f"{group}-{index}" for index in range(3)]
        self.sent = Sent(",".join(one.address for one in doors), **{"reconnect.backoff.max.ms": 500})
        self.send(1)
        self.sent.await_all()
        first, second = (one.address for one in doors)
        readers.append(Reader(lambda: Confluent(first, group, self.topics)))
        readers.append(Reader(lambda: KafkaPython(second, group, self.topics)))
        readers.append(Reader(lambda: Aiokafka(second, group, self.topics)))
        self.readers = readers
        for one in readers:
            one.start()

    def send(self, count: int) -> None:
        for name in self.topics:
            self.sent.send(name, [b"%d" % index for index in range(count)])

    def places(self, begin: int, end: int) -> list[Place]:
        return [(name, offset) for name in self.topics for offset in range(begin, end)]

    def read(self, begin: int, end: int) -> list[Place]:
        """What was read of these offsets, as often as it was read."""
        return sorted(place for one in self.readers for place in list(one.found) if begin <= place[1] < end)

    def await_shared(self) -> None:
        await_that(lambda: [one.assigned for one in self.readers] == [1, 1, 1], "each member to have a topic")

    def await_committed(self, end: int, doors: Sequence[KafkaProcess]) -> None:
        """Wait until all up to an offset has been read and committed, as one of these doors says."""
        wanted = [ConsumerGroupTopicPartitions(self.group, [TopicPartition(one, 0) for one in self.topics])]
        admin = AdminClient({"bootstrap.servers": ",".join(one.address for one in doors), "log_level": 0})

        def offsets() -> list[int]:
            (asked,) = admin.list_consumer_group_offsets(wanted, request_timeout=ASK_S).values()
            with suppress(*REFUSALS):  # of a door that is gone, until the group has another one
                return [one.offset for one in asked.result(patient(WAIT_S)).topic_partitions]
            return []

        await_that(lambda: offsets() == [end] * 3, f"all up to {end} to be committed")


def test_one_group_over_two_doors_of_which_the_coordinator_is_killed(
    doors: Sequence[KafkaProcess], readers: list[Reader], topic: str
) -> None:
    group = GroupOfThree(doors, readers, topic)
    group.await_shared()
    group.await_committed(2, doors)
    group.send(50)
    group.await_committed(52, doors)
    assert group.read(2, 52) == group.places(2, 52), "each goes to one member"
    group.send(20)
    coordinator = coordinator_of(topic, doors)
    coordinator.kill()
    group.send(20)
    group.sent.await_all()
    left = [one for one in doors if one is not coordinator]
    group.await_committed(92, left)
    assert set(group.read(52, 92)) == set(group.places(52, 92))
    assert group.read(2, 52) == group.places(2, 52), "what was committed does not come again"
    assert coordinator_of(topic, left) is left[0]
    group.await_shared()


def leader_of(topic: str, asked: KafkaProcess, doors: Sequence[KafkaProcess]) -> KafkaProcess | None:
    """The one of the doors that leads a topic, as one that is asked says."""
    found = AdminClient({"bootstrap.servers": asked.address, "log_level": 0}).list_topics(topic, patient(WAIT_S))
    broker = found.brokers.get(found.topics[topic].partitions[0].leader)
    return next((one for one in doors if broker and one.address.endswith(f":{broker.port}")), None)


def test_the_leader_of_a_topic_is_killed_under_a_producer_and_a_group(
    doors: Sequence[KafkaProcess], topic: str
) -> None:
    address = ",".join(one.address for one in doors)
    sent = Sent(address, **{"reconnect.backoff.max.ms": 500})
    sent.send(topic, [b"%d" % index for index in range(200)])
    sent.await_all()
    await_that(lambda: len({leader_of(topic, one, doors) for one in doors}) == 1, "the doors to name one leader")
    leader = leader_of(topic, doors[0], doors)
    assert leader is not None
    reader = Confluent(address, topic, [topic])
    found: list[Place] = []

    def has_read(end: int) -> bool:
        found.extend(reader.poll())
        return {offset for _, offset in found} >= set(range(1, end))

    await_that(lambda: has_read(201), "what was sent first")
    reader.commit()
    found.clear()
    sent.send(topic, [b"%d" % index for index in range(200, 300)])
    leader.kill()
    sent.send(topic, [b"%d" % index for index in range(300, 400)])
    sent.await_all()
    found += [(topic, offset) for offset in range(1, 201)]
    await_that(lambda: has_read(401), "what was sent while the leader was killed")
    (left,) = (one for one in doors if one is not leader)
    assert read_all(left.address, topic, 400) == [(index + 1, b"%d" % index) for index in range(400)]
    assert sorted(found)[:201] == [(topic, offset) for offset in range(1, 202)], "what was committed comes once"
    assert leader_of(topic, left, doors) is left
    reader.close()


class Plain:
    """A client of one door, which sends one request after the other, also to a door that stands still."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=patient(WAIT_S))

    def send(self, request: bytes) -> None:
        self._socket.sendall(framed(request))

    def receive(self, request: bytes) -> Any:
        head = self._socket.recv(4, socket.MSG_WAITALL)
        frame = head + self._socket.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        return response_of(request[1], request[3], frame)[1]

    def ask(self, request: bytes) -> Any:
        self.send(request)
        return self.receive(request)

    def close(self) -> None:
        self._socket.close()


def test_a_door_that_stands_still_for_longer_than_its_lease_commits_nothing_any_more(
    doors: Sequence[KafkaProcess],
) -> None:
    group = f"still-{next(NUMBERS)}"
    sent = Sent(doors[0].address)
    sent.send("orders", [b"x"] * 20)
    sent.await_all()
    clients = [Plain(one.address) for one in doors]

    def codes(found: Any) -> int:
        return int(found.topics[0].partitions[0].error_code)

    try:
        assert clients[0].ask(find(2, group)).error_code == 0
        assert codes(clients[0].ask(commit(5, group))) == 0
        doors[0].process.send_signal(signal.SIGSTOP)
        clients[0].send(commit(3, group))  # it comes while the door stands still
        await_that(lambda: codes(clients[1].ask(commit(9, group))) == 0, "the other door to take the group")
        doors[0].process.send_signal(signal.SIGCONT)
        assert codes(clients[0].receive(commit(3, group))) == 16
        assert codes(clients[0].ask(commit(3, group))) == 16
        first = doors[0].address.rpartition(":")[2]

        def is_told() -> bool:
            found = clients[0].ask(find(2, group))
            return found.error_code == 0 and str(found.port) != first

        await_that(is_told, "the door to know who has the group")
        offsets = request_of(Api.OFFSET_FETCH, 5, 1, group_id=group, topics=None)
        assert clients[1].ask(offsets).topics[0].partitions[0].committed_offset == 9
    finally:
        doors[0].process.send_signal(signal.SIGCONT)
        for one in clients:
            one.close()

"""Records at a constant rate through one door, with a group that has members come and go: its memory stays what it is.

`make test SUITE=soak` has five minutes of it each night; `make soak MINUTES=60` is the long form, and prints what it
saw.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.gateway.kafka.conftest import KafkaProcess
from tests.patience import patient
from tests.transport.test_soak import memory_bytes

confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("kio", reason="needs the extra kafka")

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.2"))
pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 300)]

RATE = int(os.environ.get("SOAK_RATE", "1000"))
TURN_S = 0.05
SAMPLES_MIN = 12
GUEST_TURNS = 400
"""A second member comes to the group, stays for as many turns, and goes."""
TOPICS = ("orders", "trades")
PAYLOAD = bytes(288)
WARM_UP_SHARE = 1 / 3
GROWTH_MAX = 1.1
SLACK_BYTES = 4 << 20


class Readers:
    """A group that reads all topics: one member that stays, and a guest that comes and goes."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._members = [self._join()]
        self.read: Counter[str] = Counter()
        """Records of each topic, each counted once: no offset may be left out."""
        self.rounds = 0

    def _join(self) -> Any:
        settings = {"bootstrap.servers": self._address, "group.id": "soak", "auto.offset.reset": "earliest"}
        more = {"partition.assignment.strategy": "roundrobin", "enable.auto.commit": False, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings | more)
        consumer.subscribe(list(TOPICS))
        return consumer

    def change(self) -> None:
        """Have the guest come, or go."""
        self.rounds += 1
        if len(self._members) == 1:
            self._members.append(self._join())
        else:
            self._members.pop().close()

    def read_some(self, seconds: float) -> None:
        """Read what there is, and commit it."""
        for one in self._members:
            messages = one.consume(4 * RATE, seconds / len(self._members))
            found = [message for message in messages if message.error() is None]
            for message in found:
                self._note(message.topic(), message.offset())
            if found:
                one.commit(asynchronous=True)

    def _note(self, topic: str, offset: int) -> None:
        read = self.read[topic]
        assert offset <= read + 1, f"{topic}: {offset} comes after {read}"
        self.read[topic] = max(read, offset)

    def close(self) -> None:
        for one in self._members:
            one.close()


def send_at_rate(door: KafkaProcess, readers: Readers) -> tuple[int, list[int]]:
    """Return how many records were sent to each topic, and what the door's memory was, at even distances of time."""
    errors: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": door.address, "enable.idempotence": True, "log_level": 0})
    seconds, begun_s = max(MINUTES * 60, SAMPLES_MIN), time.monotonic()
    every_s = min(60.0, seconds / SAMPLES_MIN)
    sent = turns = 0
    seen: list[int] = []
    while (now_s := time.monotonic() - begun_s) < seconds:
        while sent < now_s * RATE / len(TOPICS):
            for topic in TOPICS:
                producer.produce(topic, PAYLOAD, on_delivery=lambda error, _: error and errors.append(error))
            sent += 1
        producer.poll(0)
        readers.read_some(TURN_S)
        turns += 1
        if turns % GUEST_TURNS == 0:
            readers.change()
        if now_s >= len(seen) * every_s:
            seen.append(memory_bytes(door.process.pid))
    assert producer.flush(patient(60)) == 0 and not errors
    return sent, seen


def test_the_memory_of_a_door_stays_what_it_is(tmp_path: Path) -> None:
    with LocalCluster("ordo:Topics", root=tmp_path / "cluster", member_count=1) as cluster:
        cluster.await_leader(patient(60))
        door = KafkaProcess(cluster, tmp_path / "door.log")
        readers = Readers(door.address)
        try:
            sent, seen = send_at_rate(door, readers)

            def has_all() -> bool:
                readers.read_some(TURN_S)
                return all(readers.read[topic] == sent for topic in TOPICS)

            await_that(has_all, f"{sent} records of each topic")
        finally:
            readers.close()
            door.stop()
    steady = seen[int(len(seen) * WARM_UP_SHARE) :]
    middle = len(steady) // 2
    before, after = max(steady[:middle]), max(steady[middle:])
    print(f"{2 * sent} records, {readers.rounds} times a member came or went; MiB: {[one >> 20 for one in seen]}")
    print(f"the door's memory: at most {before}, then {after}")
    assert after <= before * GROWTH_MAX + SLACK_BYTES, seen

"""`ordo kafka` beside one real Kafka broker, with the same client, in turns: `python -m benchmarks.kafka`.

The client is librdkafka in a process of its own, idempotent, with acks=all and one partition. It sends as fast as it
can, then at a rate, when the same process reads along and tells how long each record took from the call that sends it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.kafka_broker import VERSION, KafkaBroker
from ordo.deploy.launcher import ROOT, LocalCluster

PAYLOAD_BYTES = 288
MESSAGES = 100_000
RATE = 500
SECONDS = 6.0
ROUNDS = 3
TIMEOUT_S = 120.0
ORDO, KAFKA = "ordo", "kafka"
_SENT = struct.Struct("<q")


class Figures(NamedTuple):
    """What one run of the client found."""

    messages_per_second: float
    p50_ms: float
    p99_ms: float


def send_all(address: str, topic: str, count: int) -> float:
    """Return how many records a second are acknowledged, sent as fast as the client can."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all"})
    payload = bytes(PAYLOAD_BYTES)
    errors: list[Any] = []

    def note(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    producer.list_topics(topic, timeout=TIMEOUT_S)
    begin_s = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, payload, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0 and not errors, errors[:1]
    return count / (time.perf_counter() - begin_s)


def time_records(address: str, topic: str, rate: int, seconds: float) -> list[float]:
    """Return the ms that records took from the call that sends each to the poll that has it, at a rate."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all", "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "fetch.wait.max.ms": 500})
    producer.produce(topic, b"first")
    assert producer.flush(TIMEOUT_S) == 0
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, end - 1)])
    assert consumer.poll(TIMEOUT_S) is not None
    count, sent, found = round(rate * seconds), 0, list[float]()
    begin_ns, padding = time.perf_counter_ns(), bytes(PAYLOAD_BYTES - _SENT.size)
    while len(found) < count:
        due = min(count, (time.perf_counter_ns() - begin_ns) * rate // 1_000_000_000 + 1)
        while sent < due:
            producer.produce(topic, _SENT.pack(time.perf_counter_ns()) + padding)
            sent += 1
        producer.poll(0)
        message = consumer.poll(0.0005)
        if message is not None and message.error() is None:
            found.append((time.perf_counter_ns() - _SENT.unpack_from(message.value())[0]) / 1e6)
        assert time.perf_counter_ns() - begin_ns < TIMEOUT_S * 1e9, f"{len(found)} of {count} came"
    consumer.close()
    return found


def run_client(address: str, topic: str, count: int, seconds: float) -> Figures:
    """Run the client against one address."""
    rate = send_all(address, f"{topic}-fast", count)
    times = sorted(time_records(address, f"{topic}-timed", RATE, seconds))
    return Figures(rate, times[len(times) // 2], times[len(times) * 99 // 100])


@contextmanager
def ordo_door(folder: Path, member_count: int, sync: Literal["commit", "none"]) -> Iterator[str]:
    """Run a cluster with a door, and give the door's address."""
    with LocalCluster("ordo:Topics", root=folder / "cluster", member_count=member_count, sync=sync) as cluster:
        cluster.await_leader(60)
        words = ["kafka", "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--listen", "127.0.0.1:0"]
        log_path = folder / "door.log"
        with log_path.open("wb") as log:
            door = subprocess.Popen([sys.executable, "-m", "ordo.cli", *words], cwd=ROOT, stdout=log, stderr=log)
        try:
            yield cluster.await_value(lambda: _address_in(log_path), "the door's address")
        finally:
            door.kill()
            door.wait()


def _address_in(log_path: Path) -> str | None:
    lines = [line for line in log_path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    found = (one for one in map(json.loads, lines) if one["event"] == "kafka.started")
    return next((str(one["address"]) for one in found), None)


def measure(addresses: dict[str, str], rounds: int, count: int, seconds: float) -> dict[str, list[Figures]]:
    """Run the client against each in turn, so that what else the machine does falls on all alike."""
    found: dict[str, list[Figures]] = {name: [] for name in addresses}
    for number in range(rounds):
        for name, address in addresses.items():
            words = ["--client", address, "--topic", f"bench-{number}"]
            words += ["--messages", str(count), "--seconds", str(seconds)]
            command = [sys.executable, "-m", "benchmarks.kafka", *words]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=4 * TIMEOUT_S)
            found[name].append(Figures(*json.loads(done.stdout)))
    return found


def show(found: dict[str, list[Figures]]) -> str:
    """Return the medians as a table, and what they are of Kafka's."""
    names = {ORDO: "ordo kafka", KAFKA: f"Kafka {VERSION}"}
    lines = ["| | messages a second | p50 | p99 |", "|---|---|---|---|"]
    medians = {name: Figures(*map(statistics.median, zip(*runs, strict=True))) for name, runs in found.items()}
    for name, one in medians.items():
        lines.append(f"| {names[name]} | {one.messages_per_second:,.0f} | {one.p50_ms:.2f} ms | {one.p99_ms:.2f} ms |")
    own, other = medians[ORDO], medians[KAFKA]
    times = own.messages_per_second / other.messages_per_second, own.p50_ms / other.p50_ms, own.p99_ms / other.p99_ms
    lines.append(f"| the first by the second | {times[0]:.2f} | {times[1]:.2f} | {times[2]:.2f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, or be the client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument(
        "--sync", choices=("commit", "none"), default="none", help="none: left to the kernel, as Kafka does"
    )
    parser.add_argument("--json", help="file for all figures")
    chosen = parser.parse_args(arguments)
    if chosen.client:
        print(json.dumps(run_client(chosen.client, chosen.topic, chosen.messages, chosen.seconds)))
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaBroker(Path(folder) / "kafka") as broker,
        ordo_door(Path(folder), chosen.members, chosen.sync) as address,
    ):
        addresses = {ORDO: address, KAFKA: broker.address}
        found = measure(addresses, chosen.rounds, chosen.messages, chosen.seconds)
    print(
        f"{PAYLOAD_BYTES} bytes, acks=all, one partition, {chosen.members} members, sync={chosen.sync}; "
        f"times at {RATE} a second"
    )
    print(show(found))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found))


if __name__ == "__main__":
    main()

"""The client of `benchmarks.kafka`: librdkafka in a process of its own, idempotent, with acks=all and one partition.

It sends as fast as it can, then at a rate, when it reads along and tells how long each record took from the call that
sends it to the poll that has it. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import time
from typing import Any, NamedTuple

from benchmarks.processor import Groups, microseconds_each, seconds_of

PAYLOAD_BYTES = 288
TIMEOUT_S = 120.0
CLIENT = "client"
_SENT = struct.Struct("<q")


class Load(NamedTuple):
    """What one run of the client sends."""

    messages: int
    """As fast as it can."""
    rate: int
    """Records a second of which each is timed."""
    seconds: float
    """For how long; 0: none is timed."""


class Figures(NamedTuple):
    """What one run of the client found."""

    messages_per_second: float
    p50_ms: float
    p99_ms: float
    microseconds: dict[str, float]
    """Time on a processor for each message of those sent as fast as it can, of the client and of each group.

    While librdkafka has more to send than may be under way, its thread polls without a pause, which counts as its time.
    """


def send_all(address: str, topic: str, count: int, groups: Groups) -> tuple[float, dict[str, float]]:
    """Return how many records a second are acknowledged, sent as fast as the client can, and what one costs."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all"})
    payload = bytes(PAYLOAD_BYTES)
    errors: list[Any] = []

    def note(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    producer.produce(topic, payload, on_delivery=note)  # the topic is there, and the producer has its id
    assert producer.flush(TIMEOUT_S) == 0 and not errors, errors[:1]
    before, begin_s = seconds_of(groups), time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, payload, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0 and not errors, errors[:1]
    end_s = time.perf_counter()
    return count / (end_s - begin_s), microseconds_each(before, seconds_of(groups), count)


def time_records(address: str, topic: str, load: Load) -> list[float]:
    """Return the ms that records took from the call that sends each to the poll that has it, at a rate."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all", "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "fetch.wait.max.ms": 500})
    producer.produce(topic, b"first")
    assert producer.flush(TIMEOUT_S) == 0
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, end - 1)])
    assert consumer.poll(TIMEOUT_S) is not None
    count, sent, found = round(load.rate * load.seconds), 0, list[float]()
    begin_ns, padding = time.perf_counter_ns(), bytes(PAYLOAD_BYTES - _SENT.size)
    while len(found) < count:
        due = min(count, (time.perf_counter_ns() - begin_ns) * load.rate // 1_000_000_000 + 1)
        while sent < due:
            producer.produce(topic, _SENT.pack(time.perf_counter_ns()) + padding)
            sent += 1
        producer.poll(0)
        message = consumer.poll(0.0005)
        if message is not None and message.error() is None:
            found.append((time.perf_counter_ns() - _SENT.unpack_from(message.value())[0]) / 1e6)
        assert time.perf_counter_ns() - begin_ns < TIMEOUT_S * 1e9, f"{len(found)} of {count} came"
    assert producer.flush(TIMEOUT_S) == 0
    consumer.close()
    return found


def run_client(address: str, topic: str, load: Load, groups: Groups) -> Figures:
    """Run the client against one address."""
    rate, microseconds = send_all(address, f"{topic}-fast", load.messages, {**groups, CLIENT: [os.getpid()]})
    times = sorted(time_records(address, f"{topic}-timed", load)) if load.seconds else [0.0]
    return Figures(rate, times[len(times) // 2], times[len(times) * 99 // 100], microseconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("load", type=json.loads)
    parser.add_argument("groups", type=json.loads)
    chosen = parser.parse_args()
    print(json.dumps(run_client(chosen.address, chosen.topic, Load(*chosen.load), chosen.groups)))


if __name__ == "__main__":
    main()

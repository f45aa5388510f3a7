"""Messages sent and received many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from ordo.cluster.wire.codecs import EventCode
from ordo.runtime.errors import ClusterError, ConfigurationError, SessionClosedError
from tests.cluster.client.session_members import SessionWorld


@pytest.fixture
def world() -> Iterator[SessionWorld]:
    world = SessionWorld()
    yield world
    world.close()


class Batches:
    """Takes batches apart again."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.messages: list[tuple[int, int, bytes]] = []
        self.log: list[object] = []

    def __call__(self, session_id: int, timestamps: memoryview, lengths: memoryview, payloads: bytes) -> None:
        ends = list(accumulate(lengths))
        assert len(timestamps) == len(lengths) > 0
        assert ends[-1] == len(payloads)
        self.sizes.append(len(lengths))
        for timestamp, length, end in zip(timestamps, lengths, ends, strict=True):
            self.messages.append((session_id, timestamp, payloads[end - length : end]))
        self.log.append(len(lengths))


def payloads_of(count: int) -> list[bytes]:
    return [b"%d " % index * (index % 7) for index in range(count)]


def test_many_offers_are_taken_in_order_and_come_back_in_batches(world: SessionWorld) -> None:
    batches = Batches()
    client = world.client(on_messages=batches)
    payloads = payloads_of(100)
    assert client.offer_many(payloads) == 100
    assert client.unsent == 0
    world.run(client, lambda: len(batches.messages) == 100)
    assert batches.messages == [(1, 77, payload) for payload in payloads]
    assert len(batches.sizes) < 100


def test_offers_may_be_any_iterable_of_buffers(world: SessionWorld) -> None:
    batches = Batches()
    client = world.client(on_messages=batches)
    assert client.offer_many(memoryview(payload) for payload in (b"a", b"", b"ccc")) == 3
    assert client.offer_many([]) == 0
    assert client.offer_many([bytearray(b"d")]) == 1
    world.run(client, lambda: len(batches.messages) == 4)
    assert [payload for _, _, payload in batches.messages] == [b"a", b"", b"ccc", b"d"]


def test_what_is_not_taken_is_offered_again(world: SessionWorld) -> None:
    batches = Batches()
    client = world.client(on_messages=batches, ingress_channel="aeron:udp?term-length=64k")
    payloads = [index.to_bytes(4, "little") * 250 for index in range(400)]
    counts: list[int] = []
    while (taken := sum(counts)) < len(payloads):
        counts.append(client.offer_many(payloads[taken:]))
        client.poll()
    assert len(counts) > 1, "the ingress never was full"
    world.run(client, lambda: len(batches.messages) == len(payloads))
    assert [payload for _, _, payload in batches.messages] == payloads


def test_a_message_that_is_too_long_ends_a_batch_of_offers(world: SessionWorld) -> None:
    client = world.client()
    with pytest.raises(
        ClusterError, match=r"message 2 of those offered of .* bytes: at most .*; the 2 before it were taken"
    ):
        client.offer_many([b"a", b"b", bytes(1 << 20), b"c"])
    world.run(client, lambda: world.leader.names_received().count("SessionMessageHeader") == 2)


def test_a_closed_session_takes_no_batch(world: SessionWorld) -> None:
    client = world.client()
    client.close()
    with pytest.raises(SessionClosedError, match="closed by this client"):
        client.offer_many([b"a"])


def test_one_of_both_callbacks(world: SessionWorld) -> None:
    with pytest.raises(ConfigurationError, match="on_message and on_messages: give one of both"):
        world.client(on_message=lambda *_: None, on_messages=Batches())


def test_events_keep_their_place_between_messages(world: SessionWorld) -> None:
    batches = Batches()
    client = world.client(on_messages=batches, on_session_event=lambda code, detail: batches.log.append((code, detail)))
    channel = world.sessions[1].response_channel
    for index in range(6):
        if index == 4:
            world.leader.send_event(channel, 1, 0, EventCode.ERROR, "between")
        world.leader.send_message(1, b"%d" % index)
    world.run(client, lambda: len(batches.messages) == 6)
    assert batches.log == [4, (EventCode.ERROR, "between"), 2]


def test_what_a_callback_raises_loses_its_batch_alone(world: SessionWorld) -> None:
    batches = Batches()
    failures = [ValueError("mine")]

    def on_messages(session_id: int, timestamps: memoryview, lengths: memoryview, payloads: bytes) -> Any:
        if failures:
            raise failures.pop()
        batches(session_id, timestamps, lengths, payloads)

    client = world.client(on_messages=on_messages)
    client.offer_many([b"1", b"2"])
    with pytest.raises(ValueError, match="mine"):
        world.run(client, lambda: False)
    client.send(b"3")
    world.run(client, lambda: batches.messages)
    assert batches.messages[-1] == (1, 77, b"3")

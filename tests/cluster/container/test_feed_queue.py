"""What waits for the streams of topics: its form, its order, and what is forgotten of it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.container.streams.feed_queue import FeedQueue, Topic, gather
from ordo.cluster.wire import ordo_codecs
from ordo.runtime.errors import PayloadError
from ordo.service_api.service import OfferResult


class Stream:
    """A topic's stream that takes so many messages, and then refuses with BACK_PRESSURED."""

    def __init__(self, *rooms: int) -> None:
        self.taken: list[bytes] = []
        self._left = list(rooms)

    def offer(self, message: bytes) -> int:
        if self._left and self._left[0] == 0:
            del self._left[0]
            return OfferResult.BACK_PRESSURED
        if self._left:
            self._left[0] -= 1
        self.taken.append(message)
        return 64 * len(self.taken)


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(NUMBERS, NUMBERS, st.integers(0, (1 << 31) - 1), st.binary(max_size=40))
def test_a_topic_goes_on_from_where_it_stands(log_position: int, timestamp: int, index: int, payload: bytes) -> None:
    queue, topic = FeedQueue(), Topic("orders", sequence=6, position=96, log_position=640)
    assert queue.put(topic, log_position, timestamp, index, payload) == 7
    assert (topic.sequence, topic.position, topic.log_position) == (7, 96, log_position)
    assert queue.first is topic and len(queue) == 1
    header = ordo_codecs.FEED_MESSAGE.encode(
        sequence=7, log_position=log_position, previous_log_position=640, timestamp=timestamp, message_index=index
    )
    assert queue.messages() == [header + payload]


@given(st.lists(st.integers(1, 3), max_size=9), st.integers(1, 4))
def test_only_what_the_last_record_published_is_dropped(counts: list[int], dropped: int) -> None:
    queue, topic = FeedQueue(), Topic("orders")
    positions = [number for number, count in enumerate(counts, 1) for _ in range(count)]
    for index, position in enumerate(positions):
        queue.put(topic, position, 0, index, b"")
    queue.drop(dropped)
    left = [ordo_codecs.FEED_MESSAGE.decode(one).log_position for one in queue.messages()]
    is_last = bool(positions) and positions[-1] == dropped
    assert left == [one for one in positions if not (is_last and one == dropped)]


def test_a_topic_without_a_stream_waits() -> None:
    queue = FeedQueue()
    queue.put(Topic("orders"), 32, 0, 0, b"a")
    assert queue.send() == (0, 0) and len(queue) == 1


@given(NUMBERS, NUMBERS, st.lists(st.binary(max_size=40), min_size=1, max_size=9))
def test_many_at_once_are_what_one_after_the_other_are(position: int, timestamp: int, payloads: list[bytes]) -> None:
    queues = FeedQueue(), FeedQueue()
    topics = [Topic("orders", sequence=6, position=96, log_position=640) for _ in queues]
    numbers = [queues[0].put(topics[0], position, timestamp, 3 + index, one) for index, one in enumerate(payloads)]
    assert queues[1].put_many(topics[1], position, timestamp, 3, payloads) == numbers[0]
    assert queues[1].messages() == queues[0].messages()
    assert topics[1].sequence == topics[0].sequence and topics[1].log_position == topics[0].log_position


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), max_size=8), st.lists(st.integers(0, 5), max_size=5))
def test_streams_that_refuse_meanwhile_get_what_was_published_in_its_order(
    published: list[tuple[int, int]], rooms: list[int]
) -> None:
    queue, topics, streams = FeedQueue(), [Topic("orders"), Topic("trades")], [Stream(*rooms), Stream()]
    for topic, stream in zip(topics, streams, strict=True):
        topic.publication = cast(Any, stream)
    wanted: list[list[bytes]] = [[], []]
    for record, (which, count) in enumerate(published, 1):
        queue.put_many(topics[which], record, 5, 0, [b"%d.%d" % (record, index) for index in range(count)])
        wanted[which] += queue.messages()[-count:]
    for _ in rooms:
        waiting = len(queue)
        count, refusal = queue.send()
        assert len(queue) == waiting - count and refusal in (0, OfferResult.BACK_PRESSURED)
        assert bool(queue) == bool(refusal)
        assert queue.messages() == [one for one in queue.messages() if one not in streams[0].taken + streams[1].taken]
    queue.send()
    assert not queue and [one.taken for one in streams] == wanted
    assert [one.position for one in topics] == [64 * len(one.taken) for one in streams]


def test_what_is_published_is_gathered_and_measured() -> None:
    assert gather(b"abc", (), "it") == ([b"abc"], 3, 3)
    assert gather(bytearray(b"a"), (b"bcd", memoryview(b"ef")), "it") == ([b"a", b"bcd", b"ef"], 3, 6)
    with pytest.raises(PayloadError, match="it is a str, must be bytes"):
        gather(b"a", ("b",), "it")

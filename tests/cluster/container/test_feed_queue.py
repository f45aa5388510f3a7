"""What waits for the streams of topics: its form, its order, and what is forgotten of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.container.streams.feed_queue import FeedQueue, Topic
from ordo.cluster.wire import ordo_codecs

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

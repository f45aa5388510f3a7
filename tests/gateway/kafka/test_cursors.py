"""Windows over topics: what is read ahead, what is kept, what is shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ordo.cluster.wire import ordo_codecs
from ordo.follow.topics.feeds import FeedMessage
from ordo.follow.topics.timed_follower import TimedFollower
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.cluster_time import TimeUnit

pytest.importorskip("crc32c", reason="needs the extra kafka")

from ordo.gateway.kafka.cursors import MESSAGE_BYTES, READ_AHEAD_BYTES, WINDOW_BYTES, Cursor


class Topic:
    """A topic with as many messages as anybody wants, each of 1,000 bytes; up to `end`."""

    def __init__(self, number: int, end: int = 1 << 40) -> None:
        self._number = number
        self.end = end
        self.failure: ArchiveError | None = None
        self.is_closed = False

    def work(self, now_ns: int) -> int:
        return 0

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        if self.failure is not None:
            raise self.failure
        count = min(limit, self.end - self._number)
        for _ in range(count):
            handler(FeedMessage("orders", self._number, self._number * 96, 0, self._number * 10, bytes(1_000)))
            self._number += 1
        return count

    def close(self) -> None:
        self.is_closed = True


def test_messages_are_handed_out_up_to_a_size_and_at_least_one() -> None:
    cursor = Cursor(Topic(5), 5)
    assert cursor.read(5, 10_000) == [] and cursor.covers(5) and not cursor.covers(6)
    assert cursor.work(0)
    assert [one.number for one in cursor.read(5, 1)] == [5]
    assert [one.number for one in cursor.read(6, 3 * (1_000 + MESSAGE_BYTES))] == [6, 7, 8]
    assert cursor.covers(5) and not cursor.covers(4)


def test_it_reads_no_further_ahead_than_it_should_and_keeps_a_bounded_window() -> None:
    cursor, number = Cursor(Topic(1), 1), 1
    for _ in range(100):
        for _ in range(20):
            cursor.work(0)
        ahead = (cursor.next_number - number) * (1_000 + MESSAGE_BYTES)
        assert ahead <= READ_AHEAD_BYTES + 1_000_000
        kept = (cursor.next_number - cursor.first_number) * (1_000 + MESSAGE_BYTES)
        assert kept <= WINDOW_BYTES + 1_000_000
        messages = cursor.read(number, 300_000)
        assert [one.number for one in messages] == list(range(number, number + len(messages)))
        number += len(messages)
    assert number > 20_000 and cursor.first_number > 1
    assert cursor.read(cursor.first_number, 1)[0].number == cursor.first_number
    assert cursor.read(1, 1) == [] and not cursor.covers(1)


class OneMessage(Topic):
    """A topic with one message, of this time."""

    def __init__(self, timestamp: int) -> None:
        super().__init__(1)
        self._timestamp = timestamp

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        handler(FeedMessage("orders", 1, 96, 0, self._timestamp, b"a"))
        return 1


@pytest.mark.parametrize("unit", TimeUnit)
def test_records_have_their_time_in_milliseconds_whatever_the_unit_of_the_log(unit: TimeUnit) -> None:
    time_ms = 1_795_950_967_418
    cursor = Cursor(OneMessage(unit.duration(milliseconds=time_ms) + (unit is not TimeUnit.MILLIS)), 1)
    cursor.work(0)
    assert cursor.read(1, 1)[0].timestamp == time_ms


@pytest.mark.parametrize("unit", TimeUnit)
def test_a_time_is_looked_for_in_milliseconds_whatever_the_unit_of_the_log(unit: TimeUnit) -> None:
    time_ms = 1_795_950_967_418
    follower = TimedFollower.__new__(TimedFollower)
    follower.topic, follower._from_time_ms = "orders", time_ms
    last_before = unit.duration(milliseconds=time_ms) - 1
    for timestamp, is_before in ((last_before, True), (last_before + 1, False)):
        record = ordo_codecs.FEED_MESSAGE.encode(
            sequence=1, log_position=96, previous_log_position=0, timestamp=timestamp, message_index=0
        )
        assert follower._is_before_target(record) is is_before


def test_one_that_does_not_know_its_place_learns_it_from_the_first_message() -> None:
    cursor = Cursor(Topic(40), 0)
    assert not cursor.covers(0) and not cursor.covers(40)
    cursor.work(0)
    assert cursor.first_number == 40 and cursor.covers(41)


def test_an_error_ends_it() -> None:
    topic = Topic(1, end=3)
    cursor = Cursor(topic, 1)
    cursor.work(0)
    assert not cursor.work(0), "nothing has come"
    topic.failure = ArchiveError("gone")
    assert cursor.work(0) and cursor.error is topic.failure and topic.is_closed
    assert not cursor.covers(1) and not cursor.work(0)

"""A reader of a topic begins near what it wants, and not where the topic does (docs/CLIENT.md, Feeds)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.streams import FEED_STREAM_ID, FEED_TERM_LENGTH_BYTES, LOG_STREAM_ID, feed_alias
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.topics.feeds import FeedFollower, FeedMessage
from ordo.runtime.errors import ArchiveError
from tests.archive.control_world import ControlWorld, Server
from tests.transport.driver_world import MS, S

COUNT = 3000
PER_POSITION = 3
"""So many messages are published for one record of the log."""
CHANNEL = f"aeron:ipc?term-length={FEED_TERM_LENGTH_BYTES}|alias={feed_alias('trades')}"
NODES = ("10.0.0.1", "10.0.0.2")


def position_of(sequence: int) -> int:
    """The log position that a message was published for."""
    return 1000 * (1 + (sequence - 1) // PER_POSITION)


def messages() -> list[bytes]:
    """Some of several fragments, all of about four terms."""
    return [
        ordo_codecs.FEED_MESSAGE.encode(
            sequence=number,
            log_position=position_of(number),
            previous_log_position=position_of(number - 1) if number > 1 else 0,
            timestamp=number,
            message_index=(number - 1) % PER_POSITION,
        )
        + b"%d " % number
        + bytes(number * 37 % 700 + (5000 if number % 100 == 0 else 0))
        for number in range(1, COUNT + 1)
    ]


class TopicWorld(ControlWorld):
    """Two nodes that have recorded the same topic, and a reader."""

    def start(self) -> None:
        self.seen: list[FeedMessage] = []
        self.records: list[bytes] = []
        self.follower: FeedFollower | None = None
        self.topic_nodes = [self._record(self.server(address, sessions_max=40)) for address in NODES]
        self.client_node = self.node("10.0.0.9", image_liveness_timeout_ns=2 * S)

    def _record(self, server: Server) -> Server:
        server.archive.record_subscription(CHANNEL, FEED_STREAM_ID)
        publication = server.node.client.add_exclusive_publication(CHANNEL, FEED_STREAM_ID)
        self.until(lambda: server.archive.recording(0))
        self.send(publication, messages())
        recording: Any = server.archive.recording(0)
        self.until(lambda: recording.durable_position == publication.position)
        return server

    def record_log(self, server: Server, count: int) -> int:
        """Record so many records of a log at a node; return where they end."""
        publication = server.node.client.add_exclusive_publication("aeron:ipc?term-length=65536", LOG_STREAM_ID)
        server.archive.record_subscription("aeron:ipc", LOG_STREAM_ID)
        self.until(lambda: publication.is_connected)
        self.send(publication, [bytes(1000)] * count)
        return int(publication.position)

    def follow(self, from_position: Any, from_sequence: int | None = None, topic: str = "trades") -> FeedFollower:
        self.seen.clear()
        nodes = [
            ArchiveClientSettings(
                control_channel=f"aeron:udp?endpoint={address}:8010",
                response_channel="aeron:udp?endpoint=10.0.0.9:0",
                message_timeout_s=2.0,
            )
            for address in NODES
        ]
        self.follower = FeedFollower(self.client_node.client, nodes, topic, from_position, from_sequence, 0.5)
        return self.follower

    def cycle(self) -> None:
        super().cycle()
        if getattr(self, "follower", None) is not None:
            assert self.follower is not None
            self.follower.work(self.clock.now())
            self.follower.poll_messages(self.seen.append, 20)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    world = TopicWorld(tmp_path)
    world.start()
    yield world
    if world.follower is not None:
        world.follower.close()
    world.close()


def fragments_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts of the fragments that readers look at from now on."""
    counts: list[int] = []
    poll = LogSource.poll

    def counted(self: LogSource, handler: Any, limit: int) -> int:
        counts.append(poll(self, handler, limit))
        return counts[-1]

    monkeypatch.setattr(LogSource, "poll", counted)
    return counts


def test_every_place_is_found_without_reading_up_to_it(world: TopicWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = fragments_of(monkeypatch)
    longest = FEED_TERM_LENGTH_BYTES // 300
    for first in (1, 2, 3, 4, 700, 1501, 2000, COUNT - 1, COUNT):
        for wanted in ((position_of(first) - 1, None), ("live", first)):
            counts.clear()
            follower = world.follow(*wanted)
            world.until(lambda: world.seen)
            expected = first if wanted[1] else first - (first - 1) % PER_POSITION
            assert world.seen[0].sequence == expected, wanted
            assert sum(counts) < longest, "it began far from what it wanted"
            follower.close()


def test_what_is_to_come_is_waited_for_at_the_end(world: TopicWorld) -> None:
    follower = world.follow("live", COUNT + 1)
    world.until(lambda: follower.source_address)
    world.run(200 * MS)
    assert world.seen == []
    assert follower.position is not None and follower.position > 3 * FEED_TERM_LENGTH_BYTES


def test_a_node_that_dies_while_a_place_is_searched_is_left_for_another(world: TopicWorld) -> None:
    follower = world.follow("live", 2500)
    world.until(lambda: follower._search is not None)
    assert follower.source is not None and follower.source_address is None
    dead = next(one for one in world.topic_nodes if one.node.address in follower.source.address)
    world.servers.remove(dead)
    dead.node.crash()
    world.until(lambda: world.seen)
    assert [one.sequence for one in world.seen[:3]] == [2500, 2501, 2502]
    assert dead.node.address not in (follower.source_address or "")


def refused(world: TopicWorld, text: str) -> None:
    """The reader gets this error, and gets it again."""
    with pytest.raises(ArchiveError, match=text) as error:
        world.until(lambda: False, step_ns=5 * MS)
    assert error.value.code == ErrorCode.INVALID_POSITION
    with pytest.raises(ArchiveError, match=text):
        world.cycle()
    assert world.seen == []


def test_a_number_that_was_never_published_is_an_error(world: TopicWorld) -> None:
    world.follow("live", COUNT + 2)
    refused(world, f"feed trades: sequence {COUNT + 2} was never published: its last .* {COUNT}: begin at {COUNT + 1} ")


def test_a_number_of_a_topic_that_nobody_has_is_an_error(world: TopicWorld) -> None:
    world.follow("live", 2, topic="quotes")
    refused(world, "feed quotes: sequence 2 was never published: nothing was published to it: begin at 1 or below")


@pytest.mark.parametrize("topic", ["trades", "quotes"])
def test_a_position_beyond_the_log_is_an_error(world: TopicWorld, topic: str) -> None:
    ends = [world.record_log(one, count) for one, count in zip(world.topic_nodes, (1000, 1000), strict=True)]
    assert max(ends) > position_of(COUNT)
    world.follow(max(ends) + 32, topic=topic)
    refused(world, f"feed {topic}: position={max(ends) + 32} is beyond the end of the log, .*={max(ends)}: begin")


def test_a_position_that_one_node_has_is_waited_for(world: TopicWorld) -> None:
    """One node lags, and nothing was published for the end of the log."""
    ends = [world.record_log(one, count) for one, count in zip(world.topic_nodes, (10, 1000), strict=True)]
    assert ends[0] < position_of(COUNT) < ends[1]
    world.follow(ends[1])
    world.run(10 * S, step_ns=5 * MS)
    assert world.seen == []

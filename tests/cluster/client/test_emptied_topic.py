"""A topic of which no message is left: what was deleted is told at once, and the next message is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.streams import FEED_STREAM_ID, FEED_TERM_LENGTH_BYTES, SERVICE_SNAPSHOT_STREAM_ID, feed_alias
from ordo.runtime.errors import ArchiveError
from ordo.service_api.service import TimeUnit
from tests.archive.control_world import Server
from tests.cluster.client.test_feed_search import TopicWorld
from tests.transport.driver_world import MS, S

TERMS = 3
EMPTY_AT = TERMS * FEED_TERM_LENGTH_BYTES
LAST_SEQUENCE, LAST_POSITION = 10, 4096
CHANNEL = f"aeron:ipc?term-length={FEED_TERM_LENGTH_BYTES}|alias={feed_alias('trades')}"
BEGINS_LATE = f"{CHANNEL}|init-term-id=0|term-id={TERMS}|term-offset=0"


class EmptiedWorld(TopicWorld):
    """Two nodes whose recording of the topic begins where the topic's stream ends."""

    def _record(self, server: Server) -> Server:
        server.archive.record_subscription(CHANNEL, FEED_STREAM_ID)
        publication = server.node.client.add_exclusive_publication(BEGINS_LATE, FEED_STREAM_ID)
        self.until(lambda: server.archive.recording(0))
        recording: Any = server.archive.recording(0)
        assert recording.durable_position == EMPTY_AT
        self.publications = [*getattr(self, "publications", []), publication]
        return server

    def add_snapshots(self) -> None:
        """Each node has a snapshot that knows the topic."""
        state = ordo_codecs.FEED_STATE.encode(
            sequence=LAST_SEQUENCE, position=EMPTY_AT, log_position=LAST_POSITION, topic="trades"
        )
        snapshot = ServiceSnapshot(LAST_POSITION + 64, 1, TimeUnit.MILLIS, 1, (), (), feeds=(state,))
        for server in self.topic_nodes:
            channel = "aeron:ipc?alias=snapshot|term-length=64k"
            server.archive.record_subscription(channel, SERVICE_SNAPSHOT_STREAM_ID)
            publication = server.node.client.add_exclusive_publication(channel, SERVICE_SNAPSHOT_STREAM_ID)
            self.until(lambda: server.archive.recording(1))  # noqa: B023
            self.send(publication, list(container_snapshot.encode(snapshot)))
            self.run(5 * MS)
            publication.close()
        self.run(50 * MS)

    def publish(self, sequence: int) -> None:
        record = ordo_codecs.FEED_MESSAGE.encode(
            sequence=sequence,
            log_position=LAST_POSITION + 128,
            previous_log_position=LAST_POSITION,
            timestamp=1,
            message_index=0,
        )
        for publication in self.publications:
            self.send(publication, [record])

    def refusal(self, patience_ns: int = 8 * S) -> ArchiveError | None:
        """The error that the reader gets within that time; None: it waits."""
        assert self.follower is not None
        try:
            self.run(patience_ns)
        except ArchiveError as error:
            return error
        return None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[EmptiedWorld]:
    world = EmptiedWorld(tmp_path)
    world.start()
    yield world
    if world.follower is not None:
        world.follower.close()
    world.close()


@pytest.mark.parametrize(
    ("from_position", "from_sequence"),
    [("live", 1), ("live", LAST_SEQUENCE), (0, None), (LAST_POSITION - 64, None)],
)
def test_what_was_deleted_is_an_error_before_the_next_message_comes(
    world: EmptiedWorld, from_position: Any, from_sequence: int | None
) -> None:
    world.add_snapshots()
    world.follow(from_position, from_sequence)
    error = world.refusal()
    assert error is not None and error.code == ErrorCode.INVALID_POSITION
    assert "were deleted at all nodes that could be reached, and none is left" in error.message
    assert f"begin with from_sequence={LAST_SEQUENCE + 1}" in error.message
    assert world.seen == []


@pytest.mark.parametrize(
    ("from_position", "from_sequence"), [("live", LAST_SEQUENCE + 1), (LAST_POSITION, None), ("oldest", None)]
)
def test_the_next_message_is_waited_for(world: EmptiedWorld, from_position: Any, from_sequence: int | None) -> None:
    world.add_snapshots()
    world.follow(from_position, from_sequence)
    assert world.refusal(5 * S) is None
    world.publish(LAST_SEQUENCE + 1)
    world.until(lambda: world.seen, 5 * S)
    assert [message.sequence for message in world.seen] == [LAST_SEQUENCE + 1]


def test_a_number_that_was_never_published_is_an_error(world: EmptiedWorld) -> None:
    world.add_snapshots()
    world.follow("live", LAST_SEQUENCE + 2)
    error = world.refusal()
    assert error is not None and f"its last message has sequence {LAST_SEQUENCE}" in error.message


def test_without_a_snapshot_nothing_is_said_before_the_next_message(world: EmptiedWorld) -> None:
    world.follow("live", LAST_SEQUENCE)
    assert world.refusal(5 * S) is None
    world.publish(LAST_SEQUENCE + 1)
    with pytest.raises(ArchiveError, match="sequence 11 came where 10 was expected: that was deleted"):
        world.until(lambda: world.seen, 5 * S)

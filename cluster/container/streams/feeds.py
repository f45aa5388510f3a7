"""What a service publishes to topics: the container's side (docs/ARCHITECTURE.md, Feeds).

A feed is a function of the log: every member publishes the same messages in the same order, each topic in a stream of
its own with the same terms everywhere, so a position in a topic's stream means the same on all members. The archive of
the node records the streams; subscribers read the recordings.

What a record publishes goes out when the record was executed, and no further record is executed while some of it waits.
A snapshot holds where each topic stands, and counts only once the recordings have come that far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordo.cluster.container.streams.feed_queue import FeedQueue, Topic, gather
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.recording_counters import recording_counters
from ordo.cluster.wire.streams import (
    FEED_MTU_BYTES,
    FEED_STREAM_ID,
    FEED_TERM_LENGTH_BYTES,
    feed_alias,
    local_stream,
)
from ordo.runtime.errors import ClusterError, ServiceError
from ordo.service_api.feeds import PAYLOAD_BYTES_MAX, RECORD_BYTES_MAX, check_publication
from ordo.service_api.service import OfferResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.service_api.service import Payload
    from ordo.transport.client.client import TransportClient

HOLD_FEEDS = 128
"""Something that was published waits for its stream."""
_WAITS = (OfferResult.BACK_PRESSURED, OfferResult.ADMIN_ACTION, OfferResult.NOT_CONNECTED)


class ContainerFeeds:
    """The topics of one container, in the order in which they were published to first."""

    def __init__(
        self, loop: ContainerLoop, control: ContainerControl, client: TransportClient, cluster_id: int = 0
    ) -> None:
        self._loop = loop
        self._control = control
        self._client = client
        self._stream_id = local_stream(FEED_STREAM_ID, cluster_id)
        self._topics: dict[str, Topic] = {}
        self._waiting = FeedQueue()
        self._record_position = 0
        self._record_bytes = 0
        self._record_count = 0

    # The service

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Take messages for a topic, all or none. Returns the first one's number.

        Raises ServiceError, ServiceCallError.
        """
        loop = self._loop
        loop.check_allowed("publish")
        payloads, longest_bytes, length_bytes = gather(payload, more, "what cluster.publish is given")
        count = len(payloads)
        found = self._admit(topic, longest_bytes, length_bytes, count)
        return self._waiting.put_many(found, loop.log_position, loop.time, self._record_count - count, payloads)

    def _admit(self, topic: str, longest_bytes: int, length_bytes: int, count: int) -> Topic:
        """Count messages of the record that is executed, and return their topic. Raises ServiceError."""
        if type(topic) is not str and isinstance(topic, str):
            topic = str.__str__(topic)  # a member of an enumeration is the topic of its value
        found = self._topics.get(topic) if type(topic) is str else None
        if found is None or longest_bytes > PAYLOAD_BYTES_MAX:
            check_publication(topic, longest_bytes, self._topics)
        self._count(length_bytes, count)
        self._loop.has_published = True
        return self._topics.setdefault(topic, Topic(topic)) if found is None else found

    def _count(self, length_bytes: int, count: int) -> None:
        """Count what one record publishes."""
        if self._record_position != self._loop.log_position:
            self._record_position, self._record_bytes, self._record_count = self._loop.log_position, 0, 0
        if self._record_bytes + length_bytes > RECORD_BYTES_MAX:
            raise ServiceError(f"publish: the callbacks of one record may publish {RECORD_BYTES_MAX} bytes at most")
        self._record_bytes += length_bytes
        self._record_count += count

    # Streams

    def flush(self) -> int:
        """Send what was published, and return the number of messages; `hold` says where some of it waits."""
        loop, count = self._loop, 0
        while self._waiting:
            topic = self._waiting.first
            if topic.publication is None:
                self._open(topic)
            sent, result = self._waiting.send()
            count += sent
            if result:
                self._check_result(self._waiting.first, result)
                break
        if count:
            loop.note_written()
        loop.has_published = False
        if self._waiting:
            loop.hold |= HOLD_FEEDS
            loop.ask_for_tick()
        else:
            loop.hold &= ~HOLD_FEEDS
        return count

    def _open(self, topic: Topic) -> None:
        """Publish a topic from its present position. Its stream takes nothing before the archive records it."""
        term_id, offset = divmod(topic.position, FEED_TERM_LENGTH_BYTES)
        channel = (
            f"aeron:ipc?alias={feed_alias(topic.name)}|mtu={FEED_MTU_BYTES}|term-length={FEED_TERM_LENGTH_BYTES}"
            f"|init-term-id=0|term-id={term_id}|term-offset={offset}"
        )
        topic.publication = self._client.add_exclusive_publication(channel, self._stream_id)
        self._control.send(
            ordo_codecs.FEED_OPEN.encode(
                position=topic.position, session_id=topic.publication.session_id, topic=topic.name
            )
        )

    @staticmethod
    def _check_result(topic: Topic, result: int) -> None:
        if result not in _WAITS:
            raise ClusterError(f"feed {topic.name} cannot be published: result={result} position={topic.position}")

    def drop(self, log_position: int) -> None:
        """Drop what the record that ends here has published, because it was not executed."""
        self._waiting.drop(log_position)

    # Snapshots

    def snapshot(self) -> Iterator[bytes]:
        """Yield the state of each topic. Nothing waits at this time, because a snapshot has a separate record."""
        assert not self._waiting, "a snapshot while a feed waits"
        for topic in self._topics.values():
            yield ordo_codecs.FEED_STATE.encode(
                sequence=topic.sequence, position=topic.position, log_position=topic.log_position, topic=topic.name
            )

    def restore(self, states: Iterable[Any]) -> None:
        """Continue from a snapshot: publish again what the recordings have after it."""
        for state in states:
            topic = Topic(state.topic, state.sequence, state.position, state.log_position)
            self._topics[topic.name] = topic
            self._open(topic)

    def positions(self) -> dict[int, int]:
        """Return the position of each topic, by the session id of its stream."""
        return {
            topic.publication.session_id: topic.position
            for topic in self._topics.values()
            if topic.publication is not None
        }

    def has_recorded(self, positions: Mapping[int, int]) -> bool:
        """Return whether the recordings have come to these positions, durably."""
        if not positions:
            return True
        counters = self._client.counters
        recorded = {one.session_id: counters.get_value(one.counter_id) for one in recording_counters(counters)}
        return all(recorded.get(session_id, -1) >= position for session_id, position in positions.items())

    def close(self) -> None:
        """End the streams. Idempotent."""
        for topic in self._topics.values():
            if topic.publication is not None:
                topic.publication.close()
                topic.publication = None

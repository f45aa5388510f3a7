"""Records the topics that the node's service publishes to (docs/ARCHITECTURE.md, Feeds).

The container names a topic and where its stream begins; the recording is cut to that position and goes on with it. It
begins anew where the archive has something else. What is published must be recorded without a gap, so a recording that
fails ends the node, as that of the log does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.streams import (
    FEED_MTU_BYTES,
    FEED_STREAM_ID,
    FEED_TERM_LENGTH_BYTES,
    feed_alias,
    local_stream,
    topic_of,
)
from ordo.runtime.errors import ArchiveError, ClusterError, DecodeError, OrdoError, StorageFullError
from ordo.service_api.feeds import is_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.archive.archive import Archive
    from ordo.archive.recorder import Recording
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.subscription import Subscription


class FeedRecorder:
    """Records the feeds of one node; `work` runs on the slow tick."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        cluster_id: int,
        record_error: Callable[[Exception], None],
    ) -> None:
        self._archive = archive
        self._client = client
        self._stream_id = local_stream(FEED_STREAM_ID, cluster_id)
        self._record_error = record_error
        self._subscriptions: dict[str, Subscription] = {}
        self._recordings: dict[str, Recording] = {}
        self._waiting: list[records.FeedOpen] = []
        self._failure: Exception | None = None

    def open(self, values: records.FeedOpen) -> None:
        """Note that a container publishes a topic (FeedOpen). Raises DecodeError."""
        if not is_topic(values.topic) or values.position < 0 or values.position % 32:
            raise DecodeError(f"FeedOpen: topic={values.topic!r} position={values.position}")
        self._waiting.append(values)
        self.work()

    def work(self) -> None:
        """Start recordings that wait for room. Raises the error that has ended a recording."""
        if self._failure is not None:
            raise ClusterError(f"a feed is not recorded any more: {self._failure}") from self._failure
        waiting, self._waiting = self._waiting, []
        for values in waiting:
            try:
                self._begin(values)
            except StorageFullError as error:
                self._record_error(error)
                self._waiting.append(values)

    def _begin(self, values: records.FeedOpen) -> None:
        self._archive.check_space()
        self._forget(values.topic)
        recording_id = self._prepare(values.topic, values.position)
        self._subscriptions[values.topic] = self._client.add_subscription(
            f"aeron:ipc?session-id={values.session_id}|alias={feed_alias(values.topic)}",
            self._stream_id,
            on_available_image=partial(self._record, values.topic, recording_id),
        )

    def _record(self, topic: str, recording_id: int | None, image: Image) -> None:
        channel = f"aeron:ipc?alias={feed_alias(topic)}"
        try:
            self._recordings[topic] = self._archive.record(
                image, recording_id=recording_id, channel=channel, on_stop=self._on_stop
            )
        except OrdoError as error:
            self._failure = error

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        if error is not None:
            self._failure = error

    def _prepare(self, topic: str, position: int) -> int | None:
        """Return the recording that can be continued at this position, cut there, or None."""
        going_on = None
        for found in self.recordings(topic):
            fits = (
                found.start_position < position <= found.stop_position
                and (found.term_length, found.mtu) == (FEED_TERM_LENGTH_BYTES, FEED_MTU_BYTES)
                and going_on is None
            )
            try:
                if fits:
                    self._archive.truncate(found.recording_id, position)
                    going_on = found.recording_id
                    continue
            except ArchiveError as error:  # damaged, or no message ends there
                self._record_error(error)
            for replay in self._archive.replays(found.recording_id):
                self._archive.stop_replay(replay)
            self._archive.purge(found.recording_id)
        return going_on

    def recordings(self, topic: str | None = None) -> list[RecordingDescriptor]:
        """Return the archive's recordings of one topic, or of all topics, newest first."""
        found = [
            one
            for one in self._archive.recordings()
            if one.stream_id == self._stream_id
            and (name := topic_of(one.original_channel)) is not None
            and topic in (None, name)
        ]
        return sorted(found, key=lambda one: -one.recording_id)

    # Retention

    def purge(self, log_start_position: int) -> int:
        """Delete segments whose messages all belong to log that this node has deleted. Return the count of files."""
        count = 0
        for topic, recording in self._recordings.items():
            try:
                count += self._purge(recording, log_start_position)
            except OrdoError as error:  # somebody reads that part, or it is damaged: it goes later
                self._record_error(ClusterError(f"feed {topic}: old segments are kept: {error}"))
        return count

    def _purge(self, recording: Recording, log_start_position: int) -> int:
        descriptor = self._archive.descriptor(recording.recording_id)
        bound = self._archive.segment_base(recording.recording_id, descriptor.start_position)
        base = bound + descriptor.segment_length
        while base < recording.durable_position and self._begins_below(recording, base, log_start_position):
            bound, base = base, base + descriptor.segment_length
        if bound <= descriptor.start_position:
            return 0
        return int(self._archive.purge_segments(recording.recording_id, bound))

    def _begins_below(self, recording: Recording, base: int, log_start_position: int) -> bool:
        """Return whether the first message of a segment belongs to deleted log, and so do all messages before it."""
        for message in self._archive.reader(recording.recording_id, base).messages():
            return bool(ordo_codecs.FEED_MESSAGE.decode(message.payload).log_position <= log_start_position)
        return False

    # The end

    def _forget(self, topic: str) -> None:
        recording = self._recordings.pop(topic, None)
        if recording is not None:
            self._archive.stop(recording)
        subscription = self._subscriptions.pop(topic, None)
        if subscription is not None:
            subscription.close()

    def close(self) -> None:
        """End the recordings. Idempotent."""
        self._waiting.clear()
        for topic in list(self._subscriptions):
            self._forget(topic)

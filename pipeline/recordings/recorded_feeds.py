"""What a service published to topics, as the node has recorded it beside the log (docs/spec/feeds.md).

So a replay can compare it without another version of the service. The recording of a topic may begin later than the
log, and end earlier: only between its first and its last message is it known what was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ordo.cluster.wire.streams import FEED_STREAM_ID, topic_of
from ordo.follow.topics.feeds import decode_message
from ordo.pipeline.recordings.planner import Run, read_runs, whole_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import Recording

PUBLISH = "publish"


class FeedState(NamedTuple):
    """Where a topic stands in a snapshot: the last sequence, and the end of its stream."""

    topic: str
    sequence: int
    position: int


class _Published(NamedTuple):
    log_position: int
    previous_log_position: int
    payload: bytes


def feed_runs(recordings: Iterable[Recording]) -> dict[str, tuple[Run, ...]]:
    """Return the newest recording of each topic; older ones of the same topic were given up."""
    found: dict[str, tuple[Run, ...]] = {}
    for recording in sorted(recordings, key=lambda entry: entry.recording_id):
        topic = _topic(recording)
        if topic is not None:
            found[topic] = whole_runs(recording, recording.start, recording.limit, 0, recording.exact)
    return found


def _topic(recording: Recording) -> str | None:
    """Return the topic whose messages a recording has; in a cluster with an id above 0 the stream has another id."""
    if (recording.descriptor.stream_id - FEED_STREAM_ID) % 16:
        return None
    return topic_of(recording.descriptor.original_channel)


class RecordedFeeds:
    """Compares what a replay publishes, record by record, with what is on record. `compared` counts messages."""

    def __init__(self, runs: Mapping[str, tuple[Run, ...]], states: Iterable[FeedState], start: int) -> None:
        """`start`: log position where the replay begins; `states`: where the topics stand there."""
        positions = {state.topic: state.position for state in states}
        self._messages = {topic: _messages(topic, part, positions.get(topic, 0), start) for topic, part in runs.items()}
        self._next = {topic: next(messages, None) for topic, messages in self._messages.items()}
        self._known_from = {topic: first.previous_log_position for topic, first in self._next.items() if first}
        self.compared = 0

    def difference(self, position: int, effects: Iterable[Any]) -> tuple[str, str | None, str | None] | None:
        """Return the topic, and what was to be published to it and what was, where the record at a position differs."""
        published: dict[str, list[bytes]] = {topic: [] for topic in self._next}
        for effect in effects:
            if effect.kind == PUBLISH:
                name, _, payload = bytes(effect.value).partition(b":")
                published.setdefault(name.decode(), []).append(payload)
        for topic, following in self._next.items():
            if following is None or position <= self._known_from[topic]:
                continue
            recorded, given = self._take(topic, position), published[topic]
            if self._next[topic] is None:  # the recording may end within what a record published
                given = given[: len(recorded)]
            pair = _first_pair(recorded, given)
            if pair is not None:
                return topic, *pair
        return None

    def _take(self, topic: str, position: int) -> list[bytes]:
        """Return what is on record for the record at `position`."""
        found = []
        following = self._next[topic]
        while following is not None and following.log_position <= position:
            found.append(following.payload)
            following = next(self._messages[topic], None)
        self._next[topic] = following
        self.compared += len(found)
        return found


def _first_pair(expected: list[bytes], actual: list[bytes]) -> tuple[str | None, str | None] | None:
    for index in range(max(len(expected), len(actual))):
        pair = tuple(side[index].hex() if index < len(side) else None for side in (expected, actual))
        if pair[0] != pair[1]:
            return pair[0], pair[1]
    return None


def _messages(topic: str, runs: tuple[Run, ...], position: int, start: int) -> Iterator[_Published]:
    """Yield the messages of a topic from a position of its stream on, published after `start` of the log."""
    wanted = tuple(replace(run, start=max(run.start, position)) for run in runs if run.end > position)
    for batch in read_runs(wanted, Predicates(), ("payload",), 1024, True):
        for payload in batch["payload"]:
            message, previous_log_position = decode_message(topic, payload.as_py())
            if message.position > start:
                yield _Published(message.position, previous_log_position, message.payload)

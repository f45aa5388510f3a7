"""What a service publishes to topics, from whichever node can give it (docs/CLIENT.md, Feeds).

with FeedReader(["10.0.0.1:9014", "10.0.0.2:9014", "10.0.0.3:9014"], "trades", from_position=0) as feed:
    for message in feed:
        print(message.sequence, message.position, message.payload)

All nodes record a topic alike, so a position in its stream means the same on each of them, and a reader that changes
nodes goes on where it was. Sequence numbers prove it: one that is not the next is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.connection.endpoints import check_list
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.codecs import HEADER_LENGTH_BYTES
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import identity_text, parse_identity
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.follow.recordings.recording_follower import RecordingFollower
from ordo.follow.recordings.recording_reader import FRAGMENTS_PER_POLL, RecordingReader
from ordo.follow.topics.beginning_verdict import BeginningVerdict
from ordo.follow.topics.emptied_topic import EmptiedTopic
from ordo.follow.topics.feed_search import FeedSearch
from ordo.follow.topics.topic_source import TopicSource
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, DecodeError
from ordo.service_api.feeds import TOPIC_LENGTH_MAX, is_topic
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption

INVALID_POSITION = int(ErrorCode.INVALID_POSITION)
"""Code of the ArchiveErrors for what was deleted."""
_MESSAGE = struct.Struct("<HHHHqqqqi")
_TEMPLATE_ID = ordo_codecs.FEED_MESSAGE.template_id
FeedStart = int | Literal["live", "oldest"]
ROUNDS_MAX = 3
"""So often are nodes that do not answer asked for what the others have deleted."""


class FeedMessage(NamedTuple):
    """One message of a topic."""

    topic: str
    sequence: int
    """Counts the messages of the topic from 1 on."""
    position: int
    """The log position after the record that it was published for."""
    message_index: int
    """Among what was published for the record, in any topic, from 0 on."""
    timestamp: int
    """Cluster time of the record."""
    payload: bytes


def decode_message(topic: str, record: bytes) -> tuple[FeedMessage, int]:
    """Return a message, and the log position of the topic's previous message; 0 without one. Raises DecodeError.

    Raises DecodeError.
    """
    if len(record) < _MESSAGE.size:
        raise DecodeError(f"feed {topic}: a message of {len(record)} bytes, at least {_MESSAGE.size} are needed")
    block_length, template_id, schema_id, _, sequence, position, previous, timestamp, index = _MESSAGE.unpack_from(
        record
    )
    start = HEADER_LENGTH_BYTES + block_length
    is_known = template_id == _TEMPLATE_ID and schema_id == ordo_codecs.SCHEMA_ID
    if not is_known or not _MESSAGE.size <= start <= len(record):
        raise DecodeError(f"feed {topic}: {template_id=} {schema_id=} {block_length=} is no message of a feed")
    return FeedMessage(topic, sequence, position, index, timestamp, record[start:]), previous


class FeedFollower(RecordingFollower):
    """Follows one topic. Never waits: `work` and `poll_messages` every duty cycle.

    It begins with what is published from now on ("live"), with the oldest message that is left ("oldest"), with the
    first one behind a position of the log, or with a sequence number (`from_sequence`).
    """

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        topic: str,
        from_position: FeedStart,
        from_sequence: int | None,
        silence_s: float,
        cluster: KnownCluster | None = None,
    ) -> None:
        is_live = from_position == "live" and from_sequence is None
        super().__init__(
            client, nodes, None, silence_s, is_from_start=not is_live, topic=topic, goes_live=True, cluster=cluster
        )
        if isinstance(from_position, int):
            self.cluster.position = max(self.cluster.position, from_position)
        self.topic = topic
        self.next_sequence = from_sequence
        """The number of the message to be delivered next; None: any."""
        self._from_position = from_position if isinstance(from_position, int) and from_sequence is None else None
        self._beginning = BeginningVerdict(nodes, topic, self._from_position, from_sequence)
        self._emptied = EmptiedTopic(client, nodes, topic, self.cluster)
        self._deleted: ArchiveError | None = None
        self._starts: dict[str, int] = {}
        self._without: set[str] = set()
        self._has_begun = False
        self._is_missing = False
        """What is wanted is not at the node that is read; nothing of what it sends is handed out."""
        self._search: FeedSearch | None = None
        self._searched: LogSource | None = None
        """The source where a beginning was searched last."""
        self._found_position: int | None = None
        self._rounds = 1
        self._asked_until = len(self._nodes)

    @property
    def source_address(self) -> str | None:
        return super().source_address if self._search is None else None

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials, or there was never such a beginning."""
        super().check_allowed()
        self._beginning.check()
        if self._deleted is not None:
            raise self._deleted

    def work(self, now_ns: int) -> int:
        """Run one duty cycle, like RecordingFollower; also ask about a topic of which nothing is left."""
        count = super().work(now_ns) + self._emptied.work(now_ns)
        source = self._source
        if source is not None and self._is_emptied(source):
            last = self._emptied.look(source, now_ns)
            if last is not None:
                self._judge_emptied(last.sequence, last.log_position)
        return count

    def _is_emptied(self, source: LogSource) -> bool:
        """Return whether a beginning is wanted, and the node that is read has had the topic and has nothing of it."""
        is_wanted = not self._has_begun and (self._from_position is not None or self.next_sequence is not None)
        is_empty = source.has_answered and 0 < source.start_position == source.end_position
        return is_wanted and is_empty and self._deleted is None and self.position == source.end_position

    def _judge_emptied(self, last_sequence: int, last_position: int) -> None:
        """Decide whether the reader's first message was deleted, given the last message that the topic had."""
        if self._from_position is not None:
            what, is_deleted = f"position={self._from_position} of the log", self._from_position < last_position
        else:
            wanted = self.next_sequence or 1
            what, is_deleted = f"sequence {wanted - 1}", wanted <= last_sequence
        if not is_deleted:
            self._beginning.note_before(last_sequence)
        elif self._seek():
            self._is_missing, self.position = False, None
            self.leave_source("a node that has not answered may have more")
        else:
            self._deleted = ArchiveError(
                f"feed {self.topic}: messages behind {what} were deleted at all nodes that could be reached, and none "
                f"is left; the last one had sequence {last_sequence} and position={last_position}: begin with "
                f'from_sequence={last_sequence + 1}, "oldest" or "live"',
                code=INVALID_POSITION,
            )

    def close(self) -> None:
        """Stop following and close all sources. Idempotent."""
        super().close()
        self._emptied.close()

    def _source_at(self, settings: ArchiveClientSettings, now_ns: int) -> LogSource:
        needs_log = self._beginning.needs_log
        return TopicSource(
            self._client,
            settings,
            now_ns,
            self.topic,
            self._stream_id,
            self._patience,
            measures_log=needs_log,
            cluster=self.cluster,
        )

    def _judge(self, source: LogSource, now_ns: int) -> None:
        super()._judge(source, now_ns)
        self._judge_beginning(source, now_ns)

    def _judge_probe(self, probe: LogSource, now_ns: int) -> None:
        super()._judge_probe(probe, now_ns)
        self._judge_beginning(probe, now_ns)

    def _attend_probe(self, now_ns: int) -> None:
        if self._probe is not None and self._probe.has_nothing:
            self._judge_beginning(self._probe, now_ns)
        super()._attend_probe(now_ns)

    def _judge_beginning(self, source: LogSource, now_ns: int) -> None:
        """Note whether the reader's first message has ever existed, as far as this node knows."""
        beginning = self._beginning
        if beginning.is_open:
            beginning.note(source, self.position, now_ns)
            self.problem = beginning.problem or self.problem
        if isinstance(source, TopicSource):
            source.measures_log = beginning.needs_log

    def _attend_source(self, now_ns: int) -> None:
        if not self._is_searching(now_ns):
            super()._attend_source(now_ns)

    def _is_searching(self, now_ns: int) -> bool:
        """Return whether the place to begin at is still searched for; reading from the beginning finds it, too."""
        source = self._source
        is_wanted = self.position is None and self._has_target
        if source is not None and source.state is SourceState.READY and source is not self._searched and is_wanted:
            self._search, self._searched = FeedSearch(source, self._is_before_target), source
            self._found_position = None
        search = self._search
        if search is None:
            return False
        if search.source is not source or source.is_ended:
            self._search = None
            return False
        if source.state is SourceState.READY:
            self._last_progress_ns = now_ns
        if not search.work():
            return True
        self._search, self._found_position = None, search.position
        return False

    @property
    def _has_target(self) -> bool:
        """Whether the reader's first message may be far from the beginning of the recording."""
        is_behind = self._from_position is not None and self._from_position > 0
        return is_behind or (self.next_sequence is not None and self.next_sequence > 1)

    def _is_before_target(self, record: bytes) -> bool:
        message, _ = decode_message(self.topic, record)
        if self._from_position is not None:
            return message.position <= self._from_position
        return self.next_sequence is not None and message.sequence < self.next_sequence

    def _choose_position(self, source: LogSource) -> int | None:
        """Return the position that the search has found, or else the position of the topic's first message.

        Else the node is sought that has most of it.
        """
        if source is self._searched and self._found_position is not None:
            return self._found_position
        if not self._is_from_start:
            return source.end_position
        self._starts[source.address] = source.start_position
        if source.start_position > 0 and self._next_node < self._asked_until and self._is_unheard():
            return None
        return min(self._starts.values())

    def _is_unheard(self) -> bool:
        """Return whether some node has not yet answered which part of the topic it has."""
        return not self._are_all(self._starts)

    def _seek(self) -> bool:
        """Search all nodes once more for the missing messages; return whether a search was started."""
        if not self._is_unheard() or self._rounds == ROUNDS_MAX:
            return False
        self._rounds += 1
        self._asked_until = self._next_node + len(self._nodes)
        self._is_missing = True
        return True

    def _note_end(self, source: LogSource) -> None:
        """Note that a topic which no node has yet begins later than this reader: all of it is to be handed out."""
        super()._note_end(source)
        if source.has_nothing and self.position is None:
            self._without.add(source.address)
            self._is_from_start = self._is_from_start or len(self._without) == len(self._nodes)

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        """Call `handler(message)` for messages that have arrived, at most `limit` fragments; return how many.

        Raises ArchiveError when what is wanted was deleted, ClusterError when a message is missing.
        """
        self.check_allowed()
        if self._search is not None:
            return 0
        if self.oldest_position is not None:
            raise ArchiveError(
                f"feed {self.topic}: what comes next, from sequence {self.next_sequence} on, was deleted at all nodes:"
                ' begin anew, with "oldest" or "live"',
                code=INVALID_POSITION,
            )

        def on_record(_: int, record: bytes) -> None:
            message, previous = decode_message(self.topic, record)
            if not self._is_missing and self._admits(message, previous):
                if not self._has_begun:
                    self._has_begun = True
                    self._beginning.note_begun()
                self.cluster.position = message.position
                self.next_sequence = message.sequence + 1
                handler(message)

        count = self.poll_records(on_record, limit)
        if self._is_missing:
            self._is_missing, self.position = False, None
            self.leave_source("a node that has not answered may have more")
        return count

    def _admits(self, message: FeedMessage, previous: int) -> bool:
        """Return whether a message is wanted. What must not be missing, and is, is an error."""
        if self._from_position is not None:
            if message.position <= self._from_position:
                return False
            if previous > self._from_position:
                if self._seek():
                    return False
                raise ArchiveError(
                    f"feed {self.topic}: messages behind position={self._from_position} of the log were deleted at all "
                    f"nodes that could be reached; the oldest that is left has sequence {message.sequence} and "
                    f"position={message.position}",
                    code=INVALID_POSITION,
                )
            self._from_position = None
        if self.next_sequence is None or message.sequence == self.next_sequence:
            return True
        if message.sequence < self.next_sequence and not self._has_begun:
            self._beginning.note_before(message.sequence)
            return False
        what = f"feed {self.topic}: sequence {message.sequence} came where {self.next_sequence} was expected"
        if self._has_begun:
            raise ClusterError(f"{what}: the feeds of the members differ")
        if self._seek():
            return False
        raise ArchiveError(f"{what}: that was deleted at all nodes that could be reached", code=INVALID_POSITION)


class FeedReader(RecordingReader[FeedMessage]):
    """Reads one topic in order, each message once, from the node that can give it. Belongs to one thread.

    `addresses`: the archive endpoints of the members, the preferred one first. `from_position`: "live" for what is
    published from now on; a position of the log, 0 or that of a message, for what was published behind it; "oldest" for
    what is left, whatever was deleted.
    `from_sequence`: the number of the first message, instead: to go on after `message.sequence`, give the next one.

    One that has caught up shares a stream with the others of its node (docs/LOG.md). One that is slow holds up nobody
    but itself: it reads from the disk of its node.

    Nodes of two clusters are refused, and with `cluster`, which is what an earlier reader's `cluster` said, those of
    another one: positions and sequence numbers mean something in one cluster only.
    """

    _follower: FeedFollower

    def __init__(
        self,
        addresses: Sequence[str],
        topic: str,
        *,
        from_position: FeedStart = "live",
        from_sequence: int | None = None,
        credentials: bytes | Callable[[], bytes] = b"",
        aeron_dir: str | None = None,
        silence_s: float = 2.0,
        message_timeout_s: float = 5.0,
        key_file: str = "",
        trusted_file: str = "",
        cluster: str | None = None,
    ) -> None:
        """`credentials`: with the role log, where the cluster authenticates.

        `silence_s`: after so long without a message the other nodes are asked whether they have more.

        Raises ConfigurationError, TransportError; nodes are looked for later, in `poll`.
        """
        _check(addresses, topic, from_position, from_sequence)
        known = None if cluster is None else KnownCluster(parse_identity(cluster), "the kept position")
        settings = [
            ArchiveClientSettings.at(
                address, message_timeout_s=message_timeout_s, name="feed-reader", credentials=credentials
            )
            for address in addresses
        ]
        transport = (
            ClientTransport.connect(aeron_dir, "feed-reader")
            if aeron_dir
            else ClientTransport.embedded("feed-reader", encryption=Encryption.chosen(key_file, trusted_file))
        )
        follower = FeedFollower(transport.client, settings, topic, from_position, from_sequence, silence_s, known)
        super().__init__(transport, follower)

    @property
    def topic(self) -> str:
        """The name of the topic that is read."""
        return self._follower.topic

    @property
    def cluster(self) -> str | None:
        """The identity of the cluster whose topic is read, to be kept with a position; None while unknown."""
        origin = self._follower.cluster.origin
        return None if origin is None else identity_text(origin)

    @property
    def next_sequence(self) -> int | None:
        """The number of the message to be handed out next; None: whichever comes first."""
        first = self._polled.first
        return self._follower.next_sequence if first is None else first.sequence

    @property
    def is_reading(self) -> bool:
        """Whether a node that sends the topic was found; everything published from then on is delivered."""
        return self._follower.source_address is not None

    @property
    def descriptor(self) -> int | None:
        """Readable when `poll` would find something; None with the driver of another process."""
        return self._transport.descriptor

    def poll(self, handler: Callable[[FeedMessage], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler(message)` for messages that have arrived, at most `limit` fragments; return how many.

        Does not wait.

        What the handler raises is raised here; the message counts as handed out. Raises ArchiveError when no node has
        what is wanted any more, ClusterError when a message is missing.
        """
        if self._polled:
            self._check_open()
            return self._polled.hand_out(handler, limit)
        return self._drive(lambda: self._follower.poll_messages(handler, limit))

    def messages(self, *, timeout_s: float | None = None) -> Iterator[FeedMessage]:
        """Messages as they come, for ever, or until none has come for `timeout_s`."""
        return self._items(timeout_s)

    def __iter__(self) -> Iterator[FeedMessage]:
        return self.messages()


def _check(addresses: Sequence[str], topic: str, from_position: object, from_sequence: int | None) -> None:
    check_list("addresses", addresses)
    if not addresses:
        raise ConfigurationError("addresses: give the archive endpoint of at least one member")
    if not is_topic(topic):
        raise ConfigurationError(
            f"topic {topic!r}: must have 1 to {TOPIC_LENGTH_MAX} letters, digits, '.', '_' or '-', and begin with a "
            "letter or a digit"
        )
    if from_position not in ("live", "oldest") and (not isinstance(from_position, int) or from_position < 0):
        allowed = '"live", "oldest", 0, or the position of a message'
        raise ConfigurationError(f"from_position={from_position!r}: must be {allowed}")
    if from_sequence is not None and from_sequence < 1:
        raise ConfigurationError(f"from_sequence={from_sequence}: messages are numbered from 1 on")
    if from_sequence is not None and from_position != "live":
        raise ConfigurationError("from_position and from_sequence: give one of both")

"""The committed log as a topic of Kafka's: its offsets are the dense numbers of messages, requests and outputs.

A record's value is what the client sent, as it is; headers say what the entry was, in whose session, and its position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executed_follower import NumberedFollower, filter_of
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.kafka.cursors import Cursor
from ordo.gateway.kafka.wire.records import enclose
from ordo.runtime.errors import ArchiveError, ClusterError
from ordo.transport.client.client import TransportClient

LOG_TOPIC = "ordo.log"
LOG_KINDS = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)
OLDEST = AtTime(0)
"""Where the log, or the oldest snapshot, can be read from and numbered."""


class LogTopicFollower:
    """Follows the log as others follow a topic. `work` once a duty cycle."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        begin: AtSequence | AtTime | None,
        silence_s: float,
    ) -> None:
        """Begin with a number, or a time; None: with what comes from now on."""
        chosen = filter_of(LOG_KINDS, None, decides=True, numbers=True)
        self._follower = NumberedFollower(client, nodes, begin, silence_s, record_filter=chosen, goes_live=True)
        self._begin = begin
        self._next = 0

    @property
    def next_number(self) -> int:
        """The number of the message that comes next; 0 while it is not known."""
        last = self._follower.last_sequence
        return 0 if last is None else last + 1

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        return self._follower.work(now_ns)

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        """Call `handler` for messages that have come. Raises ArchiveError, and ClusterError for a gap."""
        self._follower.check_allowed()
        if self._follower.oldest_position is not None:
            raise ArchiveError(f"{LOG_TOPIC}: it was deleted with the log", code=ErrorCode.INVALID_POSITION)

        def on_entry(entry: LogEntry) -> None:
            if entry.kind in LOG_KINDS and self._is_wanted(entry):
                handler(message_of(entry))

        return self._follower.poll(on_entry, limit)

    def _is_wanted(self, entry: LogEntry) -> bool:
        """Return whether it is not before the beginning. Raises ClusterError where one is missing."""
        number, begin = entry.sequence, self._begin
        if not number:
            raise ClusterError(f"{LOG_TOPIC}: the entry at position={entry.position} has no number")
        if isinstance(begin, AtSequence) and number < begin.sequence:
            return False
        if isinstance(begin, AtTime) and not self._next and entry.timestamp < begin.timestamp:
            return False
        if self._next and number != self._next:
            raise ClusterError(f"{LOG_TOPIC}: message {self._next} is missing before {number}")
        self._next = number + 1
        return True

    def close(self) -> None:
        """Give up all sources. Idempotent."""
        self._follower.close()


def message_of(entry: LogEntry) -> FeedMessage:
    """Return an entry as a message of the topic, whose payload has the headers with it."""
    headers = {"ordo.kind": entry.kind.value, "ordo.session": entry.session_id, "ordo.position": entry.position}
    payload = enclose(entry.payload, {name: str(value) for name, value in headers.items()})
    return FeedMessage(LOG_TOPIC, entry.sequence, entry.position, 0, entry.timestamp, payload)


class EndCursor(Cursor):
    """Follows the end of the log and keeps nothing of it: `next_number` is the end."""

    def __init__(self, follower: LogTopicFollower) -> None:
        super().__init__(follower, 0)
        self._log = follower

    def covers(self, number: int) -> bool:
        """Return False: nothing is read here."""
        return False

    def work(self, now_ns: int) -> bool:
        """Run one duty cycle, and return whether the end has moved, or the cursor has ended."""
        before, count = self.next_number, super().work(now_ns)
        if self.error is None:
            self.next_number = max(self.next_number, self._log.next_number)
        return count or self.next_number != before

    def _on_message(self, message: FeedMessage) -> None:
        self.next_number = message.sequence + 1

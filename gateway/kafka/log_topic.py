"""The committed log as a topic of Kafka's: its offsets are the dense numbers of messages, requests and outputs.

A record's value is what the client sent, as it is; headers say what the entry was, whose, and where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executed_follower import NumberedFollower
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.kafka.cursors import Cursor
from ordo.gateway.kafka.wire.records import enclose
from ordo.runtime.errors import ArchiveError, ClusterError, OrdoError
from ordo.runtime.native.cluster_time import TimeUnit, time_ns
from ordo.transport.client.client import TransportClient

LOG_TOPIC = "ordo.log"
OLDEST: Final = "oldest"
"""Where the log, or the oldest snapshot, can be read from and numbered."""
_NUMBERED = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)


class NoNumbersError(OrdoError):
    """Messages at the end of this log have no numbers: it is of an earlier release."""


class LogTopicFollower:
    """Follows the log as others follow a topic. `work` once a duty cycle."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        begin: AtSequence | AtTime | Literal["oldest"] | None,
        silence_s: float,
    ) -> None:
        """Begin with a number, a time, or OLDEST; None: with what comes from now on."""
        place = AtTime(0) if begin == OLDEST else begin
        self._follower = NumberedFollower(client, nodes, place, silence_s, goes_live=True)
        self._begin = begin
        self._next = 0
        self._may_jump = False
        self.begin_number = 0
        """Where OLDEST is: the number of the first message there, also if it is still to come. 0 while unknown."""

    @property
    def position(self) -> int:
        """Up to where the log is read; -1 while it is not known where to begin."""
        found = self._follower.position if self._follower.is_found else None
        return -1 if found is None else found

    @property
    def next_number(self) -> int:
        """The number of the message that comes next; 0 while it is not known. Raises NoNumbersError."""
        last = self._follower.last_sequence
        if last is None and self._follower.is_found:
            raise NoNumbersError("messages at the end of this log have no numbers yet: docs/LOG.md")
        return 0 if last is None else last + 1

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = self._follower.work(now_ns)
        if self._begin == OLDEST and not self.begin_number:
            last = self._follower.last_sequence
            self.begin_number = 0 if last is None else last + 1
        return count

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        """Call `handler` for messages that have come. Raises ArchiveError, and ClusterError for a gap."""
        self._follower.check_allowed()
        if self._follower.oldest_position is not None:
            raise ArchiveError(f"{LOG_TOPIC}: it was deleted with the log", code=ErrorCode.INVALID_POSITION)

        return self._follower.poll(lambda entry: self._take(entry, handler), limit)

    def _take(self, entry: LogEntry, handler: Callable[[FeedMessage], object]) -> None:
        self._may_jump = self._may_jump or entry.kind is EntryKind.LEVEL
        if entry.kind in _NUMBERED and entry.sequence and self._is_wanted(entry):
            handler(message_of(entry, self._follower.principal_of(entry.session_id)))

    def _is_wanted(self, entry: LogEntry) -> bool:
        """Return whether it is not before the beginning. Raises ClusterError where one is missing."""
        number, begin = entry.sequence, self._begin
        if self._next and number != self._next and not self._may_jump:
            raise ClusterError(f"{LOG_TOPIC}: message {self._next} is missing before {number}")
        self._next, self._may_jump = number + 1, False
        if isinstance(begin, AtSequence):
            return number >= begin.sequence
        return not isinstance(begin, AtTime) or time_ns(entry.timestamp) >= time_ns(begin.timestamp)

    def close(self) -> None:
        """Give up all sources. Idempotent."""
        self._follower.close()


class LogEndFollower(LogTopicFollower):
    """Follows the end of the log from now on, and makes no messages of what comes."""

    def __init__(self, client: TransportClient, nodes: Sequence[ArchiveClientSettings], silence_s: float) -> None:
        super().__init__(client, nodes, None, silence_s)

    def _take(self, entry: LogEntry, handler: Callable[[FeedMessage], object]) -> None:
        """Do nothing: the follower counts by itself."""


def message_of(entry: LogEntry, principal: bytes) -> FeedMessage:
    """Return an entry as a message of the topic, whose payload has the headers with it."""
    headers = {
        "ordo.kind": entry.kind.value,
        "ordo.session": str(entry.session_id),
        "ordo.principal": principal.decode(errors="replace"),
        "ordo.position": str(entry.position),
        "ordo.timestamp": str(entry.timestamp),
        "ordo.time_unit": TimeUnit.of_timestamp(entry.timestamp).symbol,
    }
    if entry.request_number:
        headers |= {"ordo.identity": entry.identity.hex(), "ordo.request_number": str(entry.request_number)}
    if entry.arrival_ns is not None:
        headers["ordo.arrival_ns"] = str(entry.arrival_ns)
    return FeedMessage(LOG_TOPIC, entry.sequence, entry.position, 0, entry.timestamp, enclose(entry.payload, headers))


class LogCursor(Cursor):
    """One place in the log. In a log of earlier releases numbers may be left out."""

    may_jump = True

    def __init__(self, follower: LogTopicFollower, next_number: int) -> None:
        super().__init__(follower, next_number)
        self._log = follower

    def end_at(self, position: int) -> int:
        """Return the number after the last message, if the log is read up to a position; else 0."""
        return self._log.next_number if self.error is None and self._log.position >= position else 0

    def work(self, now_ns: int) -> bool:
        """Run one duty cycle, and return whether messages came, the place was found, or the cursor has ended."""
        before, has_changed = self._log.position, super().work(now_ns)
        if not self.next_number and self._log.begin_number:
            self.next_number = self.first_number = self._log.begin_number
            return True
        return has_changed or self._log.position != before


class EndCursor(LogCursor):
    """Follows the end of the log and keeps nothing of it: `next_number` is the end."""

    def __init__(self, follower: LogEndFollower) -> None:
        super().__init__(follower, 0)

    def covers(self, number: int) -> bool:
        """Return False: nothing is read here."""
        return False

    def work(self, now_ns: int) -> bool:
        """Run one duty cycle, and return whether the end has moved, or the cursor has ended."""
        has_changed = super().work(now_ns)
        try:
            self.next_number = self._log.next_number
        except NoNumbersError as error:
            self.error = error
            self._log.close()
        return has_changed

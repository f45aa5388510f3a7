"""Reads topics for consumers: one transport, and a bounded number of cursors that the event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.topics.feeds import FeedFollower
from ordo.follow.topics.timed_follower import TimedFollower
from ordo.gateway.doors.loop_transport import CYCLE_INTERVAL_S, LoopTransport
from ordo.gateway.kafka.cursors import Cursor
from ordo.gateway.kafka.log_topic import (
    LOG_TOPIC,
    OLDEST,
    EndCursor,
    LogCursor,
    LogEndFollower,
    LogTopicFollower,
    NoNumbersError,
)
from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.records import Stored
from ordo.runtime.errors import ArchiveError, OrdoError

SILENCE_S = 2.0
IDLE_S = 60.0
"""A cursor that nobody has asked for so long is closed."""
TOLD_S = 10.0
"""So long one that has ended is kept for those that ask again: they may wait less than it takes to find out why."""
ROUNDS_MAX = 16
"""So often in a row cursors work while there is more, before others have a turn."""
BUDGET_S = 0.010
"""So long they work in a row, all together; the one that is at work then ends its poll."""
Key = tuple[bytes, str]


class NoReaderError(OrdoError):
    """As many places are read as may be, and all are in use."""


class TopicReaders:
    """The cursors of a door, by credentials and topic. Belongs to one event loop."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._addresses = settings.archive_endpoints()
        self._link = LoopTransport("kafka", settings.readers_max, settings, self._cycle)
        self._transport = self._link.transport
        self._cursors: dict[Key, list[Cursor]] = {}
        self._changed = asyncio.Event()
        self._link.run_soon()

    # Reading

    async def read(
        self, credentials: bytes, topic: str, number: int, bytes_max: int, deadline_s: float
    ) -> list[Stored]:
        """Return messages from `number` on, once there are any; none at the deadline. Raises OrdoError."""
        cursor = self._at(credentials, topic, number)
        while not (found := cursor.read(number, bytes_max)):
            if cursor.error is not None:
                self._drop((credentials, topic), cursor)
                raise cursor.error
            if not cursor.covers(number):  # it has gone on meanwhile, with others
                cursor = self._at(credentials, topic, number)
                continue
            if not await self._wait(cursor, deadline_s):
                return []
        return found

    async def oldest(self, credentials: bytes, topic: str, deadline_s: float) -> int:
        """Return the number of the oldest message that is kept; 0 if it is not known in time. Raises OrdoError."""
        cursor = self._open(credentials, topic, lambda nodes: self._cursor(nodes, topic, 0))
        while not cursor.next_number and cursor.error is None:
            if not await self._wait(cursor, deadline_s):
                self._drop((credentials, topic), cursor)
                return 0
        if cursor.error is not None:
            raise cursor.error
        return cursor.first_number

    async def first_since(self, credentials: bytes, topic: str, timestamp: int, deadline_s: float) -> Stored | None:
        """Return the first message of a time or later; None if there was none by the deadline. Raises OrdoError."""

        def follow(nodes: list[ArchiveClientSettings]) -> Cursor:
            client = self._transport.client
            if topic == LOG_TOPIC:
                return LogCursor(LogTopicFollower(client, nodes, AtTime(timestamp), SILENCE_S), 0)
            return Cursor(TimedFollower(client, nodes, topic, timestamp, SILENCE_S), 0)

        cursor = self._open(credentials, topic, follow)
        try:
            while not (found := cursor.read(cursor.first_number, 1)):
                if cursor.error is not None:
                    raise cursor.error
                if not await self._wait(cursor, deadline_s):
                    return None
            return found[0]
        finally:
            if not cursor.is_shared:
                self._drop((credentials, topic), cursor)

    async def log_end(self, credentials: bytes, position: int, deadline_s: float, is_near: bool = False) -> int:
        """Return the number after the last message of the log up to a position; 0 if it is not known in time.

        `is_near`: what reads the log already is expected to get there. Raises OrdoError, for what is true of the log
        wherever it is read: a place that was deleted is none of the caller's.
        """
        key = credentials, LOG_TOPIC
        while True:
            found = [one for one in self._cursors.get(key, ()) if isinstance(one, LogCursor)]
            if end := max((one.end_at(position) for one in found), default=0):
                return end
            usable = (one for one in found if isinstance(one, EndCursor) or (is_near and one.error is None))
            cursor = next(usable, None) or self._open(credentials, LOG_TOPIC, self._end_cursor)
            cursor.is_shared = True
            if cursor.error is not None:
                self._drop(key, cursor)
                if error_of(cursor.error) == KafkaError.OFFSET_OUT_OF_RANGE:
                    continue  # the next one begins after what is deleted
                raise cursor.error
            if not await self._wait(cursor, deadline_s):
                return 0

    def _end_cursor(self, nodes: list[ArchiveClientSettings]) -> LogCursor:
        return EndCursor(LogEndFollower(self._transport.client, nodes, SILENCE_S))

    def covers(self, credentials: bytes, topic: str, number: int) -> bool:
        """Return whether a message with this number is at hand, or is the next one to be read."""
        return any(one.covers(number) for one in self._cursors.get((credentials, topic), ()))

    def keep_end(self, credentials: bytes, number: int) -> None:
        """Go on following the end of the log for a consumer that is before it, so that it is told how far."""
        for one in self._cursors.get((credentials, LOG_TOPIC), ()):
            if isinstance(one, EndCursor) and one.next_number > number:
                one.used_s = self._loop.time()

    async def _wait(self, cursor: Cursor, deadline_s: float) -> bool:
        """Wait for a change, and return whether the deadline is still ahead."""
        cursor.waiters += 1
        cursor.used_s = self._loop.time()
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        finally:
            cursor.waiters -= 1
        return True

    def end_of(self, credentials: bytes, topic: str) -> int:
        """Return the number after the last message that was read of a topic; 0 if none was.

        Of the log, what these credentials have read: others may not be allowed to.
        """
        keys = [key for key in self._cursors if key[1] == topic and (topic != LOG_TOPIC or key[0] == credentials)]
        return max((one.next_number for key in keys for one in self._cursors[key]), default=0)

    # Cursors

    def _at(self, credentials: bytes, topic: str, number: int) -> Cursor:
        for one in self._cursors.get((credentials, topic), ()):
            if one.covers(number) or (one.error is not None and one.next_number == number):
                one.used_s = self._loop.time()
                one.is_shared = True
                return one
        return self._open(credentials, topic, lambda nodes: self._cursor(nodes, topic, number))

    def _cursor(self, nodes: list[ArchiveClientSettings], topic: str, number: int) -> Cursor:
        """Return a cursor at a number, or at the oldest message for 0."""
        client = self._transport.client
        if topic == LOG_TOPIC:
            begin = AtSequence(number) if number else None
            return LogCursor(LogTopicFollower(client, nodes, begin or OLDEST, SILENCE_S), number)
        if not number:
            return Cursor(FeedFollower(client, nodes, topic, "oldest", None, SILENCE_S), 0)
        return Cursor(FeedFollower(client, nodes, topic, "live", number, SILENCE_S), number)

    def _open(self, credentials: bytes, topic: str, make: Callable[[list[ArchiveClientSettings]], Cursor]) -> Cursor:
        if sum(len(found) for found in self._cursors.values()) >= self._settings.readers_max:
            self._make_room()
        nodes = [
            ArchiveClientSettings.at(one, message_timeout_s=5.0, name="kafka", credentials=credentials)
            for one in self._addresses
        ]
        cursor = make(nodes)
        cursor.used_s = self._loop.time()
        self._cursors.setdefault((credentials, topic), []).append(cursor)
        self._link.run_soon()
        return cursor

    def _make_room(self) -> None:
        unused = [(key, one) for key, found in self._cursors.items() for one in found if one.waiters == 0]
        if not unused:
            raise NoReaderError(f"{self._settings.readers_max} places in topics are read, as many as there may be")
        self._drop(*min(unused, key=lambda found: (found[1].error is None, found[1].used_s)))

    def _drop(self, key: Key, cursor: Cursor) -> None:
        cursor.close()
        found = self._cursors.get(key, [])
        if cursor in found:
            found.remove(cursor)
        if not found:
            self._cursors.pop(key, None)

    # The event loop's

    def _cycle(self) -> float:
        until_s = self._loop.time() + BUDGET_S
        for _ in range(ROUNDS_MAX):
            has_changed, is_over = self._work_round(until_s)
            if has_changed:
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
            if is_over or not has_changed:
                break
        if has_changed or is_over:
            self._link.run_soon()
        self._keep_up()
        return CYCLE_INTERVAL_S

    def _work_round(self, until_s: float) -> tuple[bool, bool]:
        """Have each cursor work, longest waiting first; return whether one has changed, and whether time is up."""
        now_ns, has_changed = self._transport.drive(), False
        cursors = [one for found in self._cursors.values() for one in found]
        for one in sorted(cursors, key=attrgetter("worked_s")):
            has_changed = one.work(now_ns) or has_changed
            one.worked_s = self._loop.time()
            if one.worked_s >= until_s:
                return has_changed, True
        return has_changed, False

    def _keep_up(self) -> None:
        """Close cursors that have ended, or that nobody uses."""
        for key, found in list(self._cursors.items()):
            for one in list(found):
                until_s = one.used_s + (IDLE_S if one.error is None else TOLD_S)
                if one.waiters == 0 and until_s < self._loop.time():
                    self._drop(key, one)

    def close(self) -> None:
        """End all reading. Idempotent."""
        self._link.close(before=self._close_all)

    def _close_all(self) -> None:
        for found in self._cursors.values():
            for one in found:
                one.close()
        self._cursors.clear()
        self._changed.set()


def error_of(error: OrdoError) -> int:
    """Return the code of Kafka's protocol for why a topic could not be read.

    NOT_LEADER_OR_FOLLOWER is the one that all clients answer by asking again: other codes for what passes end the
    `poll` of a Java consumer.
    """
    if isinstance(error, ArchiveError) and error.code == ErrorCode.INVALID_POSITION:
        return KafkaError.OFFSET_OUT_OF_RANGE
    if isinstance(error, ArchiveError) and error.code == ErrorCode.UNAUTHORISED_ACTION:
        return KafkaError.TOPIC_AUTHORIZATION_FAILED
    if isinstance(error, NoNumbersError):
        return KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT
    return KafkaError.NOT_LEADER_OR_FOLLOWER

"""Reads topics for consumers: one transport, and a bounded number of cursors that the event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.topics.feeds import FeedFollower
from ordo.follow.topics.timed_follower import TimedFollower
from ordo.gateway.doors.loop_transport import CYCLE_INTERVAL_S, LoopTransport
from ordo.gateway.kafka.cursors import Cursor, Follower
from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.records import Stored
from ordo.runtime.errors import ArchiveError, OrdoError

SILENCE_S = 2.0
IDLE_S = 60.0
"""A cursor that nobody has asked for so long is closed."""
ROUNDS_MAX = 16
"""So often in a row cursors work while there is more, before others have a turn."""
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
                raise cursor.error
            if not cursor.covers(number):  # it has gone on meanwhile, with others
                cursor = self._at(credentials, topic, number)
                continue
            if not await self._wait(cursor, deadline_s):
                return []
        return found

    async def oldest(self, credentials: bytes, topic: str, deadline_s: float) -> int:
        """Return the number of the oldest message that is kept; 0 if it is not known in time. Raises OrdoError."""
        cursor = self._open(credentials, topic, 0, lambda nodes: self._follow(nodes, topic, None))
        while not cursor.next_number and cursor.error is None:
            if not await self._wait(cursor, deadline_s):
                self._drop((credentials, topic), cursor)
                return 0
        if cursor.error is not None:
            raise cursor.error
        return cursor.first_number

    async def first_since(self, credentials: bytes, topic: str, timestamp: int, deadline_s: float) -> Stored | None:
        """Return the first message of a time or later; None if there was none by the deadline. Raises OrdoError."""

        def follow(nodes: list[ArchiveClientSettings]) -> Follower:
            return TimedFollower(self._transport.client, nodes, topic, timestamp, SILENCE_S)

        cursor = self._open(credentials, topic, 0, follow)
        try:
            while not cursor.next_number and cursor.error is None:
                if not await self._wait(cursor, deadline_s):
                    return None
            if cursor.error is not None:
                raise cursor.error
            return cursor.read(cursor.first_number, 1)[0]
        finally:
            self._drop((credentials, topic), cursor)

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

    def end_of(self, topic: str) -> int:
        """Return the number after the last message that was read of a topic; 0 if none was."""
        found = (one for key, cursors in self._cursors.items() if key[1] == topic for one in cursors)
        return max((one.next_number for one in found), default=0)

    # Cursors

    def _at(self, credentials: bytes, topic: str, number: int) -> Cursor:
        for one in self._cursors.get((credentials, topic), ()):
            if one.covers(number):
                one.used_s = self._loop.time()
                return one
        return self._open(credentials, topic, number, lambda nodes: self._follow(nodes, topic, number))

    def _follow(self, nodes: list[ArchiveClientSettings], topic: str, number: int | None) -> Follower:
        client = self._transport.client
        if number is None:
            return FeedFollower(client, nodes, topic, "oldest", None, SILENCE_S)
        return FeedFollower(client, nodes, topic, "live", number, SILENCE_S)

    def _open(
        self, credentials: bytes, topic: str, number: int, follow: Callable[[list[ArchiveClientSettings]], Follower]
    ) -> Cursor:
        if sum(len(found) for found in self._cursors.values()) >= self._settings.readers_max:
            self._make_room()
        nodes = [
            ArchiveClientSettings.at(one, message_timeout_s=5.0, name="kafka", credentials=credentials)
            for one in self._addresses
        ]
        cursor = Cursor(follow(nodes), number)
        cursor.used_s = self._loop.time()
        self._cursors.setdefault((credentials, topic), []).append(cursor)
        self._link.run_soon()
        return cursor

    def _make_room(self) -> None:
        unused = [(key, one) for key, found in self._cursors.items() for one in found if one.waiters == 0]
        if not unused:
            raise NoReaderError(f"{self._settings.readers_max} places in topics are read, as many as there may be")
        self._drop(*min(unused, key=lambda found: found[1].used_s))

    def _drop(self, key: Key, cursor: Cursor) -> None:
        cursor.close()
        found = self._cursors.get(key, [])
        if cursor in found:
            found.remove(cursor)
        if not found:
            self._cursors.pop(key, None)

    # The event loop's

    def _cycle(self) -> float:
        for _ in range(ROUNDS_MAX):
            now_ns = self._transport.drive()
            changes = [one.work(now_ns) for found in list(self._cursors.values()) for one in list(found)]
            if not any(changes):
                break
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        else:
            self._link.run_soon()
        self._keep_up()
        return CYCLE_INTERVAL_S

    def _keep_up(self) -> None:
        """Close cursors that have ended, or that nobody uses."""
        before_s = self._loop.time() - IDLE_S
        for key, found in list(self._cursors.items()):
            for one in list(found):
                if one.error is not None or (one.waiters == 0 and one.used_s < before_s):
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
    return KafkaError.NOT_LEADER_OR_FOLLOWER

"""The messages that a watcher gets: read in order, checked to be without a gap, and written as JSON.

A reader reads no further than its watcher has taken: what is held for one is a poll's worth of messages.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.beginnings import AtSequence, Beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.log_schemas import LogSchemas
from ordo.follow.reader import LogReader
from ordo.follow.topics.feeds import FeedMessage, FeedReader
from ordo.gateway.watching.log_messages import Headers, Lack, as_json, describe
from ordo.gateway.watching.watch_requests import WatchRequest
from ordo.runtime.errors import ArchiveError, ClusterError, OrdoError
from ordo.runtime.native.cluster_time import time_ms

LOOK_PAUSE_S = 1.0
"""A watch of a topic looks into the log for schemas no more often, whatever its messages say."""
LOOK_PAUSE_S_MAX = 60.0
"""So rarely it looks where looks find nothing: bytes of no schema, or of code whose schema the log does not have."""
POLL_LIMIT = 64
"""Fragments of a poll: some 90 KB of messages that fill their datagrams, and one that is longer."""
LOG_KINDS = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)
"""What has a number in the log."""


FindSchemas = Callable[[int], Awaitable[LogSchemas]]


class WatchedItem(NamedTuple):
    """One message: its number, by which a watcher goes on after it, and its JSON."""

    sequence: int
    text: str


class Polled(NamedTuple):
    """What a poll has found."""

    items: list[WatchedItem]
    fragments: int
    """So many were read; of a log that is read up to a number, none is an item before that."""


class WatchedItems(Protocol):
    """What is watched, for one watcher."""

    @property
    def place(self) -> int | None:
        """The number of the next message, 0 for whichever comes first; None until the beginning was found."""

    def poll(self) -> Polled:
        """Return what has arrived. Does not wait. Raises OrdoError, once what came before it was returned."""

    async def catch_up(self) -> None:
        """Look for the schemas that messages need which `poll` holds back; between polls."""

    def keep_alive(self) -> None:
        """Tell the node that this reader is there, although it takes nothing."""

    def close(self) -> None:
        """End the reading. Idempotent."""


def open_items(
    wanted: WatchRequest,
    addresses: Sequence[str],
    credentials: bytes,
    schemas: LogSchemas | None = None,
    find: FindSchemas | None = None,
) -> WatchedItems:
    """Return a reader of what is wanted, shown by `schemas` if these are given, and by what `find` gives later.

    Raises ConfigurationError, TransportError.
    """
    if wanted.topic is None:
        begin: Beginning = "live" if wanted.from_sequence is None else AtSequence(wanted.from_sequence)
        kinds = LOG_KINDS if schemas is None else (*LOG_KINDS, EntryKind.SCHEMA)
        log = LogReader(addresses, from_position=begin, kinds=kinds, credentials=credentials)
        return LogItems(log, wanted.from_sequence, schemas)
    feed = FeedReader(
        addresses,
        wanted.topic,
        from_position="oldest" if wanted.is_oldest else "live",
        from_sequence=wanted.from_sequence,
        credentials=credentials,
    )
    return TopicItems(feed, schemas, find)


class _ItemsBeforeFailure:
    """Polls that raise only after the messages that came before the failure were returned."""

    _failure: OrdoError | None = None

    async def catch_up(self) -> None:
        """Look for nothing."""

    def _read(self, found: list[WatchedItem]) -> int:
        """Append what has arrived; return how many fragments were read."""
        raise NotImplementedError

    def poll(self) -> Polled:
        if self._failure is not None:
            raise self._failure
        found: list[WatchedItem] = []
        try:
            return Polled(found, self._read(found))
        except OrdoError as error:
            self._failure = error
            if not found:
                raise
            return Polled(found, len(found))


class TopicReader(Protocol):
    """A FeedReader."""

    @property
    def is_reading(self) -> bool: ...
    @property
    def next_sequence(self) -> int | None: ...

    def poll(self, handler: Callable[[FeedMessage], object], limit: int) -> int: ...

    def keep_alive(self) -> object: ...

    def close(self) -> None: ...


class TopicItems(_ItemsBeforeFailure):
    """Messages of a topic. Its reader itself demands that none is missing.

    Messages whose headers say what the schemas lack wait for one look into the log, which has them.
    """

    def __init__(self, reader: TopicReader, schemas: LogSchemas | None = None, find: FindSchemas | None = None) -> None:
        """`find` returns the schemas of the log up to a position at least."""
        self._reader = reader
        self._schemas = schemas
        self._headers = None if schemas is None else Headers(schemas)
        self._find = find
        self._held: list[FeedMessage] = []
        self._look_at_s = {Lack.SCHEMA: 0.0, Lack.VERSION: 0.0}
        """When the log may be looked into again for each reason."""
        self._pauses_s = dict.fromkeys(self._look_at_s, LOOK_PAUSE_S)
        """How long after the next look for each reason."""

    @property
    def place(self) -> int | None:
        return (self._reader.next_sequence or 0) if self._reader.is_reading else None

    def _read(self, found: list[WatchedItem]) -> int:
        try:
            fragments = self._reader.poll(self._held.append, POLL_LIMIT)
        except OrdoError:
            self._show(found)
            raise
        if self._find is None or time.monotonic() < self._look_at_s.get(self._lack(), math.inf):
            self._show(found)
        return fragments

    def _show(self, found: list[WatchedItem]) -> None:
        found.extend(_item_of_topic(one, self._schemas) for one in self._held)
        self._held.clear()

    def _lack(self) -> Lack:
        if self._headers is None:
            return Lack.NOTHING
        return max((self._headers.lack(one.payload) for one in self._held), default=Lack.NOTHING)

    async def catch_up(self) -> None:
        lack = self._lack()
        if self._find is None or self._schemas is None or lack is Lack.NOTHING:
            return
        self._look_at_s[lack] = time.monotonic() + self._pauses_s[lack]
        self._pauses_s[lack] = min(2 * self._pauses_s[lack], LOOK_PAUSE_S_MAX)
        with suppress(OrdoError):
            found = await self._find(self._held[-1].position)
            if len(found.logged) > len(self._schemas.logged):
                self._pauses_s[lack] = LOOK_PAUSE_S
            self._schemas, self._headers = found, Headers(found)

    def keep_alive(self) -> None:
        self._reader.keep_alive()

    def close(self) -> None:
        self._reader.close()


class EntryReader(Protocol):
    """A LogReader."""

    @property
    def position(self) -> int | None: ...

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int: ...

    def keep_alive(self) -> object: ...

    def close(self) -> None: ...


class LogItems(_ItemsBeforeFailure):
    """Messages of the committed log. Their numbers prove that none is missing."""

    def __init__(self, reader: EntryReader, next_sequence: int | None, schemas: LogSchemas | None = None) -> None:
        self._reader = reader
        self._next = next_sequence or 0
        self._schemas = schemas

    @property
    def place(self) -> int | None:
        return None if self._reader.position is None else self._next

    def _read(self, found: list[WatchedItem]) -> int:
        def take(entry: LogEntry) -> None:
            if entry.kind in LOG_KINDS:
                found.append(self._take(entry))
            elif self._schemas is not None:
                self._schemas.note(entry)

        return self._reader.poll(take, POLL_LIMIT)

    def _take(self, entry: LogEntry) -> WatchedItem:
        if not entry.sequence:
            raise ArchiveError(
                f"the entry at position={entry.position} has no number: nobody knows any more how many came before it",
                code=ErrorCode.INVALID_POSITION,
            )
        if self._next and entry.sequence > self._next:
            raise ArchiveError(
                f"message {self._next} is missing: the log goes on with {entry.sequence}, so begin with that",
                code=ErrorCode.INVALID_POSITION,
            )
        if entry.sequence < self._next:
            raise ClusterError(f"message {entry.sequence} came where {self._next} was expected: go on from that")
        self._next = entry.sequence + 1
        return item_of_log(entry, self._schemas)

    def keep_alive(self) -> None:
        self._reader.keep_alive()

    def close(self) -> None:
        self._reader.close()


def _item_of_topic(message: FeedMessage, schemas: LogSchemas | None) -> WatchedItem:
    head = _head(message.sequence, message.position, message.timestamp)
    return _item(message.sequence, head, message.position, message.payload, schemas)


def item_of_log(entry: LogEntry, schemas: LogSchemas | None = None) -> WatchedItem:
    head = _head(entry.sequence, entry.position, entry.timestamp)
    head |= {"kind": entry.kind.value, "session": str(entry.session_id)}
    if entry.arrival_ns is not None:
        head["arrival_ns"] = str(entry.arrival_ns)
    return _item(entry.sequence, head, entry.position, entry.payload, schemas)


def _head(sequence: int, position: int, timestamp: int) -> dict[str, object]:
    return {"sequence": as_json(sequence), "position": as_json(position), "time_ms": time_ms(timestamp)}


def _item(
    sequence: int, head: dict[str, object], position: int, payload: bytes, schemas: LogSchemas | None
) -> WatchedItem:
    """Write a message: decoded where there are schemas, and its payload unless that says all of it."""
    fields = head if schemas is None else head | describe(schemas, payload, position)
    if "message" not in fields:
        fields = fields | _payload(payload)
    return WatchedItem(sequence, json.dumps(fields, separators=(",", ":"), ensure_ascii=True))


def _payload(payload: bytes) -> dict[str, str]:
    try:
        return {"encoding": "utf-8", "payload": payload.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "payload": base64.b64encode(payload).decode()}

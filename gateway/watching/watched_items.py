"""The messages that a watcher gets: read in order, checked to be without a gap, and written as JSON.

A reader reads no further than its watcher has taken: what is held for one is a poll's worth of messages.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ordo.follow.beginnings import AtSequence, Beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.follow.topics.feeds import FeedMessage, FeedReader
from ordo.gateway.watching.watch_requests import WatchRequest
from ordo.runtime.errors import ClusterError

POLL_LIMIT = 64
"""Fragments of a poll: some 90 KB of messages that fill their datagrams, and one that is longer."""
LOG_KINDS = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)
"""What has a number in the log."""
EXACT_MAX = (1 << 53) - 1
"""JavaScript rounds greater numbers, so they are text."""


class WatchedItem(NamedTuple):
    """One message: its number, by which a watcher goes on after it, and its JSON."""

    sequence: int
    text: str


class WatchedItems(Protocol):
    """What is watched, for one watcher."""

    @property
    def place(self) -> int | None:
        """The number of the next message, 0 for whichever comes first; None until the beginning was found."""

    def poll(self) -> list[WatchedItem]:
        """Return what has arrived. Does not wait. Raises OrdoError; ClusterError for a gap."""

    def keep_alive(self) -> None:
        """Tell the node that this reader is there, although it takes nothing."""

    def close(self) -> None:
        """End the reading. Idempotent."""


def open_items(wanted: WatchRequest, addresses: Sequence[str], credentials: bytes) -> WatchedItems:
    """Return a reader of what is wanted. Raises ConfigurationError, TransportError."""
    if wanted.topic is None:
        begin: Beginning = "live" if wanted.from_sequence is None else AtSequence(wanted.from_sequence)
        log = LogReader(addresses, from_position=begin, kinds=LOG_KINDS, credentials=credentials)
        return LogItems(log, wanted.from_sequence)
    feed = FeedReader(
        addresses,
        wanted.topic,
        from_position="oldest" if wanted.is_oldest else "live",
        from_sequence=wanted.from_sequence,
        credentials=credentials,
    )
    return TopicItems(feed)


class TopicItems:
    """Messages of a topic. Its reader itself demands that none is missing."""

    def __init__(self, reader: FeedReader) -> None:
        self._reader = reader

    @property
    def place(self) -> int | None:
        return (self._reader.next_sequence or 0) if self._reader.is_reading else None

    def poll(self) -> list[WatchedItem]:
        found: list[WatchedItem] = []
        self._reader.poll(lambda one: found.append(_item_of_topic(one)), POLL_LIMIT)
        return found

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


class LogItems:
    """Messages of the committed log. Their numbers prove that none is missing."""

    def __init__(self, reader: EntryReader, next_sequence: int | None) -> None:
        self._reader = reader
        self._next = next_sequence or 0

    @property
    def place(self) -> int | None:
        return None if self._reader.position is None else self._next

    def poll(self) -> list[WatchedItem]:
        entries: list[LogEntry] = []
        self._reader.poll(entries.append, POLL_LIMIT)
        return [self._take(one) for one in entries]

    def _take(self, entry: LogEntry) -> WatchedItem:
        if not entry.sequence:
            raise ClusterError(
                f"the entry at position={entry.position} has no number: nobody knows any more how many came before it"
            )
        if self._next and entry.sequence != self._next:
            raise ClusterError(f"message {self._next} is missing: the log goes on with {entry.sequence}")
        self._next = entry.sequence + 1
        return _item_of_log(entry)

    def keep_alive(self) -> None:
        self._reader.keep_alive()

    def close(self) -> None:
        self._reader.close()


def _item_of_topic(message: FeedMessage) -> WatchedItem:
    return _item(message.sequence, message.position, message.timestamp, message.payload)


def _item_of_log(entry: LogEntry) -> WatchedItem:
    more = {"kind": entry.kind.value, "session": str(entry.session_id)}
    return _item(entry.sequence, entry.position, entry.timestamp, entry.payload, **more)


def _item(sequence: int, position: int, time_ms: int, payload: bytes, **more: str) -> WatchedItem:
    try:
        encoding, text = "utf-8", payload.decode()
    except UnicodeDecodeError:
        encoding, text = "base64", base64.b64encode(payload).decode()
    fields = {"sequence": _exact(sequence), "position": _exact(position), "time_ms": time_ms} | more
    return WatchedItem(
        sequence, json.dumps(fields | {"encoding": encoding, "payload": text}, separators=(",", ":"), ensure_ascii=True)
    )


def _exact(number: int) -> int | str:
    return str(number) if number > EXACT_MAX else number

"""Executes the records of the committed log that are not messages to the service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.runtime.errors import ClusterError

if TYPE_CHECKING:
    from ordo.runtime.sbe import Message

NO_RECORD = 2**63 - 1


class LogRecord(NamedTuple):
    position: int
    """Log position after the record."""
    table: Message
    values: Any


Handler = Callable[[LogRecord], None]


class LogExecutor:
    """A queue of appended records in log order; each is executed by its kind's handler once it is committed.

    `pause` holds execution back (while a snapshot is taken at the last executed record); nothing else waits for it.
    """

    def __init__(self, position: int) -> None:
        """Begin where everything up to `position` has been executed."""
        self._handlers: Mapping[Message, Handler] = {}
        self._queue: deque[LogRecord] = deque()
        self._paused = False
        self.position = position

    def attach(self, handlers: Mapping[Message, Handler]) -> None:
        """Set what executes the records, by their table; records of other kinds are passed over."""
        self._handlers = handlers

    def add(self, position: int, record: bytes) -> LogRecord:
        """Queue a record from the scanner. Raises ClusterError for a record of another schema."""
        found = ordo_codecs.decode_any(record)
        if found is None:
            raise ClusterError(f"log: unknown record at {position=} length_bytes={len(record)} head={record[:8].hex()}")
        log_record = LogRecord(position, *found)
        self._queue.append(log_record)
        return log_record

    @property
    def next_position(self) -> int:
        """Position of the next record that waits for its commit, or NO_RECORD while paused or empty."""
        return NO_RECORD if self._paused or not self._queue else self._queue[0].position

    def execute(self, commit_position: int) -> int:
        """Execute the committed records, and return their number."""
        count = 0
        while not self._paused and self._queue and self._queue[0].position <= commit_position:
            record = self._queue.popleft()
            self.position = record.position
            handler = self._handlers.get(record.table)
            if handler is not None:
                handler(record)
            count += 1
        if not self._paused and self.position < commit_position:
            self.position = commit_position
        return count

    def has_executed(self, position: int, commit_position: int) -> bool:
        """Return whether everything up to `position` is committed, and no record up to it waits here."""
        is_waiting = bool(self._queue) and self._queue[0].position <= position
        return position <= commit_position and not is_waiting

    @property
    def is_paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def truncate(self, position: int) -> None:
        """Drop the records beyond `position`, where the log was truncated."""
        assert position >= self.position, f"truncating executed records: {position=} executed={self.position}"
        while self._queue and self._queue[-1].position > position:
            self._queue.pop()

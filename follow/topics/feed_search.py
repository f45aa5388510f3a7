"""Finds where to begin in a topic's recording: after a log position, or with a message number."""

from __future__ import annotations

from collections.abc import Callable

from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.runtime.errors import DecodeError

PROBE_LENGTH_BYTES = 64 * 1024
"""So much is replayed to see one message, which has up to 32,000 bytes."""
FRAGMENTS_PER_LOOK = 64


class FeedSearch:
    """Bisects over the terms of a topic's recording at one node. `work` once a duty cycle. Never waits.

    A message never reaches over the end of a term, so one begins where a term does. `position` is the last of these
    places whose message comes before what is wanted; None where there is none, and the recording's beginning must do.
    """

    def __init__(self, source: LogSource, is_before: Callable[[bytes], bool]) -> None:
        """Search a READY `source`.

        `is_before` says whether a record comes before the wanted one, and may raise DecodeError.
        """
        assert source.descriptor is not None
        self.source = source
        self._is_before = is_before
        self._term_length = source.descriptor.term_length
        self._first_term = source.start_position // self._term_length + 1
        self._low, self._high = -1, max(0, (source.end_position - 1) // self._term_length + 1 - self._first_term)
        """Terms by number from the first one on: the last that is known to begin before, the first that does not."""
        self._verdict: bool | None = None

    def _begin_of(self, term: int) -> int:
        return (self._first_term + term) * self._term_length

    @property
    def position(self) -> int | None:
        return None if self._low < 0 else self._begin_of(self._low)

    def work(self) -> bool:
        """Take a step; return whether `position` is known now. A source that ends meanwhile stays as it is."""
        source, middle = self.source, (self._low + self._high) // 2
        if source.state is SourceState.READY:
            if self._high - self._low <= 1:
                return True
            begin = self._begin_of(middle)
            source.begin(begin, min(PROBE_LENGTH_BYTES, source.end_position - begin))
        elif source.state is SourceState.REPLAYING:
            source.poll(self._on_record, FRAGMENTS_PER_LOOK)
            if self._verdict is not None:
                self._low, self._high = (middle, self._high) if self._verdict else (self._low, middle)
                self._verdict = None
                source.rewind()
        return False

    def _on_record(self, _position: int, record: bytes) -> None:
        if self._verdict is None and not self.source.is_ended:
            try:
                self._verdict = self._is_before(record)
            except DecodeError as error:
                self.source.end(error.message)

"""Finds the position of a number or a time in a log, by its index.

The index is a hint. Every answer is compared with the log: the record at the place must be the one that was indexed,
and from the place before it to this one the log must have as many messages, and end with the time, that the index says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ordo.archive.segments.reader import RecordingReader
from ordo.cluster.wire.log_index.entries import (
    ENTRY_BYTES,
    ORDINAL_MASK,
    UNNUMBERED_MAX,
    EntryFlag,
    IndexEntry,
    decode_entry,
    decode_header,
)
from ordo.cluster.wire.log_index.walk import LogWalk, first_checksum
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.native.cluster_time import time_ns

WALK_BYTES_MAX = 1024 * 1024
"""The most log that is read from one place on, and one record more. Where places lie farther apart nothing is told."""
LATEST_NS = (1 << 63) - 2
"""The latest time that is looked for; what is asked for may be any number."""


class Place(NamedTuple):
    """A position where a record begins, with the last number, and the newest time, before it."""

    position: int
    sequence: int
    timestamp: int
    is_kept: bool
    """Whether the log has the protocol level of numbers."""


class IndexFault(OrdoError):
    """The index does not agree with its log, or is damaged."""


class LogIndex:
    """The index of one recording. A look opens the file and the log, and closes them."""

    def __init__(
        self,
        path: str,
        recording_id: int,
        open_log: Callable[[int | None], RecordingReader],
        walk_bytes_max: int = WALK_BYTES_MAX,
    ) -> None:
        """`open_log`: a reader of the log from a position; None: from where it begins."""
        self._path = path
        self._recording_id = recording_id
        self._open_log = open_log
        self._walk_bytes_max = walk_bytes_max

    def before_sequence(self, sequence: int) -> Place | None:
        """Return the last place before the message of a number; None where the index has none.

        Raises IndexFault.
        """
        with self._look() as look:
            entry = look.last_before(sequence=sequence)
            if entry is None or entry.flags & EntryFlag.UNCOUNTED or entry.position < look.start_position:
                return None
            return _place(entry) if look.verify(entry) else None

    def find_sequence(self, sequence: int) -> int | None:
        """Return where the message of a number begins; None where the index cannot tell. Raises IndexFault."""
        with self._look() as look:
            entry = look.last_before(sequence=sequence)
            if entry is None or entry.flags & EntryFlag.UNCOUNTED or entry.position < look.start_position:
                return None
            after, unnumbered = look.next_place(entry)
            if after is None or after.flags & EntryFlag.BEGINS or after.sequence < sequence:
                return None
            if not look.verify(entry):
                return None
            walk = look.walk_from(entry, unnumbered)
            found = walk.walk(after.position, sequence)
            if walk.is_exhausted:
                return None
            if found < 0:
                raise look.fault(entry, f"number {sequence} is not before position={after.position}")
            return found

    def find_time(self, timestamp: int, limit_position: int) -> int | None:
        """Return where the first record begins that is not older than a time; None where the index cannot tell.

        `timestamp`: in the unit that its size tells, which need not be the log's.

        `limit_position`: up to where the log is committed; that is the answer where all of it is older. Raises
        IndexFault.
        """
        wanted_ns = min(time_ns(timestamp), LATEST_NS)
        with self._look() as look:
            entry = look.last_before(time=wanted_ns)
            if entry is None:
                first = look.entry(0)
                return 0 if first is not None and first.position == look.start_position == 0 else None
            if entry.position < look.start_position or not look.verify(entry):
                return None
            after, _ = look.next_place(entry)
            end = limit_position if after is None else after.position
            walk = look.walk_from(entry, set())
            found = walk.walk(end, time_ns=wanted_ns)
            if found >= 0:
                return found
            if walk.is_exhausted:
                return None
            if after is not None:
                raise look.fault(entry, f"nothing up to position={end} is as new as it says")
            return limit_position

    def check(self, known: Mapping[int, int]) -> int:
        """Compare every place with the log, and with numbers that are known otherwise; return how many were compared.

        `known`: the last number at a position, which is looked for among the places. Raises IndexFault.
        """
        count = 0
        with self._look() as look:
            for ordinal in range(look.count):
                entry = look.read(ordinal)
                if not entry.is_place or entry.position < look.start_position:
                    continue
                count += look.verify(entry)
                expected = known.get(entry.position, entry.sequence)
                if expected != entry.sequence and not entry.flags & EntryFlag.UNCOUNTED:
                    raise look.fault(entry, f"a snapshot has {expected} as the number before it, not {entry.sequence}")
        return count

    def entries(self) -> Iterator[IndexEntry]:
        """Iterate over all entries, in order. Raises IndexFault at a damaged one."""
        with self._look() as look:
            for ordinal in range(look.count):
                yield look.read(ordinal)

    @contextmanager
    def _look(self) -> Iterator[_Look]:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise IndexFault(f"the log has no index: {error}") from None
        try:
            first_ordinal = decode_header(os.pread(fd, ENTRY_BYTES, 0), self._recording_id)
            if first_ordinal is None:
                raise IndexFault(f"{self._path} is no index of recording {self._recording_id}")
            yield _Look(self._path, fd, first_ordinal, self._open_log, self._walk_bytes_max)
        except (ArchiveError, OSError) as error:  # damage of the log is found, and told, by its own readers
            raise IndexFault(f"{self._path}: the log cannot be compared: {error}") from None
        finally:
            os.close(fd)


class _Look:
    """One look into the file."""

    def __init__(
        self,
        path: str,
        fd: int,
        first_ordinal: int,
        open_log: Callable[[int | None], RecordingReader],
        walk_bytes_max: int,
    ) -> None:
        self._path = path
        self._fd = fd
        self._first_ordinal = first_ordinal
        self._open_log = open_log
        self._walk_bytes_max = walk_bytes_max
        self.start_position = open_log(None).start_position
        self.count = max(0, os.fstat(fd).st_size // ENTRY_BYTES - 1)
        while self.count and decode_entry(self._bytes(self.count - 1)) is None:
            self.count -= 1
            if self.count and decode_entry(self._bytes(self.count - 1)) is None:
                raise IndexFault(f"{path}: entries {self.count - 1} and {self.count} are damaged: build it again")

    def _bytes(self, at: int) -> bytes:
        return os.pread(self._fd, ENTRY_BYTES, ENTRY_BYTES * (1 + at))

    def entry(self, at: int) -> IndexEntry | None:
        """Return an entry; None where there is none."""
        return self.read(at) if 0 <= at < self.count else None

    def read(self, at: int) -> IndexEntry:
        found = decode_entry(self._bytes(at))
        if found is None or found.ordinal != (self._first_ordinal + at) & ORDINAL_MASK:
            raise IndexFault(f"{self._path}: entry {at} is damaged: build it again")
        return found

    def _at(self, entry: IndexEntry) -> int:
        """Return where an entry is in the file."""
        return (entry.ordinal - self._first_ordinal) & ORDINAL_MASK

    def fault(self, entry: IndexEntry, what: str) -> IndexFault:
        return IndexFault(f"{self._path}: entry {self._at(entry)} does not agree with the log: {what}: build it again")

    def last_before(self, *, sequence: int | None = None, time: int | None = None) -> IndexEntry | None:
        """Return the last place with a lower number, or an older time, in nanoseconds."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            found = self.read(middle)
            is_before = found.sequence < sequence if sequence is not None else time_ns(found.timestamp) < (time or 0)
            low, high = (middle + 1, high) if is_before else (low, middle)
        return self._place_up_to(low - 1)

    def _place_up_to(self, at: int) -> IndexEntry | None:
        for one in range(at, max(-1, at - UNNUMBERED_MAX - 1), -1):
            found = self.read(one)
            if found.is_place:
                return found
        return None

    def next_place(self, entry: IndexEntry) -> tuple[IndexEntry | None, set[int]]:
        """Return the next place, and where messages end before it that have no number."""
        unnumbered: set[int] = set()
        first = self._at(entry) + 1
        for at in range(first, min(self.count, first + UNNUMBERED_MAX + 1)):
            found = self.read(at)
            if found.is_place:
                return found, unnumbered
            unnumbered.add(found.position)
        return None, unnumbered

    def walk_from(self, entry: IndexEntry, unnumbered: set[int]) -> LogWalk:
        log = self._open_log(entry.position)
        return LogWalk(log, entry.sequence, entry.timestamp, unnumbered, self._walk_bytes_max)

    def verify(self, entry: IndexEntry) -> bool:
        """Compare a place with the log, back to the place before it: False where that is too far. Raises IndexFault."""
        if first_checksum(self._open_log(entry.position)) != entry.record_checksum:
            raise self.fault(entry, f"another record begins at position={entry.position}")
        if not 0 <= entry.sequence <= entry.position:
            raise self.fault(entry, f"{entry.sequence} messages cannot be before position={entry.position}")
        before = self._place_up_to(self._at(entry) - 1)
        is_beginning = bool(entry.flags & EntryFlag.BEGINS)
        if before is None:
            if not is_beginning:
                raise self.fault(entry, "there is no place before it")
        elif entry.sequence < before.sequence or time_ns(entry.timestamp) < time_ns(before.timestamp):
            raise self.fault(entry, f"entry {self._at(before)} has a higher number, or a newer time")
        elif not is_beginning and before.position >= self.start_position:
            return self._verify_between(before, entry)
        return True

    def _verify_between(self, before: IndexEntry, entry: IndexEntry) -> bool:
        if entry.position <= before.position:
            raise self.fault(entry, f"the place before it is at position={before.position}")
        _, unnumbered = self.next_place(before)
        walk = self.walk_from(before, unnumbered)
        walk.walk(entry.position)
        if walk.is_exhausted:
            return False
        if walk.first_checksum != before.record_checksum or walk.end_position != entry.position:
            raise self.fault(entry, f"no record ends at position={entry.position}")
        if walk.timestamp != entry.timestamp:
            raise self.fault(entry, f"the time before it is {walk.timestamp}, not {entry.timestamp}")
        is_counted = not (before.flags | entry.flags) & EntryFlag.UNCOUNTED
        if is_counted and walk.sequence != entry.sequence:
            raise self.fault(entry, f"the number before it is {walk.sequence}, not {entry.sequence}")
        return True


def _place(entry: IndexEntry) -> Place:
    return Place(entry.position, entry.sequence, entry.timestamp, bool(entry.flags & EntryFlag.KEPT))

"""Writes a log's index as the log is executed.

Only what is executed is indexed, hence only what is committed, which is never truncated. The file is not synced: after
a loss of power it may end earlier, or in damage, and goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from ordo.archive.segments.reader import RecordingReader
from ordo.cluster.wire.log_index.entries import (
    ENTRY_BYTES,
    EntryFlag,
    EntryType,
    IndexEntry,
    decode_entry,
    encode_entry,
    encode_header,
    is_header,
)
from ordo.cluster.wire.log_index.index_counters import IndexCounters
from ordo.cluster.wire.log_index.walk import count_valid, first_checksum
from ordo.runtime.errors import OrdoError

ENTRIES_COMPARED_MAX = 4096
"""How far back a start looks for a place that the log reaches."""
ENTRIES_BETWEEN_LOOKS = 64
"""So often it is looked again from where on there is log."""
OpenLog = Callable[[int | None], RecordingReader]
"""A reader of the log from a position; None: from where it begins."""


class IndexWriter:
    """The one writer of the file. It fails alone: what it cannot write it tells once, and writes no more."""

    def __init__(self, path: str, on_error: Callable[[Exception], object]) -> None:
        self._path = path
        self._on_error = on_error
        self._fd = -1
        self._count = 0
        self._last: IndexEntry | None = None
        self._has_gap = False
        self._shown: IndexCounters | None = None
        self._open_log: OpenLog | None = None

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def last(self) -> IndexEntry | None:
        """The last entry of the file."""
        return self._last

    def begin(self, recording_id: int, position: int, open_log: OpenLog, shown: IndexCounters | None = None) -> None:
        """Go on with the file, where it is of this log; else begin it anew.

        `position`: of the log, from where on entries come. `shown`: where it is shown what the file covers.
        """
        self._shown, self._open_log = shown, open_log
        try:
            self._open(recording_id)
            if not self._is_of_log(open_log):
                self._empty(recording_id)
        except OSError as error:
            self._fail(error)
            return
        self._has_gap = self._last is None or self._last.position < position
        self._show()

    def _open(self, recording_id: int) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        with open(self._path, "rb") as file:
            data = file.read()
        if not is_header(data, recording_id):
            self._empty(recording_id)
            return
        self._count = count_valid(memoryview(data)[ENTRY_BYTES:], ENTRY_BYTES)
        end = ENTRY_BYTES * (1 + self._count)
        self._last = decode_entry(data[end - ENTRY_BYTES : end]) if self._count else None
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)

    def _is_of_log(self, open_log: OpenLog) -> bool:
        """Return whether the newest place that the log reaches has its record there."""
        if self._last is None:
            return True
        for ordinal in range(self._count - 1, max(-1, self._count - 1 - ENTRIES_COMPARED_MAX), -1):
            entry = self._read(ordinal)
            if entry is None or entry.ordinal != ordinal & 0xFFFFFFFF:
                return False
            if entry.is_place:
                try:
                    found = first_checksum(open_log(entry.position))
                except OrdoError:  # let go, damaged, or another log: nothing tells that it is this one
                    return False
                if found >= 0:
                    return found == entry.record_checksum
        return False

    def _read(self, ordinal: int) -> IndexEntry | None:
        if ordinal < 0:
            return None
        return decode_entry(os.pread(self._fd, ENTRY_BYTES, ENTRY_BYTES * (1 + ordinal)))

    def _empty(self, recording_id: int) -> None:
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._count, self._last = 0, None
        self._write(encode_header(recording_id))

    def note_place(
        self, position: int, sequence: int, timestamp: int, record_checksum: int, *, is_counting: bool, is_kept: bool
    ) -> None:
        """Note where a record begins, with the last number and the newest time before it."""
        flags = EntryFlag(0)
        if self._has_gap:
            flags |= EntryFlag.BEGINS
        if is_kept:
            flags |= EntryFlag.KEPT
        if not is_counting:
            flags |= EntryFlag.UNCOUNTED
        self._put(EntryType.PLACE, position, sequence, timestamp, record_checksum, flags)

    def note_unnumbered(self, position: int, sequence: int, timestamp: int) -> None:
        """Note where a message ends that has no number."""
        self._put(EntryType.UNNUMBERED, position, sequence, timestamp, 0, EntryFlag(0))

    def _put(
        self, kind: EntryType, position: int, sequence: int, timestamp: int, record_checksum: int, flags: EntryFlag
    ) -> None:
        last = self._last
        if self._fd < 0 or (last is not None and (position, kind) <= (last.position, last.type)):
            return
        if last is not None:
            sequence = max(sequence, last.sequence)
        entry = IndexEntry(position, sequence, timestamp, record_checksum, self._count & 0xFFFFFFFF, kind, flags)
        try:
            self._write(encode_entry(entry))
        except OSError as error:
            self._fail(error)
            return
        self._last, self._count, self._has_gap = entry, self._count + 1, False
        if self._shown is not None:
            if self._count % ENTRIES_BETWEEN_LOOKS == 1:
                self._show()
            self._shown.set_max(entry)

    def _show(self) -> None:
        """Show what the file covers, and what of that is still in the log."""
        if self._shown is None or self._open_log is None:
            return
        self._shown.set_initial(self._read(0))
        self._shown.set_max(self._last)
        try:
            start = self._open_log(None).start_position
        except OrdoError:  # its readers find out what is wrong with it
            return
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            entry = self._read(middle)
            low, high = (middle + 1, high) if entry is None or entry.position < start else (low, middle)
        self._shown.set_min(self._read(low) if low < self._count else None)

    def _write(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        if written != len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")

    def _fail(self, error: OSError) -> None:
        """Give up: readers find an index that ends here, which the next start goes on with."""
        self.close()
        self._on_error(OrdoError(f"the log's index {self._path} is not written any more: {error}"))

    def close(self) -> None:
        """Close the file. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # what it has not taken is read as a file that ends earlier
                os.close(fd)

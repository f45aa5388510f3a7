"""The file of a log's index, as its one writer has it (docs/spec/log-index.md). It is not synced."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from ordo.cluster.wire.log_index.entries import (
    ENTRY_BYTES,
    ORDINAL_MASK,
    UNNUMBERED_MAX,
    IndexEntry,
    decode_entry,
    decode_header,
    encode_entry,
    encode_header,
)
from ordo.cluster.wire.log_index.walk import count_valid

BLOCK_BYTES = 4096 * ENTRY_BYTES
"""What is read or copied at once: memory does not grow with the file."""


class IndexFile:
    """The valid entries of the file, from its beginning on; what is behind them is cut off. Methods raise OSError."""

    def __init__(self, path: str, recording_id: int) -> None:
        self.count = 0
        self.last: IndexEntry | None = None
        self._path = path
        self._recording_id = recording_id
        self._first_ordinal = 0
        with suppress(FileNotFoundError):
            os.remove(self._new_path)  # of a process that died while it copied
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            self._load()
        except OSError:
            self.close()
            raise

    @property
    def _new_path(self) -> str:
        return f"{self._path}.part"

    def _load(self) -> None:
        first_ordinal = decode_header(os.pread(self._fd, ENTRY_BYTES, 0), self._recording_id)
        if first_ordinal is None:
            os.ftruncate(self._fd, 0)
            self._write(self._fd, encode_header(self._recording_id))
            return
        self._first_ordinal = first_ordinal
        count = 0
        while data := os.pread(self._fd, BLOCK_BYTES, ENTRY_BYTES * (1 + count)):
            found = count_valid(data, (first_ordinal + count) & ORDINAL_MASK)
            count += found
            if found * ENTRY_BYTES < BLOCK_BYTES:
                break
        self.cut(count)

    def read(self, at: int) -> IndexEntry:
        found = decode_entry(os.pread(self._fd, ENTRY_BYTES, ENTRY_BYTES * (1 + at)))
        if found is None:
            raise OSError(f"entry {at} has changed on disk")
        return found

    def place_up_to(self, at: int) -> int:
        """Return which entry is the last place up to one; -1: none, or too many others are between."""
        for one in range(at, max(-1, at - UNNUMBERED_MAX - 1), -1):
            if self.read(one).is_place:
                return one
        return -1

    def first_from(self, position: int) -> int:
        """Return which entry is the first that is not below a position; `count` where all are."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.read(middle).position < position else (low, middle)
        return low

    def cut(self, count: int) -> None:
        """Keep this many entries."""
        end = ENTRY_BYTES * (1 + count)
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)
        self.count = count
        self.last = self.read(count - 1) if count else None

    def append(self, entries: Iterable[IndexEntry]) -> None:
        """Write entries behind the last one, at once; they get their ordinals."""
        base = self._first_ordinal + self.count
        found = [one._replace(ordinal=(base + at) & ORDINAL_MASK) for at, one in enumerate(entries)]
        self._write(self._fd, b"".join(map(encode_entry, found)))
        self.count += len(found)
        self.last = found[-1]

    def let_go(self, count: int) -> None:
        """Drop this many entries from the beginning on. The file is replaced; readers go on in the former one."""
        first_ordinal = (self._first_ordinal + count) & ORDINAL_MASK
        fd = os.open(self._new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            self._write(fd, encode_header(self._recording_id, first_ordinal))
            offset, end = ENTRY_BYTES * (1 + count), ENTRY_BYTES * (1 + self.count)
            while offset < end:
                data = os.pread(self._fd, min(BLOCK_BYTES, end - offset), offset)
                if not data:
                    raise OSError("the file has become shorter")
                self._write(fd, data)
                offset += len(data)
            os.replace(self._new_path, self._path)
        except OSError:
            os.close(fd)
            with suppress(OSError):
                os.remove(self._new_path)  # the log beside it needs the room
            raise
        os.close(self._fd)
        self._fd, self._first_ordinal = fd, first_ordinal
        self.count -= count

    def _write(self, fd: int, data: bytes) -> None:
        written = os.write(fd, data)
        if written != len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")

    def close(self) -> None:
        """Close the file. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # what it has not taken is read as a file that ends earlier
                os.close(fd)

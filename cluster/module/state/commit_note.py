"""The commit position that a member knew, as it survives a crash: what the member must never give up.

The store knows it only up to the newest snapshot. This file is written from the slow tick, and not synced: it outlives
the process, and after a loss of power it may say less than it did, never more.

    committed.dat, two slots of 32 bytes, written in turn so that a torn write leaves the other:
      0 i64 position    8 i64 sequence, from 1    16 u32 CRC-32 of bytes [0, 16)    20 filler
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ordo.consensus.state.distrust import Distrust

if TYPE_CHECKING:
    from ordo.runtime.io.storage import SegmentFile, Storage

COMMIT_NOTE_NAME = "committed.dat"
INTERVAL_NS = 100_000_000
_BODY = struct.Struct("<qq")
_SLOT = struct.Struct("<qqI12x")
_LENGTH = 2 * _SLOT.size


class CommitNote:
    """The file in a member's cluster folder. `known_position`: what it said at the start; 0 where there was none."""

    def __init__(self, storage: Storage, directory: str) -> None:
        path = f"{directory}/{COMMIT_NOTE_NAME}"
        is_new = not storage.exists(path)
        self._file: SegmentFile = storage.open_segment(path, _LENGTH, create=is_new)
        if is_new:
            self._file.write_bytes(bytes(_LENGTH), 0)  # takes its room on the disk
            storage.sync_directory(directory)
        self._sequence, self.known_position = _newest(self._file.read_bytes(_LENGTH, 0))
        self._position = self.known_position
        self._due_ns = 0

    def raise_to(self, position: int, now_ns: int) -> None:
        """Note that the log is committed up to a position; called with every slow tick."""
        if position > self._position and now_ns >= self._due_ns:
            self._due_ns = now_ns + INTERVAL_NS
            self.put(position)

    def put(self, position: int) -> None:
        """Set the commit position, even below an earlier one whose log the member has lost."""
        self._sequence += 1
        self._position = position
        body = _BODY.pack(position, self._sequence)
        slot = _SLOT.pack(position, self._sequence, zlib.crc32(body))
        self._file.write_bytes(slot, self._sequence % 2 * _SLOT.size)

    def on_distrust(self, distrust: Distrust, commit_position: int) -> None:
        """Note what the member lacks: once its log is whole again, only what is committed by then counts."""
        if Distrust.LOG not in distrust:
            self.put(commit_position)

    def close(self) -> None:
        self._file.close()


def _newest(content: bytes) -> tuple[int, int]:
    """Return sequence and position of the newest whole slot; (0, 0) where there is none."""
    found = [(0, 0)]
    for position, sequence, checksum in _SLOT.iter_unpack(content):
        if sequence > 0 and position >= 0 and zlib.crc32(_BODY.pack(position, sequence)) == checksum:
            found.append((sequence, position))
    return max(found)

"""The commit position that a member knew, in a file that survives a crash: log below it must never be given up.

The store knows it only up to the newest snapshot. This file is mapped into memory, and each advance of the commit
position is stored there before anybody is told of it (sequencer/commit_slots.pyx): it outlives the process to the
byte. What raises it is not synced: after a loss of power it may say less than it did, never more, and the hints in the
log's records say the rest (state/recovery.py).

    committed.dat, two slots of 32 bytes, written in turn so that a torn write leaves the other:
      0 i64 position    8 i64 sequence, from 1    16 u32 CRC-32 of bytes [0, 16)    20 filler
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ordo.consensus.state.distrust import Distrust
from ordo.sequencer.commit_slots import CommitSlots

if TYPE_CHECKING:
    from pathlib import Path

    from ordo.runtime.io.storage import SegmentFile, Storage

COMMIT_NOTE_NAME = "committed.dat"
SEQUENCE_MAX = 1 << 62
_BODY = struct.Struct("<qq")
_SLOT = struct.Struct("<qqI12x")
_LENGTH = 2 * _SLOT.size


class CommitNote:
    """The file in a member's cluster folder. `known_position`: its value at the start, or 0."""

    def __init__(self, storage: Storage, directory: str) -> None:
        path = f"{directory}/{COMMIT_NOTE_NAME}"
        is_new = not storage.exists(path)
        self._file: SegmentFile = storage.open_segment(path, _LENGTH, create=is_new)
        content = b"" if is_new else self._file.read_bytes(_LENGTH, 0)
        if len(content) < _LENGTH:  # takes its room on the disk; a crash may have left a file without it
            missing = bytes(_LENGTH - len(content))
            self._file.write_bytes(missing, len(content))
            content += missing
            storage.sync_directory(directory)
        sequence, self.known_position = newest_slot(content)
        self.slots = CommitSlots(self._file.map(), sequence, self.known_position)
        """What the Sequencer raises."""

    def put(self, position: int) -> None:
        """Set the commit position, even below an earlier one whose log the member has lost."""
        self.slots.put(position)

    def hold(self, distrust: Distrust) -> None:
        """Stop raising the position while a part of the log is missing, so that it still shows how much is missing."""
        self.slots.is_held = Distrust.LOG in distrust

    def release(self, distrust: Distrust, commit_position: int) -> None:
        """Raise the position again once no part of the log is missing; what is committed by then is what counts.

        Called before the store says so.
        """
        if self.slots.is_held and Distrust.LOG not in distrust:
            self.slots.is_held = False
            self.put(commit_position)

    def sync(self) -> None:
        """Have it survive a loss of power as well. Needed where it is lowered: what was before must not come back."""
        self._file.sync_now()

    def close(self) -> None:
        self.slots.close()
        self._file.close()


def newest_slot(content: bytes) -> tuple[int, int]:
    """Return sequence and position of the newest complete slot, or (0, 0)."""
    found = [(0, 0)]
    for position, sequence, checksum in _SLOT.iter_unpack(content):
        is_whole = zlib.crc32(_BODY.pack(position, sequence)) == checksum
        if is_whole and 0 < sequence < SEQUENCE_MAX and position >= 0:
            found.append((sequence, position))
    return max(found)


def read_noted_position(storage: Storage, directory: str) -> int:
    """Return the position in the file of a member that does not run, which stays as it is; 0 where there is none."""
    path = f"{directory}/{COMMIT_NOTE_NAME}"
    if not storage.exists(path):
        return 0
    with storage.open_segment(path, _LENGTH, writable=False) as file:
        content = file.read_bytes(_LENGTH, 0)
    return newest_slot(content)[1] if len(content) == _LENGTH else 0


def noted_position(path: Path) -> int:
    """Return the position in the file of a member that does not run, or 0 where it is missing or not whole."""
    content = path.read_bytes() if path.exists() else b""
    return 0 if len(content) % _SLOT.size else newest_slot(content)[1]

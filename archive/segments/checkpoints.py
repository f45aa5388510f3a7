"""Checkpoints: how far each active recording was known to be durable, which tells a torn end from damage after a crash.

A frame that is not whole above the checkpoint was being written when the crash came; below it, it had been acknowledged
and has been damaged since. The file is written about once a second from the duty cycle and synced on the sync queue.

    checkpoints.dat, 64 pairs of slots, 32 bytes a slot, written in turn so that a torn write leaves the other:
      0 i64 recording id    8 i64 position    16 i64 sequence, from 1    24 u32 CRC-32 of bytes [0, 24)    28 u32 0
"""

import struct
import zlib
from typing import Any

from ordo.runtime.io.storage import Storage

CHECKPOINTS_NAME = "checkpoints.dat"
CHECKPOINT_INTERVAL_NS = 1_000_000_000
PAIRS = 64

_BODY = struct.Struct("<qqq")
_SLOT = struct.Struct("<qqqII")
_LENGTH = PAIRS * 2 * _SLOT.size


class Checkpoints:
    """The checkpoint file of one archive folder; `queue` is the sync queue."""

    def __init__(self, storage: Storage, directory: str, queue: Any) -> None:
        path = f"{directory}/{CHECKPOINTS_NAME}"
        is_new = not storage.exists(path)
        self._file = storage.open_segment(path, _LENGTH, create=is_new)
        if is_new:
            storage.sync_directory(directory)
        self._queue = queue
        self._sequence = max((sequence for _, _, _, sequence in self._slots()), default=0)
        self._written: dict[int, int] = {}
        self._due_ns = 0

    @staticmethod
    def load(storage: Storage, directory: str) -> dict[int, int]:
        """Return the durable position by recording id, as a crash left it; {} when there is no file."""
        path = f"{directory}/{CHECKPOINTS_NAME}"
        if not storage.exists(path):
            return {}
        with storage.open_segment(path, _LENGTH) as file:
            content = file.read_bytes(_LENGTH, 0)
        found: dict[int, int] = {}
        for _, recording_id, position, _ in _decode(content):
            found[recording_id] = max(position, found.get(recording_id, 0))
        return found

    def _slots(self) -> list[tuple[int, int, int, int]]:
        return _decode(self._file.read_bytes(_LENGTH, 0))

    def note(self, recordings: list[Any], now_ns: int) -> None:
        """Write the durable positions of the active recordings that moved, when it is time again."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + CHECKPOINT_INTERVAL_NS
        moved = False
        active = {recording.recording_id for recording in recordings}
        self._written = {key: position for key, position in self._written.items() if key in active}
        for index, recording in enumerate(recordings):
            if recording.durable_position > self._written.get(recording.recording_id, recording.start_position):
                self._write(index, recording.recording_id, recording.durable_position)
                moved = True
        if moved:
            self._queue.request_sync(self._file)

    def _write(self, index: int, recording_id: int, position: int) -> None:
        self._sequence += 1
        body = _BODY.pack(recording_id, position, self._sequence)
        slot = index * 2 + self._sequence % 2
        self._file.write_bytes(body + struct.pack("<II", zlib.crc32(body), 0), slot * _SLOT.size)
        self._written[recording_id] = position

    def forget(self, recording_id: int) -> None:
        """Forget a recording's checkpoint, durably; must be called before its positions may decrease."""
        self._written.pop(recording_id, None)
        slots = [slot for slot, found, _, _ in self._slots() if found == recording_id]
        for slot in slots:
            self._file.write_bytes(bytes(_SLOT.size), slot * _SLOT.size)
        if slots:
            self._file.sync_now()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _decode(content: bytes) -> list[tuple[int, int, int, int]]:
    """Return (slot, recording id, position, sequence) of every whole slot."""
    found = []
    for slot, (recording_id, position, sequence, checksum, _) in enumerate(
        _SLOT.iter_unpack(content.ljust(_LENGTH, b"\0"))
    ):
        if sequence and checksum == zlib.crc32(_BODY.pack(recording_id, position, sequence)):
            found.append((slot, recording_id, position, sequence))
    return found

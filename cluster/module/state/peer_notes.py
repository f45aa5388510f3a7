"""What the other members had acknowledged, as a crash of this one leaves it: by it, older data of theirs is found.

    standings.dat, ROWS_MAX rows of 48 bytes, one for each member that was heard:
      0 i32 member id    4 u32 CRC-32 of bytes [8, 40) and of the member id    8 i64 start number    16 i64 start draw
      24 i64 term id    32 i64 position    40 filler

It is not synced: it outlives the process, and a loss of power may leave less than was known, never more. A row counts
only with the start of the member that the store has, which is synced: once a member was admitted as one that lost its
log, what is left here of an earlier start of it is nothing.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ordo.cluster.module.state.folder_rows import Start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ordo.runtime.io.storage import SegmentFile, Storage

PEER_NOTES_NAME = "standings.dat"
ROWS_MAX = 64
Point = tuple[int, int]
"""A leadership term, and a position of the log in it: what was acknowledged in a term stays in the log for as long as
the member is bound to that term."""
_BODY = struct.Struct("<qqqq")
_ROW = struct.Struct("<iI32s8x")
_LENGTH = ROWS_MAX * _ROW.size


class PeerNotes:
    """The file in a member's cluster folder."""

    def __init__(self, storage: Storage, directory: str) -> None:
        path = f"{directory}/{PEER_NOTES_NAME}"
        is_new = not storage.exists(path)
        self._file: SegmentFile = storage.open_segment(path, _LENGTH, create=is_new)
        if is_new:
            self._file.write_bytes(bytes(_LENGTH), 0)  # takes its room on the disk
            storage.sync_directory(directory)
        self._slots: dict[int, int] = {}
        self._found: dict[int, tuple[Start, Point]] = {}
        for slot, member_id, start, point in _rows(self._file):
            self._slots[member_id] = slot
            self._found[member_id] = (start, point)

    def load(self, starts: Mapping[int, Start]) -> dict[int, Point]:
        """Return what members are known to have acknowledged, for members whose newest start is the one in `starts`."""
        return {one: point for one, (start, point) in self._found.items() if starts.get(one) == start}

    def put(self, member_id: int, start: Start, point: Point) -> None:
        """Note what a member has acknowledged, in this start or an earlier one. At most ROWS_MAX members are kept."""
        if member_id not in self._slots:
            free = set(range(ROWS_MAX)) - set(self._slots.values())
            if not free:
                return
            self._slots[member_id] = min(free)
        slot = self._slots[member_id]
        body = _BODY.pack(*start, *point)
        self._file.write_bytes(_ROW.pack(member_id, _checksum(member_id, body), body), slot * _ROW.size)

    def close(self) -> None:
        self._file.close()


def read_notes(storage: Storage, directory: str, starts: Mapping[int, Start]) -> dict[int, Point]:
    """Return what `PeerNotes.load` does, of a member that does not run; its file stays as it is."""
    path = f"{directory}/{PEER_NOTES_NAME}"
    if not storage.exists(path):
        return {}
    with storage.open_segment(path, _LENGTH, writable=False) as file:
        return {one: point for _, one, start, point in _rows(file) if starts.get(one) == start}


def _rows(file: SegmentFile) -> Iterator[tuple[int, int, Start, Point]]:
    """Yield slot, member id, start and point of each whole row."""
    content = file.read_bytes(_LENGTH, 0).ljust(_LENGTH, b"\0")  # a crash may have left a shorter one
    for slot, (member_id, checksum, body) in enumerate(_ROW.iter_unpack(content)):
        if checksum == _checksum(member_id, body) and any(body):
            number, draw, term_id, position = _BODY.unpack(body)
            yield slot, member_id, Start(number, draw), (term_id, position)


def _checksum(member_id: int, body: bytes) -> int:
    return zlib.crc32(body, member_id & 0xFFFFFFFF)

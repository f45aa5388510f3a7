"""The file of a log's index: a header and entries of one length, each with its checksum (docs/spec/log-index.md)."""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple

from ordo.cluster.wire.log_index.walk import checksum

FILE_NAME = "log.index"
"""The file in a member's cluster folder."""
MAGIC = b"ORDOLIDX"
VERSION = 1
SPACING_BYTES = 128 * 1024
"""The bytes of log between two places; a batch of the container's more, at the most."""
_CHECKSUM = struct.Struct("<I")
_HEADER = struct.Struct("<8sHHIqI8x")
_ENTRY = struct.Struct("<qqqIIHH")
ENTRY_BYTES = _ENTRY.size + _CHECKSUM.size
assert _HEADER.size + _CHECKSUM.size == ENTRY_BYTES
ORDINAL_MASK = 0xFFFFFFFF
UNNUMBERED_MAX = 256
"""The most entries between two places, which are of messages without a number."""


class EntryType(IntEnum):
    """What an entry is about. Where two have one position, the lower one comes first."""

    UNNUMBERED = 1
    """A message ends here that has no number: a copy that is not executed, or one of no session."""
    PLACE = 2
    """A record begins here."""


class EntryFlag(IntFlag):
    """What else is known of a place."""

    BEGINS = 1
    """Nothing is known of the log between the entry before and this one."""
    UNCOUNTED = 2
    """Messages have no numbers here; `sequence` is the last number before."""
    KEPT = 4
    """The log has the protocol level of numbers."""


class IndexEntry(NamedTuple):
    """A position of the log, with the last number and the newest time up to there."""

    position: int
    sequence: int
    timestamp: int
    record_checksum: int
    """CRC32C of the record that begins at a place; 0 for other entries."""
    ordinal: int
    """One more than that of the entry before; the header has the first one's."""
    type: int
    flags: int

    @property
    def is_place(self) -> bool:
        return self.type == EntryType.PLACE


def encode_header(recording_id: int, first_ordinal: int = 0) -> bytes:
    body = _HEADER.pack(MAGIC, VERSION, ENTRY_BYTES, SPACING_BYTES, recording_id, first_ordinal)
    return body + _CHECKSUM.pack(checksum(body))


def decode_header(data: bytes, recording_id: int) -> int | None:
    """Return the first entry's ordinal; None if no index of this recording, and this version, begins so."""
    if len(data) < ENTRY_BYTES or _CHECKSUM.unpack_from(data, _HEADER.size)[0] != checksum(data[: _HEADER.size]):
        return None
    magic, version, entry_bytes, _, of_recording, first_ordinal = _HEADER.unpack_from(data)
    is_one = (magic, version, entry_bytes, of_recording) == (MAGIC, VERSION, ENTRY_BYTES, recording_id)
    return first_ordinal if is_one else None


def encode_entry(entry: IndexEntry) -> bytes:
    body = _ENTRY.pack(*entry)
    return body + _CHECKSUM.pack(checksum(body))


def decode_entry(data: bytes) -> IndexEntry | None:
    """Return the entry in these bytes; None if they are damaged."""
    if len(data) != ENTRY_BYTES or _CHECKSUM.unpack_from(data, _ENTRY.size)[0] != checksum(data[: _ENTRY.size]):
        return None
    return IndexEntry(*_ENTRY.unpack_from(data))

"""The export of the files that Aeron's tools need to read an archive folder (archive.md B2, B6)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from ordo.archive.inspection.recording_inspection import default_storage, list_recordings
from ordo.archive.protocol.codecs import RECORDING_DESCRIPTOR
from ordo.archive.segments.catalog import CATALOG_NAME as CATALOG_STORE_NAME
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import StorageError, StorageExistsError
from ordo.runtime.io.durable_files import write_durably
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import ASCII, Message

CATALOG_NAME = "archive.catalog"
MARK_FILE_NAME = "archive-mark.dat"
ACTIVITY_OFFSET = 16
FILE_VERSION = 0x030100
ENTRY_ALIGNMENT = 64
CATALOG_LENGTH_MIN = 1024 * 1024
MARK_HEADER_LENGTH = 8192
ERROR_BUFFER_LENGTH = 1024 * 1024
INACTIVE = -1
ACTIVITY_TIMEOUT_MS = 10_000
"""An archive that has shown no life for so long has ended."""

_CATALOG_HEADER = struct.Struct("<iiqi11xb")
_ENTRY_HEADER = struct.Struct("<iii19xb")
MARK_HEADER = Message(
    "MarkFileHeader",
    200,
    100,
    2,
    fields=[
        ("version", "i32"), ("", "pad4"), ("activity_timestamp", "i64"), ("start_timestamp", "i64"), ("pid", "i64"),
        ("control_stream_id", "i32"), ("local_control_stream_id", "i32"), ("events_stream_id", "i32"),
        ("header_length", "length_t", 1), ("error_buffer_length", "length_t", 1), ("", "pad4"),
        ("archive_id", "archiveId_t", 2),
    ],
    data=[("control_channel", ASCII), ("local_control_channel", ASCII), ("events_channel", ASCII),
          ("aeron_directory", ASCII)],
    block_length=128,
)  # fmt: skip


def export_catalog(directory: str, target: str | None = None, *, storage: Storage | None = None) -> int:
    """Write Aeron's catalog and mark file of an archive folder into `target` (default the folder itself).

    Returns how many recordings it holds. The files show the archive as it is now, and stopped; Ordo itself never reads
    them. Raises StorageMissingError, StorageExistsError where a catalog or mark file is there that is in use, and
    StorageError where they cannot be written.
    """
    storage = storage or default_storage()
    recordings = list_recordings(directory, storage=storage)
    folder = Path(target or directory)
    is_own = os.path.exists(folder / CATALOG_STORE_NAME)  # the mark file there is that of the archive, if it runs
    if not is_own and (folder / MARK_FILE_NAME).exists() and _activity(folder / MARK_FILE_NAME) != INACTIVE:
        raise StorageExistsError(f"{folder / MARK_FILE_NAME} belongs to an archive of Aeron; give another folder")
    replace_file(folder / CATALOG_NAME, encode_catalog(recordings))
    if not is_own or not _is_live(folder / MARK_FILE_NAME):
        replace_file(folder / MARK_FILE_NAME, encode_mark_file(recordings))
    return len(recordings)


def replace_file(path: Path, content: bytes) -> None:
    """Write a complete file durably; if that fails, the old one stays. Raises StorageError."""
    try:
        write_durably(path, content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


def _is_live(path: Path) -> bool:
    """Return whether a mark file is that of an archive that runs: it is not replaced then."""
    return path.exists() and SystemClock().epoch_ms() - _activity(path) < ACTIVITY_TIMEOUT_MS


def _activity(path: Path) -> int:
    body = path.read_bytes()[:128]
    return int(struct.unpack_from("<q", body, ACTIVITY_OFFSET)[0]) if len(body) >= 24 else INACTIVE


def encode_catalog(recordings: list[RecordingDescriptor]) -> bytes:
    """Return the bytes of Aeron's catalog file; entries have CRC-32C checksums, as the frames have."""
    next_id = recordings[-1].recording_id + 1 if recordings else 0
    parts = [_CATALOG_HEADER.pack(FILE_VERSION, _CATALOG_HEADER.size, next_id, ENTRY_ALIGNMENT, 0)]
    for descriptor in recordings:
        fields = descriptor._asdict()
        state = fields.pop("state")
        body = RECORDING_DESCRIPTOR.encode_body(control_session_id=0, correlation_id=0, **fields)
        length = -(_ENTRY_HEADER.size + len(body)) % ENTRY_ALIGNMENT + len(body)
        body = body.ljust(length, b"\0")
        parts += (_ENTRY_HEADER.pack(length, state, _signed(crc32c(body)), 0), body)
    content = b"".join(parts)
    return content.ljust(max(CATALOG_LENGTH_MIN, len(content) + ENTRY_ALIGNMENT), b"\0")


def encode_mark_file(recordings: list[RecordingDescriptor]) -> bytes:
    """Return the bytes of the mark file of an archive that is not running."""
    header = MARK_HEADER.encode(
        version=FILE_VERSION,
        activity_timestamp=INACTIVE,
        start_timestamp=max((found.start_timestamp for found in recordings), default=0),
        pid=0,
        control_stream_id=NULL_VALUE,
        local_control_stream_id=NULL_VALUE,
        events_stream_id=NULL_VALUE,
        header_length=MARK_HEADER_LENGTH,
        error_buffer_length=ERROR_BUFFER_LENGTH,
        archive_id=NULL_VALUE,
    )
    return header.ljust(MARK_HEADER_LENGTH + ERROR_BUFFER_LENGTH, b"\0")


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Return the Castagnoli checksum; for a few hundred bytes, in Python."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _signed(value: int) -> int:
    return value - ((value & 0x80000000) << 1)

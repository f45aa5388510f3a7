"""The catalog: what recordings there are (archive.md B2 in content, kept in LMDB through the metadata seam).

    key                      value
    "format"                 u32 version of this layout
    "next"                   i64 recording id given next; an id is never used twice
    "padding"                there when a PAD at the end of a recording counts, with nothing in it
    "rec/" + u64 big endian  one RecordingDescriptor

    value of a recording, little endian:
      0 i32 state              24 i64 start timestamp ms     56 i32 initial term id     76 i32 session id
      4 i32 reserved           32 i64 stop timestamp ms      60 i32 segment length      80 i32 stream id
      8 i64 recording id       40 i64 start position         64 i32 term length         84 u32 length, stripped channel
     16 i64 reserved           48 i64 stop position          68 i32 MTU                 .. u32 length, original channel
                                                             72 i32 reserved            .. u32 length, source identity

Every change is one durable transaction, whatever the sync mode of the segments.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from ordo.runtime.errors import ArchiveError, ConfigurationError, UnknownRecordingError
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.sentinels import NULL_POSITION

NULL_TIMESTAMP = -1
CATALOG_NAME = "catalog.mdb"
CATALOG_FORMAT = 1

ERROR_UNKNOWN_RECORDING = 5

_FORMAT_KEY = b"format"
_NEXT_KEY = b"next"
_PADDING_KEY = b"padding"
_PREFIX = b"rec/"
_FIXED = struct.Struct("<iiqqqqqqiiiiiii")


class RecordingState(IntEnum):
    """The state of a recording, according to its descriptor in the catalog."""

    INVALID = 0  # damaged below a position that was safe once: read-only up to its stop position until truncated
    VALID = 1
    DELETED = 2  # being purged; its files go, then the entry


class RecordingDescriptor(NamedTuple):
    """One recording. Positions and lengths in bytes, timestamps in ms since 1970; -1 is "none yet"."""

    recording_id: int
    start_position: int
    stop_position: int
    start_timestamp: int
    stop_timestamp: int
    initial_term_id: int
    segment_length: int
    term_length: int
    mtu: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str
    state: RecordingState = RecordingState.VALID

    @property
    def is_active(self) -> bool:
        """Whether it is being recorded, or was never stopped in an orderly way."""
        return self.stop_position == NULL_POSITION


def encode_descriptor(descriptor: RecordingDescriptor) -> bytes:
    """Return a descriptor in the catalog's encoding."""
    d = descriptor
    fixed = _FIXED.pack(
        d.state, 0, d.recording_id, 0, d.start_timestamp, d.stop_timestamp, d.start_position, d.stop_position,
        d.initial_term_id, d.segment_length, d.term_length, d.mtu, 0, d.session_id, d.stream_id,
    )  # fmt: skip
    texts = (text.encode() for text in (d.stripped_channel, d.original_channel, d.source_identity))
    return fixed + b"".join(struct.pack("<I", len(text)) + text for text in texts)


def decode_descriptor(value: bytes) -> RecordingDescriptor:
    """Return the descriptor in a catalog value. Raises ArchiveError when it is not one."""
    try:
        fields = _FIXED.unpack_from(value)
        texts, offset = [], _FIXED.size
        for _ in range(3):
            (length,) = struct.unpack_from("<I", value, offset)
            texts.append(value[offset + 4 : offset + 4 + length].decode())
            offset += 4 + length
        if offset != len(value):
            raise ValueError(f"length={len(value)} expected={offset}")
        state = RecordingState(fields[0])
    except (struct.error, ValueError) as error:
        raise ArchiveError(f"a catalog entry is damaged: {error}; restore {CATALOG_NAME} from a copy") from error
    _, _, recording_id, _, start_ms, stop_ms, start, stop, initial_term_id, segment, term, mtu, _, session, stream = (
        fields
    )
    stripped, original, source = texts
    return RecordingDescriptor(
        recording_id, start, stop, start_ms, stop_ms, initial_term_id, segment, term, mtu, session, stream,
        stripped, original, source, state,
    )  # fmt: skip


def _key(recording_id: int) -> bytes:
    return _PREFIX + recording_id.to_bytes(8, "big")


class Catalog:
    """Recording descriptors in a metadata store. One writer, any number of readers in other processes.

    `store` is an open MetadataStore; a read-only one serves everything but the changes. `close` closes it.
    """

    def __init__(self, store: Any, *, read_only: bool = False) -> None:
        self._store = store
        stored = store.get(_FORMAT_KEY)
        version = None if stored is None else int.from_bytes(stored, "little")
        if version is None and not read_only:
            with store.transaction() as txn:
                txn.put(_FORMAT_KEY, CATALOG_FORMAT.to_bytes(4, "little"))
        elif version not in (None, CATALOG_FORMAT):
            raise ConfigurationError(
                f"{CATALOG_NAME} has format {version}, this version reads {CATALOG_FORMAT}; use the version that "
                "wrote it"
            )

    @classmethod
    def open(cls, storage: Storage, directory: str, *, read_only: bool = False) -> "Catalog":
        """Return the catalog of an archive folder; with `read_only` also while another process owns the folder."""
        path = f"{directory}/{CATALOG_NAME}"
        return cls(storage.open_metadata(path, read_only=read_only), read_only=read_only)

    @property
    def counts_padding(self) -> bool:
        """Whether a PAD that nothing follows is part of its recording (recorder.pxd)."""
        return self._store.get(_PADDING_KEY) is not None

    def count_padding(self) -> None:
        """Have a PAD that nothing follows be part of its recording from now on, in this folder."""
        if not self.counts_padding:
            with self._store.transaction() as txn:
                txn.put(_PADDING_KEY, b"")

    def add(self, template: RecordingDescriptor) -> RecordingDescriptor:
        """Add and return an entry like `template` but with an id of its own."""
        recording_id = self.next_recording_id
        descriptor = template._replace(recording_id=recording_id)
        with self._store.transaction() as txn:
            txn.put(_NEXT_KEY, (recording_id + 1).to_bytes(8, "little"))
            txn.put(_key(recording_id), encode_descriptor(descriptor))
        return descriptor

    def update(self, recording_id: int, **changes: Any) -> RecordingDescriptor:
        """Change fields of an entry by name; return the new descriptor. Raises UnknownRecordingError."""
        descriptor = self.get(recording_id)._replace(**changes)
        with self._store.transaction() as txn:
            txn.put(_key(recording_id), encode_descriptor(descriptor))
        return descriptor

    def remove(self, recording_id: int) -> None:
        """Remove an entry; its id is not given again."""
        with self._store.transaction() as txn:
            txn.delete(_key(recording_id))

    def get(self, recording_id: int) -> RecordingDescriptor:
        """Return the descriptor of a recording, in any state. Raises UnknownRecordingError."""
        value = self._store.get(_key(recording_id)) if recording_id >= 0 else None
        if value is None:
            raise UnknownRecordingError(f"unknown recording id: {recording_id}", code=ERROR_UNKNOWN_RECORDING)
        return decode_descriptor(bytes(value))

    @property
    def next_recording_id(self) -> int:
        """The id that the next recording will get; it is higher than the id of every recording so far."""
        stored = self._store.get(_NEXT_KEY)
        return 0 if stored is None else int.from_bytes(stored, "little")

    def find(self, recording_id: int) -> RecordingDescriptor | None:
        """Return the descriptor of a recording that is not purged, or None when there is none."""
        value = self._store.get(_key(recording_id)) if recording_id >= 0 else None
        descriptor = None if value is None else decode_descriptor(bytes(value))
        return None if descriptor is None or descriptor.state is RecordingState.DELETED else descriptor

    def __iter__(self) -> Iterator[RecordingDescriptor]:
        """Iterate over every descriptor, in any state, by ascending id."""
        for _, value in self._store.items(_PREFIX):
            yield decode_descriptor(bytes(value))

    def close(self) -> None:
        """Close the store."""
        self._store.close()

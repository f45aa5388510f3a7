"""The functions of `ordo archive list | describe | verify | dump`.

Read-only: they may run beside the process that owns the folder.

for result in verify("/data/node0/archive"):
    print(result)
"""

from collections.abc import Iterator
from typing import NamedTuple

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.cursor import SegmentCursor
from ordo.archive.segments.reader import RecordedMessage, RecordingReader
from ordo.archive.segments.recovery import base_of, segment_bases
from ordo.archive.segments.scan import FrameScanner
from ordo.archive.segments.segments import parse_segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.errors import ArchiveError, CorruptFrameError, StorageError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.reporting.output import printable


class Verification(NamedTuple):
    """The findings of a check of every frame of one recording. Positions and lengths in bytes."""

    recording_id: int
    start_position: int
    stop_position: int  # the catalog's, or how far a recording that is still active goes
    frame_count: int | None  # good frames, PAD included; None when an archive elsewhere checked them
    is_active: bool
    damage: ArchiveError | StorageError | None  # the first: names segment file, position and reason

    @property
    def is_good(self) -> bool:
        """Whether every frame from start to stop is whole."""
        return self.damage is None

    def __str__(self) -> str:
        """Return the findings as one line."""
        head = f"recording {self.recording_id}: "
        if self.damage is None:
            end = "active, up to" if self.is_active else "stop"
            count = "" if self.frame_count is None else f" frames={self.frame_count}"
            return f"{head}OK start={self.start_position} {end}={self.stop_position}{count}"
        return f"{head}{'DAMAGED' if isinstance(self.damage, CorruptFrameError) else 'UNREADABLE'} {self.damage}"


def default_storage() -> FileStorage:
    """Return a storage of real files, with the catalog in LMDB."""
    return FileStorage(open_lmdb)


def list_recordings(directory: str, *, storage: Storage | None = None) -> list[RecordingDescriptor]:
    """Return the descriptors of an archive folder by ascending id.

    Raises StorageMissingError when there is no catalog.
    """
    catalog = Catalog.open(storage or default_storage(), directory, read_only=True)
    try:
        return [descriptor for descriptor in catalog if descriptor.state is not RecordingState.DELETED]
    finally:
        catalog.close()


def describe_recording(descriptor: RecordingDescriptor) -> str:
    """Return one stable line for a descriptor."""
    d = descriptor
    stop = "active" if d.is_active else str(d.stop_position)
    return (
        f"recording {d.recording_id}: stream={d.stream_id} session={d.session_id} start={d.start_position} stop={stop} "
        f"term_length={d.term_length} segment_length={d.segment_length} mtu={d.mtu} "
        f"initial_term_id={d.initial_term_id} channel={printable(d.stripped_channel)} "
        f"source={printable(d.source_identity)} "
        f"state={d.state.name}"
    )


def describe(directory: str, recording_id: int | None = None, *, storage: Storage | None = None) -> list[str]:
    """Return one line for each recording, or for one. Raises UnknownRecordingError, StorageMissingError."""
    return [describe_recording(found) for found in _chosen(directory, recording_id, storage or default_storage())]


def verify(
    directory: str, recording_id: int | None = None, *, storage: Storage | None = None
) -> Iterator[Verification]:
    """Check every frame of every recording, or of one: term, offset, stream, checksum, and no hole before the stop.

    Raises UnknownRecordingError, StorageMissingError.
    """
    storage = storage or default_storage()
    for descriptor in _chosen(directory, recording_id, storage):
        yield verify_recording(storage, directory, descriptor)


def verify_recording(storage: Storage, directory: str, descriptor: RecordingDescriptor) -> Verification:
    """Check every frame of one recording. An active one ends where nothing was written yet."""
    scanner = FrameScanner(SegmentCursor(storage, directory, descriptor))
    start, stop = descriptor.start_position, descriptor.stop_position
    if descriptor.is_active:
        bases = segment_bases(storage, directory, descriptor.recording_id)
        stop = bases[-1] + descriptor.segment_length if bases else start
    damage: CorruptFrameError | StorageError | None
    try:
        end, frame_count, damage = scanner.run(start, stop)
    except StorageError as error:
        end, frame_count, damage = start, 0, error
    if descriptor.is_active and scanner.ended_in_hole and base_of(descriptor, end) == base_of(descriptor, stop - 1):
        damage = None
    if damage is None and not descriptor.is_active and end != stop:
        damage = CorruptFrameError(
            f"recording {descriptor.recording_id} stops at position={stop}, within a frame that ends at position={end}",
            recording_id=descriptor.recording_id,
            position=stop,
            segment_path=scanner.cursor.path_of(stop),
            reason="stop position within a frame",
        )
    return Verification(
        descriptor.recording_id, start, end if descriptor.is_active else stop, frame_count, descriptor.is_active, damage
    )


def dump(
    directory: str, recording_id: int, from_position: int | None = None, *, storage: Storage | None = None
) -> Iterator[RecordedMessage]:
    """Yield the messages of a recording from a position on, where one begins (default its start), up to its end.

    Raises CorruptFrameError where it is damaged, UnknownRecordingError, StorageMissingError, ArchiveError.
    """
    storage = storage or default_storage()
    (descriptor,) = _chosen(directory, recording_id, storage)
    limit = verify_recording(storage, directory, descriptor).stop_position if descriptor.is_active else None
    reader = RecordingReader(storage, directory, descriptor, from_position)
    yield from reader.messages() if limit is None else reader.messages(limit)


def orphaned_segments(directory: str, *, storage: Storage | None = None) -> list[str]:
    """Return the names of segment files that belong to no recording, or lie outside its positions."""
    storage = storage or default_storage()
    known = {descriptor.recording_id: descriptor for descriptor in list_recordings(directory, storage=storage)}
    orphans = []
    for file_name in storage.list_files(directory):
        name = parse_segment_name(file_name)
        if name is not None and not _belongs(known.get(name.recording_id), name.base_position):
            orphans.append(file_name)
    return orphans


def _belongs(descriptor: RecordingDescriptor | None, base_position: int) -> bool:
    if descriptor is None or base_position < base_of(descriptor, descriptor.start_position):
        return False
    return descriptor.is_active or base_position <= base_of(descriptor, descriptor.stop_position)


def _chosen(directory: str, recording_id: int | None, storage: Storage) -> list[RecordingDescriptor]:
    catalog = Catalog.open(storage, directory, read_only=True)
    try:
        if recording_id is not None:
            return [catalog.get(recording_id)]
        return [descriptor for descriptor in catalog if descriptor.state is not RecordingState.DELETED]
    finally:
        catalog.close()

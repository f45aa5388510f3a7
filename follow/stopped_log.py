"""The log in an archive folder that nobody serves: of a stopped node, or what `ordo standby rejoin` has kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ordo.archive.segments.catalog import CATALOG_NAME, Catalog, RecordingState
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.runtime.errors import ConfigurationError, StorageMissingError
from ordo.runtime.io.storage import FileStorage

NO_LIMIT = (1 << 63) - 1


def read_stopped_log(
    folder: Path,
    from_position: int = 0,
    *,
    until_position: int | None = None,
    kinds: Collection[EntryKind] | None = None,
) -> Iterator[LogEntry]:
    """Yield the entries of the newest recording of the log in an archive folder, committed or not.

    `from_position`: where an entry begins; below where the recording begins, it begins there. Which requests are
    repeats is not known. Raises StorageMissingError for a folder that is no archive, ConfigurationError where it has no
    log or a node writes it, ArchiveError where the log is damaged.
    """
    if not (folder / CATALOG_NAME).exists():
        raise StorageMissingError(f"{folder}: no archive is there; give the folder that has {CATALOG_NAME}")
    storage = FileStorage(open_lmdb)
    catalog = Catalog.open(storage, str(folder), read_only=True)
    try:
        logs = [one for one in catalog if one.stream_id == LOG_STREAM_ID and one.state is not RecordingState.DELETED]
    finally:
        catalog.close()
    if not logs:
        raise ConfigurationError(f"{folder}: this archive has no recording of a log")
    if logs[-1].is_active:
        raise ConfigurationError(
            f"{folder}: a node writes this log, or was killed as it did: read it from the node (HOST:PORT)"
        )
    position = max(from_position, logs[-1].start_position)
    limit = NO_LIMIT if until_position is None else until_position
    for message in RecordingReader(storage, str(folder), logs[-1], position).messages(limit):
        entry = decode_entry(message.position, message.payload)
        if entry is not None and (kinds is None or entry.kind in kinds):
            yield entry._replace(is_repeat=None) if entry.request_number else entry

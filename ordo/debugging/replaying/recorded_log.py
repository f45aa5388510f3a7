"""The log and the snapshots of one folder, read only: of a member, running or not, of a backup, or of an archive."""

from __future__ import annotations

import struct
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.segments.catalog import CATALOG_NAME, Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, noted_position
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore, StoredState
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.follow.entries import decode_entry
from ordo.follow.log_commands import describe_entry
from ordo.follow.log_schemas import LogSchemas, schemas_of_folder
from ordo.pipeline.decoding.errors import CommitUnknownError
from ordo.pipeline.recordings.commit import live_commit_position
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.archive.segments.reader import RecordedMessage

ARCHIVE = "archive"
CLUSTER = "cluster"
BACKUP_STORE = "state.mdb"
MEMBER_STORE = f"{CLUSTER}/state.mdb"
RECORDED = "recorded"
"""As a commit position: whatever is on disk."""
_LEFT_OUT = "left out: "
_SKIP = struct.pack("<HH", ordo_codecs.SKIP_EVENT.template_id, ordo_codecs.SKIP_EVENT.schema_id)


class Checkpoint(NamedTuple):
    """The state of a service and of its container at a position, in the messages of a snapshot."""

    position: int
    time: int
    term_id: int
    messages: tuple[bytes, ...]

    @property
    def length_bytes(self) -> int:
        return sum(map(len, self.messages))


class RecordedLog:
    """One log of a folder: positions from `start` to `end`, and the snapshots of it that are there.

    Nothing in the folder is changed: it may be that of a running member.
    """

    def __init__(self, path: Path, commit: str = "auto") -> None:
        """Open the folder of a member, a backup or an archive.

        `commit`: where to end: `auto`, the stop position or what a running member has committed; `recorded`, whatever
        is on disk; or a position. Raises ConfigurationError, OrdoError.
        """
        self.path = path
        self.directory = str(_archive_of(path))
        self._is_backup = (path / BACKUP_STORE).exists() and (path / ARCHIVE).is_dir()
        self.storage = FileStorage(open_lmdb)
        state = _load_store(path)
        self.descriptor = self._choose(None if state is None else state.log_recording_id)
        self.start = self.descriptor.start_position
        self.end = self._find_end(commit)
        kept = () if state is None else state.snapshots
        self.snapshots = sorted(one for one in kept if one.is_valid and self.start <= one.log_position <= self.end)
        self.digests = {} if state is None else state.digests
        """The digests of snapshots, by their positions."""
        self._known_skips = None if state is None or not state.skips else state.skips

    def _choose(self, recording_id: int | None) -> RecordingDescriptor:
        catalog = Catalog.open(self.storage, self.directory, read_only=True)
        try:
            found = [one for one in catalog if one.state is not RecordingState.DELETED]
        finally:
            catalog.close()
        logs = [one for one in found if one.stream_id == LOG_STREAM_ID]
        chosen = [one for one in logs if one.recording_id == recording_id] or logs
        if not chosen:
            raise ConfigurationError(f"{self.path}: there is no log in this folder: give that of a member that has run")
        return max(chosen, key=lambda one: (one.start_position, one.recording_id))

    def _find_end(self, commit: str) -> int:
        stop = self.descriptor.stop_position
        if commit == "auto" and stop == NULL_POSITION and self._is_backup:
            commit = RECORDED  # a backup has nothing that is not committed
        if commit == "auto":
            return self._committed_position() if stop == NULL_POSITION else stop
        reader = self.reader(self.start)
        if commit == RECORDED:
            reader.skip_messages()
            return reader.position
        if not commit.isascii() or not commit.isdecimal():
            raise ConfigurationError(f"--commit {commit}: allowed is auto, {RECORDED}, or a position of the log")
        return int(commit) if stop == NULL_POSITION else min(int(commit), stop)

    def _committed_position(self) -> int:
        """Return what a member has committed that runs, or was killed."""
        try:
            return live_commit_position(self.directory, self.descriptor.recording_id)
        except CommitUnknownError:
            noted = noted_position(Path(self.directory).resolve().parent / CLUSTER / COMMIT_NOTE_NAME)
            if noted <= self.start:
                raise
            return noted

    def reader(self, position: int) -> RecordingReader:
        """Return a reader of the log from a position where a record begins."""
        return RecordingReader(self.storage, self.directory, self.descriptor, position)

    def records(self, position: int, end: int | None = None) -> Iterator[RecordedMessage]:
        """Yield the records that begin at a position or after it, up to the end."""
        return self.reader(position).messages(self.end if end is None else end)

    def load(self, entry: SnapshotEntry, service_id: int) -> Checkpoint:
        """Return one service's part of a snapshot. Raises ConfigurationError where the node had no such service."""
        ids = entry.service_recording_ids
        if service_id >= len(ids) or ids[service_id] == NULL_VALUE:
            raise ConfigurationError(f"--service-id {service_id}: the log is of services 0 to {len(ids) - 1}")
        reader = RecordingReader.open(self.storage, self.directory, ids[service_id])
        messages = tuple(container_snapshot.payloads(reader.messages()))
        return Checkpoint(entry.log_position, entry.timestamp, entry.leadership_term_id, messages)

    @cached_property
    def schemas(self) -> LogSchemas:
        """The schemas that the log has for its messages, up to its end; what cannot be read of them is left out."""
        try:
            return schemas_of_folder(Path(self.directory), self.descriptor.recording_id, self.end)
        except OrdoError:  # a damaged snapshot or log, which the replay tells of where it needs it
            return LogSchemas()

    def describe(self, position: int, record: bytes) -> str:
        """Return one line for a record of the log, messages as objects where the log has their schema."""
        entry = decode_entry(position, record)
        if entry is not None:
            return describe_entry(entry, self.schemas)
        found = ordo_codecs.decode_any(record)
        return f"{position} {'unknown' if found is None else found[0].name}"

    @cached_property
    def skips(self) -> dict[int, str]:
        """What a service is told in the place of the records that are left out, by their positions."""
        if self._known_skips is not None:
            return {at: _LEFT_OUT + one.text.decode("utf-8", "replace") for at, one in self._known_skips.items()}
        if self.path.joinpath(MEMBER_STORE).exists():
            return {}
        found: dict[int, str] = {}
        for record in self.records(self.start):
            if record.payload[2:6] == _SKIP:
                event = ordo_codecs.SKIP_EVENT.decode(record.payload)
                found.setdefault(event.skipped_position, _LEFT_OUT + event.text.decode("utf-8", "replace"))
        return found


def _archive_of(path: Path) -> Path:
    """Return the archive's folder in, or at, a path. Raises ConfigurationError where there is none."""
    if not path.is_dir():
        raise ConfigurationError(f"{path}: there is no such folder: give that of a member, a backup or an archive")
    for folder in (path / ARCHIVE, path):
        if (folder / CATALOG_NAME).exists():
            return folder
    raise ConfigurationError(
        f"{path}: there is no {CATALOG_NAME} in this folder, nor in {ARCHIVE}/ below it: give the folder of a member"
        " (its data_dir), a backup or an archive"
    )


def _load_store(path: Path) -> StoredState | None:
    """Return what a member or a backup keeps beside its archive; None for an archive alone."""
    below = (path / MEMBER_STORE, path / BACKUP_STORE)
    for file in below if (path / ARCHIVE).is_dir() else (path.resolve().parent / MEMBER_STORE,):
        if file.exists():
            store = StateStore(FileStorage(open_lmdb).open_metadata(str(file), read_only=True))
            try:
                return store.load()
            finally:
                store.close()
    return None

"""The folder of a backup.

    <folder>/archive/      recordings as in a node: stretches of the log, and the two parts of each snapshot
    <folder>/state.mdb     which recordings are whole snapshots, with their digests (cluster.module.state.state_store)
    <folder>/backup.json   the cluster that it is of: its identity, and the members' addresses
    <folder>/status.json   what the running `ordo backup run` does; written once a second

A stretch is one recording of the log. A backup has one as long as the cluster keeps the log for it; when the cluster
deletes log that is not here yet, another one begins behind the gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ordo.archive.archive import Archive
from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.module_snapshot import decode as decode_module
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.cluster.wire.streams import LOG_STREAM_ID, topic_of
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ConfigurationError, StorageError, StorageInUseError
from ordo.runtime.io.durable_files import write_durably
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.clock import SystemClock
from ordo.transport.client.client import TransportClient

ARCHIVE = "archive"
STATE = "state.mdb"
CLUSTER = "backup.json"
STATUS = "status.json"
FORMAT = 1


class Contents(NamedTuple):
    """What a backup has. Recordings that are being written have no stop position."""

    stretches: list[RecordingDescriptor]
    """Recordings of the log, by ascending position."""
    snapshots: list[SnapshotEntry]
    """In ascending order of position."""
    digests: dict[int, bytes]


class BackupFolder(Closing):
    """A backup that belongs to this process until `close`. Raises StorageInUseError while another one has it."""

    def __init__(
        self,
        path: Path,
        client: TransportClient | None,
        *,
        segment_length_bytes: int | None = None,
        state_path: Path | None = None,
    ) -> None:
        """Take the folder. What a crash left is cleaned up.

        `client`: what recordings are made with; None: the backup is only read. `state_path`: where the store is, if not
        beside the archive.
        """
        self.path = path
        storage = FileStorage(open_lmdb)
        storage.make_directory(str(path))
        options: dict[str, Any] = {}
        if segment_length_bytes is not None:
            options["segment_length_bytes"] = segment_length_bytes
        try:
            self.archive = Archive(
                str(path / ARCHIVE), storage=storage, clock=SystemClock(), client=client, sync="commit", **options
            )
        except StorageInUseError:
            raise StorageInUseError(f"{path}: another `ordo backup` is using this folder; stop it first") from None
        try:
            self.store = StateStore(storage.open_metadata(str(state_path or path / STATE)))
        except BaseException:
            self.archive.close()
            raise
        self._remove_fragments()

    def _remove_fragments(self) -> None:
        """Purge recordings of snapshots that never became whole."""
        kept = {one for entry in self.store.load().snapshots for one in entry.recording_ids}
        for descriptor in self.archive.recordings():
            is_of_topic = topic_of(descriptor.original_channel) is not None
            if descriptor.stream_id != LOG_STREAM_ID and descriptor.recording_id not in kept and not is_of_topic:
                self.archive.purge(descriptor.recording_id)

    def contents(self) -> Contents:
        return _contents(self.archive.recordings(), self.store)

    def known_cluster(self) -> KnownCluster:
        """Return which cluster the backup is of, as far as that is known."""
        kept, contents = read_json(self.path / CLUSTER).get("cluster"), self.contents()
        origin = self._origin_of_snapshots(contents) if kept is None else parse_identity(str(kept))
        known = KnownCluster(
            origin,
            "" if origin is None else f"the backup in {self.path}",
            "give the addresses of that cluster, or another folder",
        )
        ends = (*(one.log_position for one in contents.snapshots), *(one.stop_position for one in contents.stretches))
        known.position = max(ends, default=0)
        return known

    def _origin_of_snapshots(self, contents: Contents) -> Origin | None:
        """Return the origin in the newest snapshot, for a backup of an earlier release that has no identity."""
        if not contents.snapshots:
            return None
        messages = self.archive.reader(contents.snapshots[-1].module_recording_id, None).messages()
        said = decode_module([message.payload for message in messages]).identity
        return None if said is None else Origin(said.identity, said.position)

    def write_cluster(self, endpoints: list[str], origin: Origin | None) -> None:
        """Remember the cluster that the backup is of."""
        identity = {} if origin is None else {"cluster": identity_text(origin)}
        write_json(self.path / CLUSTER, {"format": FORMAT, "endpoints": endpoints, **identity})

    def write_status(self, values: dict[str, Any]) -> None:
        write_json(self.path / STATUS, values)

    def close(self) -> None:
        self.store.close()
        self.archive.close()


def _contents(recordings: list[RecordingDescriptor], store: StateStore) -> Contents:
    state = store.load()
    stretches = [one for one in recordings if one.stream_id == LOG_STREAM_ID]
    snapshots = sorted(entry for entry in state.snapshots if entry.is_valid)
    return Contents(sorted(stretches, key=lambda one: one.start_position), snapshots, state.digests)


def demand_backup(path: Path) -> None:
    """Raise ConfigurationError unless there is a backup in a folder."""
    if not (path / ARCHIVE).is_dir() or not (path / STATE).exists():
        raise ConfigurationError(f"{path}: there is no backup in this folder; `ordo backup run` makes one")


def look(path: Path) -> Contents:
    """Return what a backup has, also while another process writes it."""
    demand_backup(path)
    storage: Storage = FileStorage(open_lmdb)
    catalog = Catalog.open(storage, str(path / ARCHIVE), read_only=True)
    try:
        recordings = [one for one in catalog if one.state is not RecordingState.DELETED]
    finally:
        catalog.close()
    store = StateStore(storage.open_metadata(str(path / STATE), read_only=True))
    try:
        return _contents(recordings, store)
    finally:
        store.close()


def read_json(path: Path) -> dict[str, Any]:
    """Empty where there is none. Raises StorageError where it cannot be understood."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from None
    return found if isinstance(found, dict) else {}


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Replace a file as a whole. Raises StorageError."""
    try:
        write_durably(path, json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


Report = Callable[[str], None]
"""Takes one line for the log of the process."""

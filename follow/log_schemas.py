"""The schemas that a log has for its messages, and what the messages say by them (docs/MESSAGES.md).

    schemas = schemas_of(["10.0.0.1:9014"])
    schemas.decode(entry.payload)        # {0: Booking(account=7, ...)} by service; {}: no message of these schemas
    schemas.at(entry.position)           # what was in force there

A log that begins behind its SchemaEvents has them in the consensus module's snapshots. Schemas of one id follow each
other by SBE's rules of extension, so the newest one reads all messages, those of before it was in the log among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ordo.archive.client.client import ArchiveClient
from ordo.archive.segments.catalog import CATALOG_NAME, Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import SnapshotMark
from ordo.cluster.wire.streams import LOCAL_STREAMS_STEP, LOG_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID
from ordo.follow.entries import EntryKind, LogEntry
from ordo.runtime.errors import ConfigurationError, DecodeError, MessageError, OrdoError, StorageMissingError
from ordo.runtime.io.storage import FileStorage
from ordo.service_api.messages.logged import LoggedSchema
from ordo.service_api.messages.message import Schema

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.follow.entry_values import SchemaValues


class Recorded(Protocol):
    """A message of a recording, as an archive and its clients give it."""

    @property
    def position(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


Read = Callable[[RecordingDescriptor, int], Iterable[Recorded]]
"""Reads a recording from a position on, up to what it has now."""


class LogSchemas:
    """The schemas of one log. `problem`: why the newest of those that cannot be read is left out."""

    def __init__(self) -> None:
        self._logged: list[LoggedSchema] = []
        self._newest: dict[tuple[int, int], Schema] = {}
        self.problem = ""

    def __len__(self) -> int:
        return len(self._logged)

    def add(self, one: LoggedSchema) -> None:
        """Add a schema, behind those of earlier positions; one that is known changes nothing."""
        if any((one.service_id, one.digest) == (known.service_id, known.digest) for known in self._logged):
            return
        try:
            schema = one.schema
        except MessageError as error:
            self.problem = f"the log at position {one.position}: {error.message}"
            return
        self._logged.append(one)
        self._newest[one.service_id, schema.id] = schema

    def note(self, entry: LogEntry) -> None:
        """Add the schema of a log's entry, if it has one."""
        if entry.kind is EntryKind.SCHEMA:
            self.add(logged_in(entry))

    def at(self, position: int) -> list[Schema]:
        """Return the schemas that were in force at a position, by service and id."""
        found = {(one.service_id, one.schema.id): one.schema for one in self._logged if one.position <= position}
        return [schema for _, schema in sorted(found.items(), key=lambda item: item[0])]

    @property
    def newest(self) -> list[Schema]:
        """The newest schemas, by service and id: each reads all messages of its id."""
        return [schema for _, schema in sorted(self._newest.items(), key=lambda item: item[0])]

    def decode(self, payload: bytes) -> dict[int, object]:
        """Return what a payload is by the newest schema that each service has of its id.

        All services are given all messages, so where several have a schema of one id, each may read it in its own way.
        """
        found: dict[int, object] = {}
        for (service_id, _), schema in sorted(self._newest.items(), key=lambda item: item[0]):
            try:
                found[service_id] = schema.decode(payload)
            except MessageError:
                continue
        return found


class _Snapshot(NamedTuple):
    log_position: int
    schemas: list[LoggedSchema]


def schemas_of(
    addresses: Sequence[str], *, credentials: bytes | Callable[[], bytes] = b"", aeron_dir: str | None = None
) -> LogSchemas:
    """Return the schemas that the log of a cluster has, by the archive endpoints of its members.

    Raises what the last member's archive gave as a reason, if none tells.
    """
    problem: OrdoError = ConfigurationError("addresses: give the archive endpoint of at least one member")
    for address in addresses:
        try:
            with ArchiveClient.connect(address, credentials=credentials, aeron_dir=aeron_dir) as archive:
                return _find(
                    list(archive.list_recordings()),
                    lambda one, position: archive.replay(one.recording_id, position=position),
                )
        except OrdoError as error:
            problem = error
    raise problem


def schemas_of_folder(folder: Path) -> LogSchemas:
    """Return the schemas of the log in the folder of an archive that nobody serves. Raises StorageMissingError."""
    if not (folder / CATALOG_NAME).exists():
        raise StorageMissingError(f"{folder}: no archive is there; give the folder that has {CATALOG_NAME}")
    storage = FileStorage(open_lmdb)
    catalog = Catalog.open(storage, str(folder), read_only=True)
    try:
        recordings = [one for one in catalog if one.state is not RecordingState.DELETED]
    finally:
        catalog.close()
    return _find(
        recordings,
        lambda one, position: RecordingReader(storage, str(folder), one, max(position, one.start_position)).messages(),
    )


def _find(recordings: Sequence[RecordingDescriptor], read: Read) -> LogSchemas:
    """Read the newest snapshot that is whole, and the log behind it."""
    found = LogSchemas()
    logs = [one for one in recordings if one.stream_id == LOG_STREAM_ID]
    position = logs[-1].start_position if logs else 0
    for one in reversed(recordings):
        if (one.stream_id - MODULE_SNAPSHOT_STREAM_ID) % LOCAL_STREAMS_STEP == 0:
            snapshot = _read_snapshot(read(one, one.start_position))
            if snapshot is not None:
                position = max(position, snapshot.log_position)
                for schema in snapshot.schemas:
                    found.add(schema)
                break
    for message in read(logs[-1], position) if logs else ():
        values = _schema_event(message.payload)
        if values is not None:
            found.add(LoggedSchema(message.position, values.service_id, values.digest, values.packed))
    return found


def logged_in(entry: LogEntry) -> LoggedSchema:
    """Return the schema of an entry of kind SCHEMA."""
    values = cast("SchemaValues", entry.values)
    return LoggedSchema(entry.position, entry.values.service_id, values.digest, values.packed)


def _schema_event(record: bytes) -> records.SchemaEvent | None:
    try:
        table, values = ordo_codecs.decode(record) or (None, None)
    except DecodeError:
        return None
    return cast("records.SchemaEvent", values) if table is ordo_codecs.SCHEMA_EVENT else None


def _read_snapshot(messages: Iterable[Recorded]) -> _Snapshot | None:
    """Return what a recording has of the consensus module's snapshot; None where it is none, or not whole."""
    position, schemas = None, []
    for message in messages:
        try:
            found = ordo_codecs.decode_any(message.payload)
        except DecodeError:
            return None
        if found is None:
            continue
        table, values = found
        if table is codecs.SNAPSHOT_MARKER:
            if values.type_id != codecs.SNAPSHOT_TYPE_CONSENSUS_MODULE:
                return None
            if values.mark == SnapshotMark.END:
                return None if position is None else _Snapshot(position, schemas)
            position = values.log_position
        elif table is ordo_codecs.SCHEMA_EVENT:
            schemas.append(LoggedSchema(values.log_position, values.service_id, values.digest, values.packed))
    return None

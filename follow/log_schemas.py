"""The schemas that a log has for its messages, and what the messages say by them (docs/MESSAGES.md).

    schemas = schemas_of(["10.0.0.1:9014"])
    schemas.decode(entry.payload)        # {0: Booking(account=7, ...)} by service; {}: no message of these schemas
    schemas.read(entry.payload, entry.position)     # the one message that it is, or MessageError that says why not
    schemas.at(entry.position)           # what was in force there

A log that begins behind its SchemaEvents has them in the consensus module's snapshots. Schemas of one id follow each
other by SBE's rules of extension, so the newest one reads all messages, those of before it was in the log among them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
from ordo.service_api.messages.logged import NO_SERVICE, LoggedSchema, describe_conflict, extends
from ordo.service_api.messages.message import Schema
from ordo.service_api.messages.plain import says_same

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.follow.entry_values import SchemaValues


HEADER_LENGTH = 8
_SCHEMA_EVENT = struct.pack("<HH", ordo_codecs.SCHEMA_EVENT.template_id, ordo_codecs.SCHEMA_EVENT.schema_id)
POSITION_MAX = (1 << 63) - 1


class Recorded(Protocol):
    """A message of a recording, as an archive and its clients give it."""

    @property
    def position(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


Read = Callable[[RecordingDescriptor, int], Iterable[Recorded]]
"""Reads a recording from a position on, up to what it has now."""


class Lineage(NamedTuple):
    """The schemas of one service and id, each of which extends the one before: the newest reads what they say.

    `since`: the position behind the first of them; nothing is known of messages in front of it. `until`: the position
    behind one that contradicts them, and `problem` in what; nothing is known of messages behind that.
    """

    service_id: int
    schema: Schema
    since: int
    until: int = POSITION_MAX
    problem: str = ""

    def continued(self, one: LoggedSchema) -> Lineage:
        """Return the lineage with one more schema of its id."""
        if self.problem or extends(self.schema, one.schema):
            return self
        if conflict := describe_conflict(one.schema, self.schema):
            problem = f"service {self.service_id} has schemas that contradict each other: {conflict}"
            return self._replace(until=one.position, problem=problem)
        return self._replace(schema=one.schema)

    def is_of(self, payload: bytes) -> bool:
        """Return whether a payload says that it is of this schema."""
        return len(payload) >= HEADER_LENGTH and _schema_id(payload, self.schema.is_big_endian) == self.schema.id

    def decode(self, payload: bytes, position: int) -> object:
        """Return the message that a payload is. Raises MessageError, also in front of the first schema."""
        if position <= self.since:
            raise MessageError(
                f"schema {self.schema.id} is in the log from position {self.since} on: which code wrote what is in "
                "front of it is not known"
            )
        message: object = self.schema.decode_recorded(payload)
        return message


class LogSchemas:
    """The schemas of one log. `problem`: why the first of those that cannot be read is left out."""

    def __init__(self, logged: Iterable[LoggedSchema] = ()) -> None:
        self.logged: list[LoggedSchema] = []
        """The schemas that can be read, in the order of the log."""
        self._newest: dict[tuple[int, int], Schema] = {}
        self._lineages: dict[tuple[int, int], Lineage] = {}
        self._readers: list[Lineage] | None = []
        """None: not made since the last schema came."""
        self.problem = ""
        self.lost_from = POSITION_MAX
        """Behind this position the log has a schema that cannot be read: it may be one of any message."""
        self._lost: dict[int, int] = {}
        """Service -> the position behind its first schema that cannot be read."""
        self.searched_to = 0
        """Up to this position of the log they were looked for."""
        for one in logged:
            self.add(one)

    def __len__(self) -> int:
        return len(self.logged)

    def add(self, one: LoggedSchema) -> None:
        """Add a schema, behind those of earlier positions; one that is known changes nothing."""
        try:
            schema = one.schema
        except MessageError as error:
            self._lose(one, error.message)
            return
        if any((one.service_id, one.digest) == (known.service_id, known.digest) for known in self.logged):
            return
        self.logged.append(one)
        key = one.service_id, schema.id
        self._newest[key] = schema
        known = self._lineages.get(key)
        self._lineages[key] = Lineage(one.service_id, schema, one.position) if known is None else known.continued(one)
        self._readers = None

    @property
    def readers(self) -> list[Lineage]:
        """What `read` goes by, in the order of the log; services that have the same messages share one."""
        if self._readers is None:
            self._readers = _readers_of(self._lineages.values())
        return self._readers

    def _lose(self, one: LoggedSchema, reason: str) -> None:
        self._lost[one.service_id] = min(one.position, self._lost.get(one.service_id, POSITION_MAX))
        if one.position < self.lost_from:
            self.lost_from = one.position
            self.problem = f"the log at position {one.position}: {reason}" if one.digest else reason

    def copy(self) -> LogSchemas:
        """Return the same schemas, to which others can be added."""
        made = LogSchemas(self.logged)
        made.problem, made.lost_from, made.searched_to = self.problem, self.lost_from, self.searched_to
        made._lost = dict(self._lost)
        return made

    def note(self, entry: LogEntry) -> None:
        """Add the schema of a log's entry, if it has one."""
        if entry.kind is EntryKind.SCHEMA:
            self.add(logged_in(entry))

    def at(self, position: int) -> list[Schema]:
        """Return the schemas that were in force at a position, by service and id."""
        found = {(one.service_id, one.schema.id): one.schema for one in self.logged if one.position <= position}
        return [schema for _, schema in sorted(found.items(), key=lambda item: item[0])]

    @property
    def newest(self) -> list[Schema]:
        """The newest schemas, by service and id: each reads all messages of its id."""
        return [schema for _, schema in sorted(self._newest.items(), key=lambda item: item[0])]

    def decode(self, payload: bytes, position: int = POSITION_MAX) -> dict[int, object]:
        """Return what a payload is by the newest schema that each service has of its id.

        All services are given all messages, so where several have a schema of one id, each may read it in its own way.
        Behind a schema that cannot be read, its service says nothing; `position` is that of the payload.
        """
        found: dict[int, object] = {}
        lost_from = self._lost.get(NO_SERVICE, POSITION_MAX)
        for (service_id, _), schema in sorted(self._newest.items(), key=lambda item: item[0]):
            if min(lost_from, self._lost.get(service_id, POSITION_MAX)) < position:
                continue
            try:
                found[service_id] = schema.decode_recorded(payload)
            except MessageError:
                continue
        return found

    def read(self, payload: bytes, position: int) -> object:
        """Return the message that a payload at a position is. Raises MessageError, which says why that is not known.

        Unlike `decode` it vouches for what it returns: not for messages in front of their schema, which code that
        nobody knows may have written, nor for those that two services read differently, nor for any behind a schema
        that cannot be read: that may be of any message, and any service.
        """
        if position > self.lost_from and len(payload) >= HEADER_LENGTH:
            raise MessageError(f"from position {self.lost_from} on it is not known what messages are: {self.problem}")
        found: list[tuple[Lineage, object]] = []
        problem = self._describe_unknown(payload)
        for one in self.readers:
            if one.is_of(payload):
                if position > one.until:
                    raise MessageError(f"from position {one.until} on {one.problem}")
                try:
                    found.append((one, one.decode(payload, position)))
                except MessageError as error:
                    problem = error.message
        if not found:
            raise MessageError(problem)
        first, message = found[0]
        version = int.from_bytes(payload[6:8], "big" if first.schema.is_big_endian else "little")
        for other, reading in found[1:]:
            if not says_same(message, reading, version):
                raise MessageError(
                    f"services {first.service_id} and {other.service_id} read it differently, as "
                    f"{type(message).__name__} and {type(reading).__name__}: give their schemas ids of their own"
                )
        return message

    def _describe_unknown(self, payload: bytes) -> str:
        if len(payload) < HEADER_LENGTH:
            return f"{len(payload)} bytes are no message: its header alone has {HEADER_LENGTH}"
        known = ", ".join(sorted({str(one.schema.id) for one in self.readers})) or "none"
        more = f"; {self.problem}" if self.problem else ""
        number = _schema_id(payload, any(one.schema.is_big_endian for one in self.readers))
        return f"schema {number} is not in the log, which has {known}{more}"


def _readers_of(lineages: Iterable[Lineage]) -> list[Lineage]:
    """Return lineages in the order of the log, without those of whose id another one reads all messages as well."""
    found: list[Lineage] = []
    places: dict[int, list[int]] = {}
    """Id of a schema -> where its lineages stand."""
    for one in sorted(lineages, key=lambda each: each.since):
        of_id = places.setdefault(one.schema.id, [])
        for index in of_id:
            other = found[index]
            if one.problem or other.problem:
                continue
            if extends(other.schema, one.schema):
                break
            if extends(one.schema, other.schema):
                found[index] = other._replace(schema=one.schema)
                break
        else:
            of_id.append(len(found))
            found.append(one)
    return found


def _schema_id(payload: bytes, is_big_endian: bool) -> int:
    return int.from_bytes(payload[4:6], "big" if is_big_endian else "little")


class SnapshotSchemas(NamedTuple):
    """What a snapshot of the consensus module has: all schemas up to its position in the log."""

    log_position: int
    schemas: list[LoggedSchema]


NO_SNAPSHOT = SnapshotSchemas(0, [])
"""What stands for a snapshot where there is none."""


def schemas_of(
    addresses: Sequence[str],
    *,
    credentials: bytes | Callable[[], bytes] = b"",
    aeron_dir: str | None = None,
    known: LogSchemas | None = None,
) -> LogSchemas:
    """Return the schemas that the log of a cluster has, by the archive endpoints of its members.

    `known`: what an earlier call returned; only what the log has got since is looked through.

    Raises what the last member's archive gave as a reason, if none tells.
    """
    problem: OrdoError = ConfigurationError("addresses: give the archive endpoint of at least one member")
    for address in addresses:
        try:
            with ArchiveClient.connect(address, credentials=credentials, aeron_dir=aeron_dir) as archive:
                return _find(
                    list(archive.list_recordings()),
                    lambda one, position: archive.replay(one.recording_id, position=position),
                    known=known,
                )
        except OrdoError as error:
            problem = error
    raise problem


def schemas_of_folder(folder: Path, log_id: int | None = None, end: int = POSITION_MAX) -> LogSchemas:
    """Return the schemas of the log in an archive's folder, as far as its files go or to `end`.

    `log_id`: the recording that is the log; otherwise the newest. Raises StorageMissingError.
    """
    if not (folder / CATALOG_NAME).exists():
        raise StorageMissingError(f"{folder}: no archive is there; give the folder that has {CATALOG_NAME}")
    storage = FileStorage(open_lmdb)
    catalog = Catalog.open(storage, str(folder), read_only=True)
    try:
        recordings = [one for one in catalog if one.state is not RecordingState.DELETED]
    finally:
        catalog.close()

    def read(one: RecordingDescriptor, position: int) -> Iterable[Recorded]:
        reader = RecordingReader(storage, str(folder), one, max(position, one.start_position))
        is_bounded = end < POSITION_MAX and one.stream_id == LOG_STREAM_ID
        return reader.messages(end) if is_bounded else reader.messages()

    chosen = [
        one for one in recordings if log_id is None or one.stream_id != LOG_STREAM_ID or one.recording_id == log_id
    ]
    return _find(chosen, read, end)


def _find(
    recordings: Sequence[RecordingDescriptor], read: Read, end: int = POSITION_MAX, known: LogSchemas | None = None
) -> LogSchemas:
    """Read the newest snapshot that is whole and not of a position behind `end`, and the log behind it.

    Or the log behind what is `known`, as far as that is still there.
    """
    logs = [one for one in recordings if one.stream_id == LOG_STREAM_ID]
    start = logs[-1].start_position if logs else 0
    if known is not None and start <= known.searched_to:
        found, position = known.copy(), known.searched_to
    else:
        snapshot = newest_snapshot(
            ((one.stream_id, partial(read, one, one.start_position)) for one in reversed(recordings)), end
        )
        found, position = LogSchemas(in_front(snapshot, start)), max(start, snapshot.log_position)
    found.searched_to = position
    for message in read(logs[-1], position) if logs else ():
        found.searched_to = message.position
        if message.payload[2:6] != _SCHEMA_EVENT:
            continue
        found.add(recorded_schema(message.position, message.payload))
    return found


def newest_snapshot(newest_first: Iterable[tuple[int, Callable[[], Iterable[Recorded]]]], end: int) -> SnapshotSchemas:
    """Return what the newest whole snapshot of the module up to a position has.

    `newest_first`: the stream ids of a node's recordings, and what reads one.
    """
    for stream_id, read in newest_first:
        if (stream_id - MODULE_SNAPSHOT_STREAM_ID) % LOCAL_STREAMS_STEP == 0:
            snapshot = _read_snapshot(read())
            if snapshot is not None and snapshot.log_position <= end:
                return snapshot
    return NO_SNAPSHOT


def in_front(snapshot: SnapshotSchemas, start: int) -> list[LoggedSchema]:
    """Return the schemas of a snapshot, and what stands for those between it and where the log begins."""
    if start <= snapshot.log_position:
        return snapshot.schemas
    reason = (
        f"the log begins at {start}, and its newest whole snapshot up to there is of position {snapshot.log_position}: "
        "schemas between them are lost; a newer snapshot has them"
    )
    return [*snapshot.schemas, LoggedSchema.lost(snapshot.log_position, reason)]


def logged_in(entry: LogEntry) -> LoggedSchema:
    """Return the schema of an entry of kind SCHEMA."""
    values = cast("SchemaValues", entry.values)
    return LoggedSchema(entry.position, entry.values.service_id, values.digest, values.packed)


def recorded_schema(position: int, record: bytes) -> LoggedSchema:
    """Return the schema of a record that says of itself that it has one."""
    try:
        _, found = ordo_codecs.decode(record) or (None, None)
    except DecodeError as error:
        return LoggedSchema.lost(position, f"the record of a schema at position {position} is damaged: {error.message}")
    if found is None:
        return LoggedSchema.lost(position, f"the record of a schema at position {position} is no such record")
    values = cast("records.SchemaEvent", found)
    return LoggedSchema(position, values.service_id, values.digest, values.packed)


def _read_snapshot(messages: Iterable[Recorded]) -> SnapshotSchemas | None:
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
                return None if position is None else SnapshotSchemas(position, schemas)
            position = values.log_position
        elif table is ordo_codecs.SCHEMA_EVENT:
            schemas.append(LoggedSchema(values.log_position, values.service_id, values.digest, values.packed))
    return None
